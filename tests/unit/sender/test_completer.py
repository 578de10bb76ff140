"""What becomes of batches that fail: sent again, split, or given up with an error."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import attrgetter

import pytest

from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.sender import completer
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    BrokerConnectionError,
    DeliveryTimeoutError,
    DuplicateSequenceNumberError,
    InvalidRecordError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    ProducerClosedError,
    ProducerError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
)
from tests.support.responses import identity_response
from tests.support.world import BACKOFF, DELIVERY, PAYMENTS
from tests.unit.sender.transactions import written
from tests.unit.sender.world import identified, running, states, transactional

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("error", [BrokerConnectionError("broken"), None])
async def test_a_batch_is_sent_again_as_it_was_after_the_backoff(
    error: ProducerError | None,
) -> None:
    async with running(known=False, idempotent=True) as world:
        future = world.send()
        await world.tell_metadata()
        await world.complete(world.one(InitProducerIdRequest), identity_response(77))
        sent = world.one(ProduceRequest)
        batch = sent[1].batches[0][0]
        if error is None:
            await world.answer(sent, code=19)
        else:
            await world.complete(sent, error=error)
        assert not future.done()
        await world.turn(BACKOFF * 0.99)
        assert world.requests(ProduceRequest) == []
        await world.turn(BACKOFF * 0.02)
        again = world.one(ProduceRequest)
        assert again[1].batches[0][0] is batch
        assert states(again) == [(77, 0)]
        await world.answer(again)
        assert future.done()


async def test_the_end_of_the_transaction_before_is_waited_for_in_milliseconds() -> None:
    async with transactional(version=2) as world:
        world.manager.begin()
        future = world.send()
        await world.turn()
        for wait in (0.005, 0.0075, 0.01125):
            await world.answer(world.one(ProduceRequest), code=51)
            await world.turn(wait * 0.99)
            assert world.requests(ProduceRequest) == []
            await world.turn(wait * 0.02)
        again = world.one(ProduceRequest)
        assert states(again) == [(77, 0)]
        await world.answer(again)
        assert future.done()


@pytest.mark.parametrize("retries", [0, 100])
@pytest.mark.parametrize(
    ("code", "refreshed"), [(6, True), (3, True), (56, True), (19, False), (2, False)]
)
async def test_stale_leaders_are_refreshed_whether_the_batch_is_retried_or_not(
    retries: int, code: int, refreshed: bool
) -> None:
    """Else, without retries, every later batch would go to the wrong broker for five minutes."""
    async with running(retries=retries) as world:
        future = world.send()
        await world.turn(1.0)
        await world.answer(world.one(ProduceRequest), code=code)
        assert bool(world.requests(MetadataRequest)) is refreshed
        assert future.done() is (retries == 0)
        if future.done():
            assert isinstance(future.exception(), KafkaError)


@pytest.mark.parametrize(
    ("said_ms", "timestamp_ms"),
    [(None, 1), (0, 1), (1_234, 1), (86_400_000, 86_400_000), (1_700_000_000_123,) * 2],
)
async def test_a_log_append_time_that_no_clock_shows_is_none(
    said_ms: int | None, timestamp_ms: int
) -> None:
    """librdkafka's mock cluster responds with 1234, and its log has the records' own times."""
    said = None if said_ms is None else EPOCH + timedelta(milliseconds=said_ms)
    async with running() as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), log_append_time=said)
        assert future.result().timestamp_ms == timestamp_ms


async def test_a_response_without_an_error_delivers_a_batch_that_may_not_be_retried() -> None:
    written = EPOCH + timedelta(milliseconds=1_700_000_000_000)
    async with running(retries=0) as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), log_append_time=written)
        found = future.result()
        assert (found.offset, found.timestamp_ms) == (42, 1_700_000_000_000)


APPENDED, KNOWN = None, EPOCH + timedelta(milliseconds=1_700_000_000_000)
"""The time with which a broker answers: none for an append, an earlier batch's for a duplicate."""


@pytest.mark.parametrize(
    ("times", "fails"),
    [
        ((APPENDED, APPENDED), False),
        ((KNOWN, KNOWN), False),  # of a topic with LogAppendTime, or all by an earlier attempt
        ((APPENDED, KNOWN), True),
        ((KNOWN, APPENDED), True),
    ],
)
async def test_batches_that_another_process_wrote_in_a_joined_transaction_are_noticed(
    times: tuple[datetime | None, ...], *, fails: bool
) -> None:
    async with transactional(version=2, ready=False, joined=PAYMENTS) as world:
        for partition, time in enumerate(times):
            future = world.send(partition=partition)
            await world.turn()
            await world.answer(world.one(ProduceRequest), log_append_time=time)
        if not fails:
            assert future.result().offset == 42
            return
        with pytest.raises(DuplicateSequenceNumberError, match=r"orders-1: .* another process has"):
            future.result()
        assert world.state() is TransactionState.ABORTABLE_ERROR


