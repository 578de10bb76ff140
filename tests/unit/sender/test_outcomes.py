"""What becomes of a batch: a table over every error code that Kafka has."""

from __future__ import annotations

import pytest

from aioproducer.engine.accumulator import still_uncertain
from aioproducer.engine.sender.outcomes import (
    Deliver,
    Fail,
    Outcome,
    Retry,
    SetAside,
    Split,
    Standing,
    decide,
    decide_error,
    others_in_batch,
)
from aioproducer.engine.sender.produce import PartitionResult
from aioproducer.errors import (
    BrokerConnectionError,
    Disposition,
    KafkaError,
    OutOfOrderSequenceNumberError,
    ProducerError,
    ProtocolError,
    RequestTimeoutError,
    UnsupportedVersionError,
    code_name,
    kafka_error,
)
from aioproducer.errors.broker import ErrorCode

WHERE = "orders-3 on broker 1 (host:9092)"
MAY, MAY_NOT = Standing(may_retry=True), Standing(may_retry=False)


def result(code: int, **details: object) -> PartitionResult:
    return PartitionResult(code, 42, -1, **details)  # type: ignore[arg-type]


def kind(outcome: Outcome) -> str:
    match outcome:
        case Deliver():
            return "deliver"
        case Retry(_, numbers_lost):
            return "new number" if numbers_lost else "retry"
        case SetAside():
            return "set aside"
        case Split():
            return "split"
        case Fail():
            return "fail"


def expected(code: ErrorCode) -> str:
    match kafka_error(code, "").disposition:
        case Disposition.DELIVERED:
            return "deliver"
        case Disposition.MISNUMBERED:
            return "new number"
        case Disposition.RETRIABLE:
            return "retry"
    return "fail"


ERRORS = [code for code in ErrorCode if code]


@pytest.mark.parametrize("code", ERRORS, ids=lambda code: code.name)
def test_every_code_has_the_outcome_of_its_disposition(code: ErrorCode) -> None:
    outcome = decide(result(code), WHERE, MAY)
    assert kind(outcome) == expected(code)
    if not isinstance(outcome, Deliver):
        assert isinstance(outcome.error, KafkaError)
        assert outcome.error.code == int(code)
        assert str(outcome.error).startswith(f"{WHERE}: {code.name.upper()}")


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
def test_a_batch_that_is_too_large_is_split_unless_it_is_one_record(code: ErrorCode) -> None:
    for standing in (MAY, MAY_NOT):
        assert kind(decide(result(code), WHERE, standing._replace(records=2))) == "split"
        assert kind(decide(result(code), WHERE, standing._replace(records=1))) == "fail"


@pytest.mark.parametrize("code", ERRORS, ids=lambda code: code.name)
def test_every_code_without_time_or_attempts_left(code: ErrorCode) -> None:
    outcome = decide(result(code), WHERE, MAY_NOT)
    assert kind(outcome) == ("deliver" if expected(code) == "deliver" else "fail")


def test_a_code_that_nobody_knows_fails() -> None:
    outcome = decide(result(9999), WHERE, MAY)
    assert isinstance(outcome, Fail)
    assert str(outcome.error) == f"{WHERE}: ERROR_9999"


def test_a_duplicate_is_delivered() -> None:
    duplicate = PartitionResult(46, -1, -1)
    assert decide(duplicate, WHERE, MAY) == Deliver(-1, -1)


@pytest.mark.parametrize(
    ("code", "first", "uncertain", "outcome"),
    [
        (45, True, False, "new number"),
        (45, True, True, "fail"),
        (45, False, False, "retry"),
        (45, False, True, "retry"),
        (59, True, False, "new number"),
        (59, False, False, "retry"),
        (59, False, True, "retry"),
        (59, True, True, "fail"),
        (47, True, False, "fail"),
        (47, True, True, "fail"),
        (6, False, True, "retry"),
    ],
)
def test_sequence_errors_depend_on_what_else_is_on_its_way(
    code: int, first: bool, uncertain: bool, outcome: str
) -> None:
    standing = Standing(may_retry=True, first_in_line=first, uncertain=uncertain)
    assert kind(decide(result(code), WHERE, standing)) == outcome


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("uncertain", [True, False])
@pytest.mark.parametrize("transactional", [True, False])
def test_a_batch_that_may_be_written_waits_for_a_later_one(
    first: bool, uncertain: bool, transactional: bool
) -> None:
    standing = Standing(
        may_retry=True,
        first_in_line=first,
        uncertain=uncertain,
        later_may_tell=True,
        may_be_numbered_anew=not transactional,
    )
    outcome = kind(decide(result(45), WHERE, standing))
    assert (outcome == "set aside") is (first and uncertain)
    assert kind(decide(result(6), WHERE, standing)) == "retry"
    assert kind(decide(result(45), WHERE, standing._replace(may_retry=False))) == "fail"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("uncertain", [True, False])
def test_a_batch_that_may_be_written_is_in_the_log_if_a_later_one_is(
    first: bool, uncertain: bool
) -> None:
    standing = Standing(
        may_retry=True,
        first_in_line=first,
        uncertain=uncertain,
        later_was_delivered=True,
        later_may_tell=True,
    )
    outcome = decide(result(45), WHERE, standing)
    assert (outcome == Deliver(-1, -1)) is (first and uncertain)
    assert kind(decide(result(6), WHERE, standing)) == "retry"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("uncertain", [True, False])
