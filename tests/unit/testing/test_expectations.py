"""Expectations of records, the messages of their errors, and no secret in a traceback."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from traceback import TracebackException
from typing import Any

import pytest

from aioproducer import ProducerRecord, TopicPartition
from aioproducer.errors import ConfigError
from aioproducer.model import ConsumerRecord
from aioproducer.testing import Expectations, ReadRecords, expect, read_back
from aioproducer.testing.expected_record import ExpectedRecord, pair


def record(
    value: bytes | None, offset: int = 0, partition: int = 0, key: bytes | None = None, **more: Any
) -> ConsumerRecord:
    fields = {"timestamp_ms": 1_000, "timestamp_type": "CreateTime", "headers": (), **more}
    return ConsumerRecord("orders", partition, offset, key=key, value=value, **fields)


def read(*records: ConsumerRecord) -> ReadRecords:
    ends = {each.topic_partition: each.offset + 1 for each in records}
    return ReadRecords(records, ends, "read_committed")


def message(raised: pytest.ExceptionInfo[AssertionError]) -> list[str]:
    return str(raised.value).splitlines()


ORDERS = read(
    record(b"two teas", 0, 0, b"bob"),
    record(b"one espresso", 1, 0, b"anna", headers=(("trace", b"1"), ("trace", b"2"))),
    record(None, 0, 2, b"anna"),
)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"value": b"one espresso"},
        {"value": "one espresso", "key": "anna"},
        {"value": bytearray(b"one espresso"), "partition": 0, "offset": 1, "topic": "orders"},
        {"value": None, "key": b"anna"},
        {"value": lambda value: value and value.endswith(b"teas")},
        {"headers": {"trace": "1"}},
        {"headers": [("trace", b"1"), ("trace", b"2")]},
        {"key": b"anna", "count": 2},
        {"count": 3, "timestamp_ms": 1_000},
    ],
)
def test_records_that_are_there(fields: dict[str, Any]) -> None:
    assert isinstance(expect(ORDERS).has(**fields), Expectations)


@pytest.mark.parametrize(
    "fields",
    [
        {"value": b"one tea"},
        {"value": b"one espresso", "key": b"bob"},
        {"headers": {"trace": b"3"}},
        {"headers": [("trace", b"1")]},
        {"headers": {}, "partition": 1},
        {"key": None},
        {"key": b"anna", "count": 1},
        {"count": 4},
    ],
)
def test_records_that_are_not_there(fields: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        expect(ORDERS).has(**fields)
    if "count" not in fields:
        expect(ORDERS).has_none(**fields)


def test_the_nearest_record_is_named_first() -> None:
    with pytest.raises(AssertionError) as raised:
        expect(ORDERS).has(key="anna", value="one espressi", headers={"trace": "1"})
    assert message(raised) == [
        "expected a record with key=b'anna', value=b'one espressi', headers={'trace': b'1'}",
        "in 3 records of orders, 2 partitions (read_committed; those of aborted and open "
        "transactions are left out)",
        "nearest first:",
        "  orders-0 at offset 1: key=b'anna', value=b'one espresso', "
        "headers={'trace': b'1', 'trace': b'2'}   <- other value",
        "  orders-2 at offset 0: key=b'anna', value=None, headers={}   <- other value, headers",
        "  orders-0 at offset 0: key=b'bob', value=b'two teas', headers={}   "
        "<- other key, value, headers",
    ]


def test_the_alike_value_is_named_first() -> None:
    found = read(record(b"zzz", 0), record(b"order 17", 1), record(b"order 8", 2))
    with pytest.raises(AssertionError) as raised:
        expect(found).has(value=b"order 18")
    assert [line.split(":")[0] for line in message(raised)[3:]] == [
        "  orders-0 at offset 1",
        "  orders-0 at offset 2",
        "  orders-0 at offset 0",
    ]


def test_long_lists_and_values_are_cut_short() -> None:
    found = read(*(record(b"x" * 1_000, offset) for offset in range(1_200)))
    with pytest.raises(AssertionError) as raised:
        expect(found).has(timestamp_ms=2_000, value=b"y" * 200)
    lines = message(raised)
    assert len(lines) == 9
    assert lines[0].endswith("yy'… (200 bytes)")
    assert "… (1,000 bytes), timestamp_ms=1000" in lines[3]
    assert lines[-1] == "  … and 1,195 more"


def test_the_partition_and_the_end_are_named() -> None:
    empty = ReadRecords([], {TopicPartition("orders", 3): 7}, "read_uncommitted")
    with pytest.raises(AssertionError) as raised:
        expect(empty).has()
    assert message(raised) == [
        "expected a record",
        "in 0 records of orders-3, read up to offset 7 (read_uncommitted)",
    ]


def test_a_count_names_those_that_are_there() -> None:
    with pytest.raises(AssertionError) as raised:
        expect(ORDERS).has(key=b"anna", count=3)
    lines = message(raised)
    assert lines[0] == "expected 3 records with key=b'anna', and there are 2"
    assert lines[2] == "they are:"
    assert len(lines) == 5


def test_a_record_that_should_not_be_there() -> None:
    with pytest.raises(AssertionError) as raised:
        expect(list(ORDERS)).has_none(value=None)
    assert message(raised) == [
        "expected no record with value=None, and there are 1",
        "in 3 records",
        "they are:",
        "  orders-2 at offset 0: key=b'anna', value=None",
    ]


def test_exactly_these() -> None:
    expect(ORDERS).has_exactly([b"one espresso", None, "two teas"])
    expect(ORDERS).has_exactly(ORDERS)
    expect(ORDERS).has_exactly(
        [
            {"key": "bob"},
            {"partition": 2},
            ProducerRecord("orders", "one espresso", "anna", headers={"trace": b"2"}),
        ]
    )
    expect([]).has_exactly([])


def test_not_exactly_these() -> None:
    with pytest.raises(AssertionError) as raised:
        expect(ORDERS).has_exactly([b"two teas", b"one espressi", None, None])
    lines = message(raised)
    assert lines[0] == ("expected exactly 4 records: 2 missing, and 1 too many")
    assert lines[2] == "missing: value=b'one espressi'; nearest of the others first:"
    assert lines[3].startswith("  orders-0 at offset 1: key=b'anna', value=b'one espresso'")
    with pytest.raises(AssertionError, match=r"not expected:\n  orders-2 at offset 0"):
        expect(ORDERS).has_exactly([b"two teas", b"one espresso"])


def test_every_pairing_that_is_possible_is_found() -> None:
    """The same as trying all of them."""
    values = [b"a", b"b"]
    keys = [b"1", b"2"]
    kinds = [{"value": "a"}, {"key": "1"}, {"value": "b", "key": "2"}, {"partition": 0}, {}]
    logs = itertools.product(itertools.product(values, keys), repeat=3)
    for log, wanted in itertools.product(logs, itertools.combinations_with_replacement(kinds, 3)):
        records = [record(value, key=key) for value, key in log]
        expected = [ExpectedRecord.of(each) for each in wanted]  # type: ignore[arg-type]
        most = max(
            sum(one.matches(other) for one, other in zip(expected, order, strict=True))
            for order in itertools.permutations(records)
        )
        missing, extra = pair(expected, records)
        assert len(missing) == len(extra) == 3 - most


def test_order_within_a_partition() -> None:
    found = read(
        record(b"created", 0, 0, b"7"),
        record(b"created", 1, 0, b"8"),
        record(b"paid", 2, 0, b"7"),
        record(b"shipped", 0, 1, b"7"),
    )
    expect(found).in_order([b"created", b"paid"]).in_order([])
    expect(found).in_order([{"key": "7"}, {"key": "8"}, {"key": "7"}])
    with pytest.raises(AssertionError) as raised:
        expect(found).in_order([b"created", b"paid", b"shipped"])
    assert message(raised)[0] == (
        "expected 3 records in this order in one partition; orders-0 has the first 2 of them, "
        "and after offset 2 no record with value=b'shipped'"
    )
    with pytest.raises(AssertionError):
        expect(found).in_order([b"paid", b"created"])
    with pytest.raises(AssertionError):
        expect([]).in_order([b"paid"])


def test_functions_see_the_bytes() -> None:
    def is_large(value: bytes | None) -> bool:
        return value is not None and json.loads(value)["total"] > 100

    found = read(record(b'{"total": 50}', 0), record(b'{"total": 150}', 1))
    expect(found).has(value=is_large, count=1, offset=1)
    with pytest.raises(AssertionError, match="value=<as is_large wants it>, and there are 1"):
        expect(found).has(value=is_large, count=2)


def test_mistakes_in_an_expectation() -> None:
    with pytest.raises(TypeError, match="no field 'vaule'; the fields are topic, partition"):
        expect(ORDERS).has(vaule=b"")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="the expected value is bytes, a str, None or a function"):
        expect(ORDERS).has(value={"total": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="options are for a topic"):
        expect(ORDERS, bootstrap_servers="localhost:9092")  # type: ignore[call-overload]


SECRET = "a secret of alice"


def options() -> dict[str, Any]:
    return {"bootstrap_servers": "localhost:1", "sasl_password": SECRET, "isolation_level": "none"}


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_back("orders", **options()),
        lambda: expect("orders", **options()).has(),
    ],
)
async def test_no_frame_shows_a_password(read: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(ConfigError) as refused:
        await read()
    shown = TracebackException.from_exception(refused.value, capture_locals=True)
    assert SECRET not in "".join(shown.format())