@pytest.mark.parametrize(("earlier_ms", "fails"), [(1, False), (1_700_000_000_000, True)])
async def test_a_duplicate_after_a_retry_is_an_earlier_attempt_if_it_has_its_timestamp(
    earlier_ms: int, *, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "_FIRST_APPEND_TIME_MS", 0)  # the records' timestamp is 1
    async with transactional(version=2, ready=False, joined=PAYMENTS) as world:
        world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest))
        future = world.send()
        await world.turn()
        lost = world.one(ProduceRequest)
        await world.complete(lost, error=BrokerConnectionError("broken"))
        await world.turn(BACKOFF * 1.1)
        known = EPOCH + timedelta(milliseconds=earlier_ms)
        await world.answer(world.one(ProduceRequest), log_append_time=known)
        assert (future.exception() is not None) is fails


async def test_duplicates_are_delivered_in_a_transaction_of_one_process() -> None:
    async with transactional(version=2) as world:
        world.manager.begin()
        for time in (APPENDED, KNOWN):
            future = world.send()
            await world.turn()
            await world.answer(world.one(ProduceRequest), log_append_time=time)
            assert future.result().offset == 42


async def test_records_that_the_broker_refused_get_their_own_errors() -> None:
    async with running() as world:
        futures = [world.send(value) for value in (b"a", b"b", b"c")]
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=87, record_errors={1: "no key"})
        errors = [future.exception() for future in futures]
        assert all(type(error) is InvalidRecordError for error in errors)
        assert ["no key" in str(error) for error in errors] == [False, True, False]
        assert ["not written" in str(error) for error in errors] == [True, False, True]
        assert all("orders-0 on broker 1" in str(error) for error in errors)


async def test_a_batch_without_answer_in_time_fails_and_a_late_answer_changes_nothing() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        await world.turn(DELIVERY - 0.01)
        assert not future.done()
        await world.turn(0.02)
        error = future.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert "orders-0" in str(error)
        assert "delivery_timeout_ms" in str(error)
        await world.answer(sent)
        assert world.pool.available == world.pool.total


async def test_what_is_on_its_way_does_not_change_when_its_batch_is_given_up() -> None:
    """The connection may still have to write it, while later records are put into batches."""
    async with running() as world:
        world.send(b"first")
        await world.turn()
        _, request = world.one(ProduceRequest)
        ((_, data),) = request.batches
        before = bytes(data)
        await world.turn(DELIVERY + 0.01)
        for _ in range(10):
            world.send(b"later" * 100)
        await world.turn()
        assert bytes(data) == before
        assert b"first" in before


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_batch_that_is_too_large_is_sent_again_in_parts(idempotent: bool) -> None:
    async with identified() if idempotent else running() as world:
        futures = [world.send(bytes(100)) for _ in range(6)]
        await world.turn()
        refused = world.one(ProduceRequest)
        (batch, _) = refused[1].batches[0]
        first = batch.state.base_sequence
        await world.answer(refused, code=10)
        sequences = []
        while not all(future.done() for future in futures):
            for sent in world.requests(ProduceRequest):
                ((part, _),) = sent[1].batches
                sequences += [part.state.base_sequence + number for number in range(part.count)]
                await world.answer(sent)
        assert all(future.exception() is None for future in futures)
        if idempotent:
            assert sequences == list(range(first, first + 6))
        assert world.pool.available == world.pool.total


async def test_a_single_record_that_is_too_large_fails() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=10)
        error = future.exception()
        assert isinstance(error, RecordTooLargeError)
        assert not error.may_have_been_written


async def test_errors_say_whether_the_record_may_be_in_the_log() -> None:
    async with running() as world:
        in_flight = world.send()
        await world.turn()
        world.one(ProduceRequest)
        queued = world.send()
        await world.turn(DELIVERY + 1)
        for future, written in ((in_flight, True), (queued, False)):
            error = future.exception()
            assert isinstance(error, DeliveryTimeoutError)
            assert error.may_have_been_written is written
            assert ("may have been written" in str(error)) is written


async def test_giving_up_says_so_too() -> None:
    async with running() as world:
        in_flight = world.send()
        await world.turn()
        world.one(ProduceRequest)
        queued, waiting = world.send(), world.send(topic="unknown")
        world.completer.abort(ProducerClosedError("closed"), world.now)
        errors = [future.exception() for future in (in_flight, queued, waiting)]
        assert [getattr(error, "may_have_been_written", None) for error in errors] == [
            True,
            False,
            False,
        ]


async def test_a_timeout_names_the_last_error() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=19)
        await world.turn(DELIVERY)
        for part in ("NOT_ENOUGH_REPLICAS", "orders-0", "Resolve the cause, or raise the timeout"):
            assert part in str(future.exception())


