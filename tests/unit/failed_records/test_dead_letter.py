"""A dead letter keeps the record and the reason, as headers and as a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import Producer, sync
from aioproducer.errors import ConfigError, DeliveryTimeoutError
from aioproducer.failed_records import DeadLetter, DeadLetterFile, DeadLetterTopic, is_dead_letter
from aioproducer.model import ConsumerRecord, FailedRecord, Header

ERROR = DeliveryTimeoutError("orders-1: not acknowledged within 120 s")


def failed(
    topic: str = "orders",
    headers: tuple[Header, ...] = (("h", None),),
    *,
    error: BaseException = ERROR,
    uncertain: bool = False,
) -> FailedRecord:
    return FailedRecord(topic, 1, b"key", b"value", headers, 1_700, error, uncertain)


def read(letter: DeadLetter) -> ConsumerRecord:
    return ConsumerRecord(
        "failed", 0, 5, 9_999, "CreateTime", letter.key, letter.value, letter.all_headers()
    )


def test_the_headers_of_a_dead_letter() -> None:
    assert DeadLetter.of(failed(uncertain=True)).all_headers() == (
        ("h", None),
        ("__aioproducer.errors.topic", b"orders"),
        ("__aioproducer.errors.partition", b"1"),
        ("__aioproducer.errors.timestamp", b"1700"),
        ("__aioproducer.errors.exception.class.name", b"DeliveryTimeoutError"),
        ("__aioproducer.errors.exception.message", b"orders-1: not acknowledged within 120 s"),
        ("__aioproducer.errors.may.have.been.written", b"true"),
    )


_DATA = st.none() | st.binary(max_size=50)


@given(
    st.none() | st.integers(0, 100),
    _DATA,
    _DATA,
    st.lists(st.tuples(st.text(max_size=10), _DATA), max_size=3),
    st.text(max_size=50),
    st.booleans(),
)
def test_a_dead_letter_can_be_read_back(
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: list[Header],
    message: str,
    uncertain: bool,
) -> None:
    record = FailedRecord(
        "orders", partition, key, value, tuple(headers), 7, ValueError(message), uncertain
    )
    letter = DeadLetter.of(record)
    assert DeadLetter.of_line(letter.line()) == letter
    assert letter.line().count(b"\n") == 1
    assert DeadLetter.of_record(read(letter)) == letter
    again = letter.record()
    assert again.fields() == ("orders", value, key, partition, tuple(headers), 7)


def test_a_long_message_is_cut() -> None:
    letter = DeadLetter.of(failed(error=ValueError("x" * 100_000)))
    assert len(letter.error_message) == 1_000


def test_a_dead_letter_that_fails_again_has_one_set_of_headers() -> None:
    first = DeadLetter.of(failed())
    again = DeadLetter.of(failed(headers=first.all_headers()))
    assert again == first


def test_dead_letters_are_known_by_their_headers() -> None:
    headers = DeadLetter.of(failed()).all_headers()
    assert is_dead_letter(failed("orders.failed", headers))
    assert not is_dead_letter(failed("orders", headers)), "it was sent again"
    assert not is_dead_letter(failed("orders.failed"))


def test_a_record_that_is_no_dead_letter() -> None:
    with pytest.raises(ValueError, match="failed-0: the record is not a dead letter"):
        DeadLetter.of_record(ConsumerRecord("failed", 0, 5, 1, "CreateTime", None, b"v", ()))


@pytest.mark.parametrize("line", [b"{", b"[]", b"null", b'{"topic":"a"}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_dead_letter(line: bytes) -> None:
    with pytest.raises(ValueError, match="the line is not a dead letter"):
        DeadLetter.of_line(line)


# --- the options of the hooks ------------------------------------------------------------------


def test_wrong_options() -> None:
    with pytest.raises(ConfigError, match="expected 'keep' or 'skip'"):
        DeadLetterTopic("failed", uncertain="drop")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected 'keep' or 'skip'"):
        DeadLetterFile("failed", uncertain="drop")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="use fallback="):
        DeadLetterTopic("failed", on_failed=print)
    with pytest.raises(ConfigError, match=r"not a Producer of aioproducer\.sync\.producer"):
        DeadLetterTopic("failed", sync.Producer(bootstrap_servers="a:1"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown option"):
        DeadLetterTopic("failed", bootstrap_servers="a:1", nothing=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="unknown option"):
        Producer(bootstrap_servers="a:1", on_failed=DeadLetterTopic("failed", nothing=1))  # type: ignore[call-arg]


def test_a_secret_of_a_dead_letter_topic_is_not_shown() -> None:
    hook = DeadLetterTopic("failed", sasl_password="hunter2")
    assert "hunter2" not in repr(hook) + repr(vars(hook))
