"""The records of a transaction that failed or is aborted: discarded, or waited for."""

from __future__ import annotations

from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.transaction_request import TransactionRequest
from aioproducer.engine.transactions.requests import AddPartitionsToTxn, InitProducerId
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AbortableTransactionError,
    BrokerConnectionError,
    KafkaError,
    MetadataTimeoutError,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
)
from aioproducer.model import TopicPartition
from tests.support.world import DELIVERY
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
    MAX_BLOCK,
    SenderWorld,
    answered,
    coordinator_answer,
    transactional,
)

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
            assert await answered(world) == InitProducerId(epoch_bump=True)
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
        assert world.requests(TransactionRequest) == []


async def test_an_abort_when_partitions_are_being_taken_in_comes_after_the_answer() -> None:
    async with transactional() as world:
        world.manager.begin()
        future = world.send()
        await world.turn()
        sent = world.one(TransactionRequest)
        ending = world.manager.abort()
        assert await silent(world)
        assert isinstance(future.exception(), TransactionAbortedError)
        await world.complete(sent, coordinator_answer(sent[1].request))
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
        assert world.requests(TransactionRequest) == []


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
