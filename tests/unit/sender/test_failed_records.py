"""Failed records on their way to the hook, and those that a transaction discards."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.engine.accumulator import PendingRecord, ProducerBatch, SerializedRecord
from aioproducer.engine.records.compression import compression
from aioproducer.engine.sender.delivery_reports import FailedRecordQueue
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.transactions.requests import (
    AddPartitionsToTxn,
    CoordinatorRequest,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AbortableTransactionError,
    BrokerConnectionError,
    DeliveryTimeoutError,
    InvalidRecordError,
    KafkaError,
    MetadataTimeoutError,
    ProducerError,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
)
from aioproducer.model import Header, TopicPartition
from tests.support.world import BUMP, DELIVERY, MAX_BLOCK
from tests.unit.sender.transactions import (
    ABORT,
    NOT_ENOUGH,
    ONE,
    TOO_LARGE,
    TWO,
    VERSIONS,
    silent,
    written,
)
from tests.unit.sender.world import (
    SenderWorld,
    answered,
    coordinator_answer,
    transactional,
)


class Token:
    """A future that nobody has cancelled."""

    def done(self) -> bool:
        return False

    def set_result(self, _metadata: object) -> None: ...

    def set_exception(self, _error: BaseException) -> None: ...

    def exception(self) -> BaseException | None:
        return None


class Wakes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def batch(
    *values: bytes | None, key: bytes | None = b"k", headers: tuple[Header, ...] = ()
) -> ProducerBatch:
    made = ProducerBatch(TopicPartition("orders", 2), bytearray(100_000), 100_000, 0.0, 1.0)
    for place, value in enumerate(values):
        record = SerializedRecord("orders", 2, 1_000 + place, key, value, headers, Token())
        assert made.append(record)
    return made


def pending(value: bytes | bytearray, size: int = 100) -> PendingRecord:
    data: Any = value
    record = SerializedRecord("orders", None, 7, None, data, [("h", None)], Token())
    return PendingRecord(record, size, 0.0, 1.0)


FAILED = DeliveryTimeoutError("late")
FAILED.may_have_been_written = True


def test_a_batch_is_read_from_its_bytes_after_its_memory_is_gone() -> None:
    queue, failed = FailedRecordQueue(1_000, wakes := Wakes()), batch(b"a", None, b"c")
    failed.compress(compression("gzip", level=None))
    queue.add_batch(failed, FAILED, {})
    buffer = failed.release()
    assert buffer is not None
    buffer[:] = bytes(len(buffer))
    assert (len(queue), wakes.count) == (3, 1)
    first, second, third = queue.take(10, 10_000)
    assert first[:6] == ("orders", 2, b"k", b"a", (), 1_000)
    assert (second.value, third.value, third.timestamp_ms) == (None, b"c", 1_002)
    assert first.error is FAILED
    assert first.may_have_been_written
    assert (len(queue), queue.take(10, 10_000)) == (0, [])


def test_records_with_errors_of_their_own() -> None:
    queue = FailedRecordQueue(1_000, Wakes())
    own = InvalidRecordError("no key")
    queue.add_batch(batch(b"a", b"b"), FAILED, {1: own})
    first, second = queue.take(10, 10_000)
    assert (first.error, second.error) == (FAILED, own)
    assert not second.may_have_been_written


def test_headers_and_pending_records() -> None:
    queue = FailedRecordQueue(1_000, Wakes())
    queue.add_batch(batch(b"a", headers=(("h", b"1"), ("h", None))), FAILED, {})
    value = bytearray(b"mine")
    queue.add_pending(FAILED, [pending(value)])
    value[:] = b"else"
    first, second = queue.take(10, 10_000)
    assert first.headers == (("h", b"1"), ("h", None))
    assert second[:6] == ("orders", None, None, b"mine", (("h", None),), 7)


def test_a_record_without_bytes_is_left_out() -> None:
    queue = FailedRecordQueue(1_000, Wakes())
    unserialized = pending(b"")
    unserialized.serialize = lambda: unserialized.record
    queue.add_pending(FAILED, [unserialized])
    assert len(queue) == 0


@pytest.mark.parametrize(("most_records", "most_bytes"), [(2, 10_000), (100, 2)])
def test_records_are_taken_in_order_and_in_bounded_steps(
    most_records: int, most_bytes: int
) -> None:
    queue = FailedRecordQueue(10_000, Wakes())
    values = [b"%d" % number for number in range(9)]
    queue.add_batch(batch(*values[:4], key=None), FAILED, {})
    queue.add_batch(batch(*values[4:8], key=None), FAILED, {})
    queue.add_pending(FAILED, [pending(values[8])])
    taken: list[bytes | None] = []
    while records := queue.take(most_records, most_bytes):
        assert len(records) <= 2
        taken += [record.value for record in records]
    assert taken == values


def test_a_large_record_is_taken_alone() -> None:
    queue = FailedRecordQueue(10_000, Wakes())
    queue.add_batch(batch(bytes(5_000), b"small"), FAILED, {})
    assert [len(record.value or b"") for record in queue.take(10, 100)] == [5_000]


def test_records_beyond_the_capacity_are_dropped_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = FailedRecordQueue(250, wakes := Wakes())
    queue.add_pending(FAILED, [pending(b"%d" % number) for number in range(4)])
    assert (queue.added, wakes.count) == (1, 1)
    assert "on_failed does not get 1 failed record of topic orders" in caplog.text
    assert [record.value for record in queue.take(10, 100)] == [b"0"]
    queue.add_batch(batch(bytes(5_000)), FAILED, {})
    assert len(queue) == 1, "a lot that comes first is kept, whatever its size"


def test_errors_that_the_hook_is_not_for() -> None:
    def concerns(error: ProducerError) -> bool:
        return error is not FAILED

    queue = FailedRecordQueue(250, wakes := Wakes(), concerns)
    queue.add_pending(FAILED, [pending(b"1")])
    queue.add_batch(batch(b"1"), FAILED, {})
    assert (len(queue), wakes.count) == (0, 0)


S = TransactionState


# --- records that are not sent any more ------------------------------------------------------
@VERSIONS
async def test_when_a_batch_has_failed_those_that_have_not_left_are_dropped(version: int) -> None:
    async with transactional(version) as world:
        world.manager.begin()
        await written(world, 0, 1)
        refused, other = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        queued = world.send(partition=0, value=bytes(900))
        behind = world.send(partition=0, value=bytes(900))
        waiting = world.send(topic="unknown")
        await world.turn()
        flying = world.requests(ProduceRequest)
        await world.complete(
            sent,
            _mixed(world, {ONE: TOO_LARGE, TWO: NOT_ENOUGH}),
        )
        assert isinstance(refused.exception(), KafkaError)
        for future in (other, waiting):
            error = future.exception()
            assert isinstance(error, TransactionAbortedError)
            assert isinstance(error, AbortableTransactionError)
            assert not error.may_have_been_written
        assert str(waiting.exception()).startswith("unknown-0: discarded, because its transaction")
        ending = world.manager.abort()
        assert await silent(world), "batches are on their way"
        for each in flying:
            await world.answer(each)
        assert queued.done()
        assert behind.done()
        for each in world.requests(ProduceRequest):
            await world.answer(each)
        assert await answered(world, producer_id=77 if version == 2 else -1, epoch=1) == ABORT
        assert ending.done
        assert world.pool.available == world.pool.total
        if version == 1:
            assert await answered(world) == BUMP
        world.manager.begin()
        after = world.send()
        await world.turn()
        if version == 1:
            await answered(world)
        again = world.one(ProduceRequest)
        ((batch, _),) = again[1].batches
        assert (batch.state.producer_epoch, batch.state.base_sequence) == (1, 0)
        await world.answer(again)
        assert after.exception() is None


def _mixed(world: SenderWorld, codes: dict[TopicPartition, int]) -> object:
    from tests.support.responses import produce_response

    whole = produce_response(codes)
    topics = [
        topic._replace(
            partition_responses=[
                each._replace(error_code=codes[TopicPartition(topic.name, each.index)])
                for each in topic.partition_responses
            ]
        )
        for topic in whole.responses
    ]
    return whole._replace(responses=topics)


async def test_an_abort_drops_what_waits_for_its_partition_and_asks_nobody() -> None:
    async with transactional(ready=True) as world:
        world.manager.begin()
        future = world.send()
        ending = world.manager.abort()
        await world.turn()
        error = future.exception()
        assert isinstance(error, TransactionAbortedError)
        assert str(error) == "orders-0: discarded, because its transaction is aborted"
        assert ending.done
        assert world.manager.state is S.READY


async def test_an_abort_waits_for_the_batch_on_the_wire_and_sends_it_no_second_time() -> None:
    """With version 2: what comes late is of an epoch that has ended."""
    async with transactional(2) as world:
        world.manager.begin()
        await written(world)
        future = world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        world.manager.abort()
        assert await silent(world, 1)
        assert not future.done()
        await world.complete(sent, error=BrokerConnectionError("broken"))
        error = future.exception()
        assert isinstance(error, TransactionAbortedError)
        assert error.may_have_been_written
        assert world.requests(ProduceRequest) == []
        assert await answered(world, producer_id=77, epoch=1) == ABORT
        assert world.state() is S.READY


async def test_with_version_1_an_abort_finds_out_what_is_in_the_log() -> None:
    async with transactional(1) as world:
        world.manager.begin()
        await written(world)
        doubtful, later = world.send(), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        world.manager.abort()
        assert isinstance(await answered(world), AddPartitionsToTxn), "it was asked before"
        await world.complete(sent, error=BrokerConnectionError("broken"))
        assert isinstance(later.exception(), TransactionAbortedError), "it had not left"
        assert not doubtful.done()
        await world.turn(1.0)
        await world.answer(world.one(ProduceRequest))
        assert doubtful.done()
        assert await answered(world) == ABORT
        assert world.state() is S.READY, "no number is lost"


async def test_a_batch_given_up_in_flight_makes_the_transaction_abortable() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        world.send()
        await world.turn()
        ending = world.manager.commit()
        await world.turn(DELIVERY + 1)
        assert world.manager.state is S.ABORTABLE_ERROR
        assert ending.error is not None
        assert world.requests(CoordinatorRequest) == []


async def test_an_abort_when_partitions_are_being_taken_in_comes_after_the_answer() -> None:
    async with transactional() as world:
        world.manager.begin()
        future = world.send()
        await world.turn()
        sent = world.one(CoordinatorRequest)
        ending = world.manager.abort()
        assert await silent(world)
        assert isinstance(future.exception(), TransactionAbortedError)
        await world.complete(sent, coordinator_answer(sent[1]))
        assert await answered(world) == ABORT
        assert ending.done
        assert world.requests(ProduceRequest) == []


# --- records that fail before they are in a batch --------------------------------------------
async def test_a_pending_record_that_expires_makes_the_transaction_abortable() -> None:
    """Else the commit would make the rest visible without it."""
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        lost = world.send(topic="unknown")
        await world.turn()
        ending = world.manager.commit()
        await world.turn(MAX_BLOCK + 1)
        assert isinstance(lost.exception(), MetadataTimeoutError)
        assert ending.error is lost.exception()
        assert world.manager.state is S.ABORTABLE_ERROR
        assert world.requests(CoordinatorRequest) == []


async def test_a_record_whose_topic_is_refused_makes_the_transaction_abortable() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        lost = world.send(topic="secret")
        await world.tell_metadata((), topic="secret", code=29)
        assert isinstance(lost.exception(), TopicAuthorizationFailedError)
        assert world.manager.state is S.ABORTABLE_ERROR
        assert world.manager.error is lost.exception()


async def test_a_record_for_a_missing_partition_makes_the_transaction_abortable() -> None:
    async with transactional() as world:
        world.manager.begin()
        lost = world.send(topic="small", partition=5)
        await world.tell_metadata((1,), topic="small")
        assert not lost.done()
        await world.turn(MAX_BLOCK)
        assert isinstance(lost.exception(), MetadataTimeoutError)
        assert world.manager.state is S.ABORTABLE_ERROR


async def test_records_in_line_that_an_abort_drops_cost_no_epoch() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        lost = world.send(topic="unknown")
        world.manager.abort()
        await world.turn()
        assert isinstance(lost.exception(), TransactionAbortedError)
        assert await answered(world) == ABORT
        assert world.manager.state is S.READY
