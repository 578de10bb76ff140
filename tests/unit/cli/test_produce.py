"""The parts of `aioproducer produce`: lines, keys and values, and the count of outcomes."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.cli.lines import LineSplitter, MissingKeyError, RecordFormat
from aioproducer.cli.record_outcomes import DeliveryCounter
from aioproducer.errors import DeliveryTimeoutError
from aioproducer.model import RecordMetadata


def split(chunks: list[bytes], limit: int = 1000) -> list[bytes | None]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, *splitter.end()]


@given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"b", b"\n"))))
def test_lines_do_not_depend_on_where_chunks_end(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert split(chunks) == expected


def test_empty_lines_are_lines_and_other_bytes_stay() -> None:
    assert split([b"\n\r\n\0\xff\xfe\n\n"]) == [b"", b"\r", b"\0\xff\xfe", b""]


def test_a_last_line_without_end_counts() -> None:
    assert split([b"a\nb"]) == [b"a", b"b"]
    assert split([b"a\n"]) == [b"a"]
    assert split([]) == []


@pytest.mark.parametrize("chunks", [[b"12345\nx\n"], [b"123", b"45\nx\n"], [b"1234", b"5", b"\nx"]])
def test_a_line_over_the_limit_is_dropped_and_the_next_is_whole(chunks: list[bytes]) -> None:
    assert split(chunks, limit=4) == [None, b"x"]
    assert split(chunks, limit=5) == [b"12345", b"x"]


def test_dropped_lines_are_counted_and_empty_ones_are_kept() -> None:
    splitter = LineSplitter(limit=4)
    assert splitter.feed(b"\n12345\n\n1234\n") == [b"", None, b"", b"1234"]
    assert splitter.dropped == 1
    assert splitter.feed(b"12345") == []
    assert splitter.end() == [None]
    assert splitter.dropped == 2


def test_an_endless_line_takes_no_memory() -> None:
    splitter = LineSplitter(limit=10)
    for _ in range(1000):
        assert list(splitter.feed(b"x" * 9)) == []
        assert sum(map(len, splitter._parts)) <= 10
    assert list(splitter.end()) == [None]
    assert not splitter.unfinished


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (b"k:v", b"k", b"v"),
        (b"k:v:w", b"k", b"v:w"),
        (b":v", b"", b"v"),
        (b"k:", b"k", b""),
        (b"NULL:v", None, b"v"),
        (b"k:NULL", b"k", None),
    ],
)
def test_key_and_value(line: bytes, key: bytes | None, value: bytes | None) -> None:
    assert RecordFormat(b":", b"NULL").parse(line) == (key, value)


def test_a_line_that_is_a_value_as_it_is() -> None:
    assert RecordFormat().is_plain
    assert not RecordFormat(b":").is_plain
    assert not RecordFormat(None, b"NULL").is_plain


def test_without_separator_a_line_is_a_value() -> None:
    assert RecordFormat().parse(b"a\tb") == (None, b"a\tb")


def test_a_line_without_its_separator() -> None:
    with pytest.raises(MissingKeyError, match=r"no key separator b':' in b'value'"):
        RecordFormat(b":").parse(b"value")
    assert RecordFormat(b":", ignore_error=True).parse(b"value") == (None, b"value")


def test_keys_and_values_of_many_lines() -> None:
    by_colon = RecordFormat(b":")
    assert by_colon.split([b"a:1", b":", b"b:2:3"]) == ([b"a", b"", b"b"], [b"1", b"", b"2:3"])
    assert by_colon.split([b"a:1", b"b"]) is None
    assert by_colon.split([]) is None
    assert RecordFormat(b":", b"NULL").split([b"a:1"]) is None
    assert RecordFormat().split([b"a:1"]) is None


async def count(
    *fates: RecordMetadata | Exception | None,
) -> tuple[DeliveryCounter, list[str], list[BaseException]]:
    """None is a cancelled future."""
    told: list[str] = []
    failures: list[BaseException] = []
    deliveries = DeliveryCounter(told.append, failures.append)
    for fate in fates:
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        deliveries.watch(future)
        if fate is None:
            future.cancel()
        elif isinstance(fate, Exception):
            future.set_exception(fate)
        else:
            future.set_result(fate)
    await asyncio.sleep(0)
    return deliveries, told, failures


async def test_delivered_records_and_their_bytes() -> None:
    deliveries, told, failures = await count(
        RecordMetadata("t", 0, 0, 0, 3, 10), RecordMetadata("t", 0, 1, 0, -1, -1)
    )
    assert (deliveries.delivered, deliveries.failed, deliveries.bytes) == (2, 0, 13)
    assert (told, failures) == ([], [])


async def test_equal_errors_are_told_once_and_no_more_than_five() -> None:
    errors = [DeliveryTimeoutError(f"error {number // 2}") for number in range(20)]
    deliveries, told, failures = await count(*errors)
    assert told == [f"error {number}" for number in range(5)]
    assert (deliveries.failed, failures) == (20, errors)


async def test_a_cancelled_record_counts_as_failed() -> None:
    deliveries, told, failures = await count(None)
    assert (deliveries.failed, failures) == (1, [])
    assert told == ["a record was cancelled before it was sent"]