async def test_giving_up_fails_batches_and_waiting_records() -> None:
    async with running() as world:
        future, other = world.send(), world.send(topic="unknown")
        error = ProducerClosedError("closed")
        assert world.completer.abort(error, world.now) == 2
        assert [str(each.exception()) for each in (future, other)] == [
            "orders-0: closed",
            "unknown-0: closed",
        ]
        assert world.completer.abort(error, world.now) == 0


async def test_a_cancelled_future_does_not_disturb_its_batch() -> None:
    async with running() as world:
        first, cancelled, last = (world.send() for _ in range(3))
        cancelled.cancel()
        await world.turn()
        await world.answer(world.one(ProduceRequest), offset=10)
        assert ((await first).offset, (await last).offset) == (10, 12), "it is sent all the same"


async def test_a_refused_topic_is_named_with_its_broker() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=29)
        error = future.exception()
        assert isinstance(error, TopicAuthorizationFailedError)
        assert "orders-0 on broker 1 (host1:9092)" in str(error)
        assert "WRITE" in str(error)


async def test_an_answer_that_comes_too_late_for_a_retry_is_the_batch_s_error() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        world.now += DELIVERY
        await world.answer(sent, code=19)
        error = future.exception()
        assert isinstance(error, KafkaError)
        assert error.name == "NOT_ENOUGH_REPLICAS"


# --- in a transaction --------------------------------------------------------------------------


async def test_in_a_transaction_a_failed_batch_leaves_no_break() -> None:
    async with transactional(2) as world:
        world.manager.begin()
        world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        batch, _ = sent[1].batches[0]
        assert not world.completer._standing(batch, 0, world.now).may_be_numbered_anew
        await world.answer(sent, code=10)
        assert not world.gaps.partitions
        assert world.manager.state is TransactionState.ABORTABLE_ERROR
        await world.turn(DELIVERY)
        assert not world.gaps.partitions


@pytest.mark.parametrize("expires", [True, False])
async def test_batches_that_no_broker_remembers_fail_once_with_their_transaction(
    expires: bool,
) -> None:
    async with transactional(2, batch_size=1) as world:
        world.manager.begin()
        await written(world)
        futures = [world.send() for _ in range(4)]
        await world.turn()
        for sent in world.requests(ProduceRequest):
            await world.complete(sent, error=BrokerConnectionError("broken"))
        for _ in range(3):
            await world.turn(BACKOFF)
            await world.answer(world.one(ProduceRequest), code=45)
        await world.turn(BACKOFF)
        last = world.one(ProduceRequest)
        assert not any(future.done() for future in futures)
        if expires:
            await world.turn(DELIVERY)
        else:
            await world.answer(last, code=45)
        for future in futures:
            failed = future.exception()
            assert isinstance(failed, ProducerError)
            assert failed.may_have_been_written
        assert not world.batches
        assert world.pool.available == world.pool.total


async def test_hundreds_of_batches_that_no_broker_remembers_fail_one_after_the_other() -> None:
    """Parts of a large batch may be so many."""
    async with transactional(2, batch_size=100_000, delivery_timeout=1e6) as world:
        world.manager.begin()
        await written(world)
        futures = [world.send(bytes(80)) for _ in range(1_000)]
        await world.turn()
        await world.complete(world.one(ProduceRequest), error=BrokerConnectionError("broken"))
        while not all(future.done() for future in futures):
            await world.turn(BACKOFF)
            for sent in world.requests(ProduceRequest):
                many = sent[1].batches[0][0].count > 1
                await world.answer(sent, code=10 if many else 45)
        assert {type(future.exception()) for future in futures} == {OutOfOrderSequenceNumberError}


async def test_what_is_on_its_way_can_be_left_to_its_answer() -> None:
    in_flight = attrgetter("in_flight")
    async with running() as world:
        flying = world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        queued, waiting = world.send(), world.send(topic="unknown")
        error = ProducerClosedError("not now")
        assert world.completer.abort(error, world.now, in_flight) == 2
        assert queued.done()
        assert waiting.done()
        assert not flying.done()
        await world.answer(sent)
        assert flying.exception() is None
        assert world.completer.abort(error, world.now, in_flight) == 0
        await world.turn()
        assert world.pool.available == world.pool.total


async def test_an_abort_says_of_each_partition_what_it_does_not_say_itself() -> None:
    async with running() as world:
        cause = DeliveryTimeoutError("the reason")
        error = TransactionAbortedError("aborted")
        error.__cause__ = cause
        futures = [world.send(partition=0), world.send(partition=1)]
        assert world.completer.abort(error, world.now) == 2
        for number, future in enumerate(futures):
            failure = future.exception()
            assert isinstance(failure, TransactionAbortedError)
            assert str(failure) == f"orders-{number}: aborted"
            assert failure.__cause__ is cause
        assert str(error) == "aborted"