def test_behind_a_gap_a_number_that_does_not_fit_is_lost(first: bool, uncertain: bool) -> None:
    """A batch that was written behind a gap would be known to its broker."""
    standing = Standing(
        may_retry=True,
        first_in_line=first,
        behind_a_gap=True,
        uncertain=uncertain,
        later_may_tell=uncertain,
    )
    assert kind(decide(result(45), WHERE, standing)) == "new number"
    assert kind(decide(result(6), WHERE, standing)) == "retry"
    assert kind(decide(result(45), WHERE, standing._replace(may_retry=False))) == "fail"


def test_behind_a_gap_a_batch_in_doubt_that_no_broker_would_know_fails() -> None:
    """It could be written twice."""
    standing = Standing(may_retry=True, behind_a_gap=True, uncertain=True, broker_may_not_know=True)
    assert kind(decide(result(45), WHERE, standing)) == "fail"
    assert kind(decide(result(6), WHERE, standing)) == "retry"
    certain = standing._replace(uncertain=False)
    assert kind(decide(result(45), WHERE, certain)) == "new number"


@pytest.mark.parametrize("uncertain", [True, False])
def test_a_batch_without_a_number_can_have_no_wrong_one(uncertain: bool) -> None:
    standing = Standing(
        may_retry=True,
        uncertain=uncertain,
        later_was_delivered=True,
        later_may_tell=True,
        is_numbered=False,
    )
    assert kind(decide(result(45), WHERE, standing)) == "fail"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (BrokerConnectionError("x"), "retry"),
        (ProtocolError("x"), "retry"),
        (RequestTimeoutError("x"), "retry"),
        (UnsupportedVersionError("x"), "fail"),
        (ProducerError("x"), "fail"),
    ],
)
def test_errors_without_an_answer(error: ProducerError, outcome: str) -> None:
    assert kind(decide_error(error, MAY)) == outcome
    assert decide_error(error, MAY_NOT) == Fail(error, {})


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("error", "after"),
    [
        (kafka_error(45, ""), "as before"),
        (kafka_error(19, ""), "as before"),
        (kafka_error(10, ""), "as before"),
        (kafka_error(59, ""), "as before"),
        (kafka_error(20, ""), "maybe"),
        (kafka_error(6, ""), "maybe"),
        (kafka_error(9999, ""), "maybe"),
        (BrokerConnectionError("x"), "maybe"),
        (ProtocolError("x"), "maybe"),
        (RequestTimeoutError("x"), "maybe"),
        (UnsupportedVersionError("it never left"), "as before"),
    ],
)
def test_whether_a_batch_may_be_in_the_log(error: ProducerError, after: str, before: bool) -> None:
    assert still_uncertain(before, error) is (before or after == "maybe")


def test_the_broker_s_own_words_come_before_our_advice() -> None:
    advised = decide(result(10), WHERE, MAY)
    assert isinstance(advised, Fail)
    assert "max.message.bytes" in str(advised.error)
    said = decide(result(10, message="too big by 7"), WHERE, MAY)
    assert isinstance(said, Fail)
    assert str(said.error) == f"{WHERE}: MESSAGE_TOO_LARGE: too big by 7"


def test_records_that_were_refused_and_those_that_were_not() -> None:
    answer = result(87, message="bad batch", record_errors={1: "no key", 4: None})
    outcome = decide(answer, WHERE, MAY)
    assert isinstance(outcome, Fail)
    assert set(outcome.record_errors) == {1, 4}
    for error in outcome.record_errors.values():
        assert type(error) is type(kafka_error(87, ""))
        assert WHERE in str(error), "each message names the partition"
        assert "bad batch" in str(error)
    assert "no key" in str(outcome.record_errors[1])
    other = others_in_batch(outcome.error)
    assert type(other) is type(kafka_error(87, ""))
    assert "not written" in str(other)
    assert WHERE in str(other)


@pytest.mark.parametrize("record_errors", [None, {}])
def test_no_record_errors(record_errors: object) -> None:
    outcome = decide(result(87, record_errors=record_errors), WHERE, MAY)
    assert isinstance(outcome, Fail)
    assert outcome.record_errors == {}


def test_names() -> None:
    assert code_name(45) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert not OutOfOrderSequenceNumberError.retriable, "it is retried by rule, not by Kafka's word"


@pytest.mark.parametrize("code", [45, 59])
@pytest.mark.parametrize("uncertain", [True, False])
def test_in_a_transaction_no_batch_gets_another_number(code: int, uncertain: bool) -> None:
    """The transaction fails as a whole, and the next one has an epoch of its own."""
    standing = Standing(may_retry=True, uncertain=uncertain, may_be_numbered_anew=False)
    assert kind(decide(result(code), WHERE, standing)) == "fail"
    behind = standing._replace(first_in_line=False)
    assert kind(decide(result(code), WHERE, behind)) == "retry", "the earlier one decides"
    assert kind(decide(result(19), WHERE, standing)) == "retry"
