"""Questions go to coordinators one at a time, and around them nothing leaves too early or late."""

from __future__ import annotations

import pytest

from aioproducer.errors import (
    AbortableTransactionError,
    BrokerConnectionError,
    KafkaError,
    MetadataTimeoutError,
    ProducerFencedError,
    RequestTimeoutError,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from aioproducer.network.apis import Features
from aioproducer.sender.produce import ProduceRequest
from aioproducer.sender.requests import InitProducerIdRequest
from aioproducer.sender.transaction_codec import TransactionRequest
from aioproducer.sender.transaction_driver import TransactionDriver
from aioproducer.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    OffsetFetch,
    TxnOffsetCommit,
)
from aioproducer.transactions.states import TransactionState
from tests.unit.sender.world import (
    BACKOFF,
    DELIVERY,
    MAX_BLOCK,
    World,
    answered,
    coordinator_answer,
    states,
    transactional,
)

S = TransactionState
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
COMMIT, ABORT = EndTxn(committed=True), EndTxn(committed=False)
CONCURRENT, LOADING, NOT_COORDINATOR, FENCED, TOO_LARGE, NOT_ENOUGH = 51, 14, 16, 90, 10, 19
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def requester(world: World) -> TransactionDriver:
    assert isinstance(world.requester, TransactionDriver)
    return world.requester


async def written(world: World, *partitions: int) -> None:
    """A record for each of ``partitions`` is in the log, and in the transaction."""
    futures = [world.send(partition=partition) for partition in partitions or (0,)]
    await world.turn()
    if world.manager.handle.version == 1:
        await answered(world)
    for sent in world.requests(ProduceRequest):
        await world.answer(sent)
    assert all(future.done() for future in futures)


async def silent(world: World, seconds: float = 0.0) -> bool:
    """Whether no coordinator is asked, for ``seconds``."""
    await world.turn(seconds)
    return world.requests(TransactionRequest) == []


# --- one question after the other --------------------------------------------------------------


async def test_nobody_is_asked_before_anybody_wants_it() -> None:
    async with transactional(ready=False) as world:
        assert await silent(world, 10)
        assert world.requests(InitProducerIdRequest) == [], "that of an idempotent producer"


async def test_any_broker_is_asked_for_the_coordinator_and_that_for_the_rest() -> None:
    async with transactional(ready=False) as world:
        world.manager.initialize()
        await world.turn()
        ((node, request),) = world.network.sent
        assert node == 1
        assert isinstance(request.request, FindCoordinator)
        assert request.timeout_ms == 60_000
        assert await silent(world, 10) is False
        await world.complete((node, request), coordinator_answer(request.request, node=2))
        node, request = world.one(TransactionRequest)
        assert (node, request.request) == (2, InitProducerId(epoch_bump=False))
        assert await silent(world, 10), "one at a time"
        done = coordinator_answer(request.request, producer_id=77, epoch=0)
        await world.complete((node, request), done)
        assert world.manager.state is S.READY
        assert world.changes


@VERSIONS
async def test_a_record_leaves_when_its_partition_may(version: int) -> None:
    async with transactional(version) as world:
        world.manager.begin()
        future = world.send()
        await world.turn()
        if version == 1:
            assert world.requests(ProduceRequest) == []
            world.send(partition=1)
            assert await answered(world) == AddPartitionsToTxn(frozenset({ONE}))
        sent = world.one(ProduceRequest)
        assert states(sent) == [(77, 0)]
        assert sent[1].transaction == world.manager.handle
        assert all(batch.state.transactional for batch, _ in sent[1].batches)
        if version == 1:
            assert await answered(world) == AddPartitionsToTxn(frozenset({TWO}))
        await world.answer(sent)
        assert future.done()
        assert world.requests(TransactionRequest) == []


@VERSIONS
async def test_a_commit_comes_when_everything_has_its_outcome(version: int) -> None:
    async with transactional(version) as world:
        world.manager.begin()
        await written(world)
        world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        waiting = world.send(topic="unknown")
        ending = world.manager.commit()
        assert not requester(world).idle
        assert await silent(world)
        await world.answer(sent)
        assert await silent(world), "a record waits to know its topic"
        await world.tell_metadata(topic="unknown")
        if version == 1:
            await answered(world)
        assert world.requests(TransactionRequest) == []
        await world.answer(world.one(ProduceRequest))
        assert waiting.done()
        changes = world.changes
        assert await answered(world, producer_id=77 if version == 2 else -1, epoch=1) == COMMIT
        assert ending.done
        assert requester(world).idle
        assert world.changes > changes


@VERSIONS
async def test_offsets_are_written_before_the_commit(version: int) -> None:
    async with transactional(version) as world:
        world.manager.begin()
        offsets = {TopicPartition("events", 0): OffsetAndMetadata(7)}
        pending = world.manager.add_offsets(offsets, ConsumerGroupMetadata("readers"))
        world.manager.commit()
        await world.turn()
        if version == 1:
            assert await answered(world) == AddOffsetsToTxn("readers")
        assert isinstance(await answered(world, node=1), FindCoordinator)
        ((node, request),) = world.network.sent
        assert node == 1, "the coordinator of the group"
        assert isinstance(request.request, TxnOffsetCommit)
        await answered(world)
        assert world.manager.is_written(pending)
        assert await answered(world) == COMMIT


# --- again, later or elsewhere -----------------------------------------------------------------


async def test_the_same_question_again_waits_longer_each_time() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.send()
        await world.turn()
        for wait in (BACKOFF, 2 * BACKOFF, 4 * BACKOFF, 8 * BACKOFF, 1.0, 1.0):
            assert await answered(world, LOADING) == AddPartitionsToTxn(frozenset({ONE}))
            assert await silent(world, wait * 0.99)
            await world.turn(wait * 0.02)
        await answered(world)
        await world.answer(world.one(ProduceRequest))
        world.send(partition=1)
        await world.turn()
        await answered(world, LOADING)
        assert await silent(world, BACKOFF * 0.99), "the next question begins anew"
        await world.turn(BACKOFF * 0.02)
        await answered(world)


async def test_the_end_of_the_transaction_before_is_waited_for_in_milliseconds() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.send()
        await world.turn()
        for wait in (*(0.005 * 1.5**number for number in range(14)), 1.0, 1.0):
            await answered(world, CONCURRENT)
            assert await silent(world, wait * 0.99)
            await world.turn(wait * 0.02)
        await answered(world)


async def test_an_answer_wakes_those_who_wait_only_if_something_has_changed() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.send()
        await world.turn()
        before = world.changes
        await answered(world, CONCURRENT)
        await world.turn(BACKOFF)
        assert world.changes == before
        await answered(world, FENCED)
        assert world.changes == before + 1


async def test_a_transaction_that_takes_hours_to_be_finished_is_waited_for() -> None:
    """As where a partition that it wrote to has no leader."""
    async with transactional() as world:
        world.manager.begin()
        world.send()
        await world.turn()
        for _ in range(1100):
            await answered(world, CONCURRENT)
            await world.turn(1.1)
            world.accumulator.incomplete.expire_by(next(iter(world.accumulator.incomplete)), 1e9)
            for batch in world.accumulator.incomplete:
                batch.deadline = 1e9
        await answered(world)


async def test_a_coordinator_that_has_moved_is_looked_for_after_the_backoff() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        world.manager.commit()
        await world.turn()
        await answered(world, NOT_COORDINATOR)
        assert await silent(world, BACKOFF * 0.99)
        await world.turn(BACKOFF * 0.02)
        assert isinstance(await answered(world, node=1), FindCoordinator)
        node, request = world.one(TransactionRequest)
        assert (node, request.request) == (1, COMMIT)


@pytest.mark.parametrize("error", [BrokerConnectionError("broken"), RequestTimeoutError("late")])
async def test_a_question_without_an_answer_is_asked_again_of_whoever_coordinates_then(
    error: BrokerConnectionError | RequestTimeoutError,
) -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        ending = world.manager.commit()
        await world.turn()
        await world.complete(world.one(TransactionRequest), error=error)
        assert world.manager.last_error is error
        assert await silent(world, BACKOFF * 0.99)
        await world.turn(BACKOFF * 0.02)
        assert isinstance(await answered(world, node=1), FindCoordinator)
        assert world.manager.last_error is None
        assert await answered(world) == COMMIT
        assert ending.done


async def test_a_coordinator_that_can_t_be_reached_may_be_none_any_more() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        world.network.unreachable = {2}
        world.manager.commit()
        assert await silent(world), "it is being connected to"
        world.network.reasons = {2: BrokerConnectionError("refused")}
        assert await silent(world)
        assert world.manager.last_error is world.network.reasons[2]
        await world.turn(BACKOFF * 1.01)
        assert isinstance(await answered(world, node=2), FindCoordinator)
        assert await silent(world, 10), "it is, and that failure is known"
        world.network.reasons = {2: BrokerConnectionError("refused again")}
        await world.turn()
        await world.turn(BACKOFF * 1.01)
        assert isinstance(await answered(world, node=1), FindCoordinator)
        assert await answered(world) == COMMIT


async def test_without_any_broker_there_is_nobody_to_ask() -> None:
    async with transactional(ready=False) as world:
        world.network.unreachable = {1, 2}
        world.manager.initialize()
        assert await silent(world, 1)
        world.network.unreachable = set()
        await world.turn()
        assert isinstance(await answered(world), FindCoordinator)


# --- what is not to be sent any more -----------------------------------------------------------


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
        assert world.accumulator.pool.available == world.accumulator.pool.total
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


def _mixed(world: World, codes: dict[TopicPartition, int]) -> object:
    from tests.unit.sender.world import produce_response

    whole = produce_response(codes)
    for topic in whole.responses:
        for each in topic.partition_responses:
            code = codes[TopicPartition(topic.name, each.index)]
            object.__setattr__(each, "error_code", code)
    return whole


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


async def test_a_batch_given_up_on_its_way_dooms_the_transaction() -> None:
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


# --- what fails before it is in a batch --------------------------------------------------------


async def test_a_record_whose_time_in_line_is_over_dooms_the_transaction() -> None:
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


async def test_a_record_whose_topic_is_refused_dooms_the_transaction() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        lost = world.send(topic="secret")
        await world.tell_metadata((), topic="secret", code=29)
        assert isinstance(lost.exception(), TopicAuthorizationFailedError)
        assert world.manager.state is S.ABORTABLE_ERROR
        assert world.manager.error is lost.exception()


async def test_a_record_for_a_partition_that_there_is_not_dooms_the_transaction() -> None:
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


# --- who is told, and the end ------------------------------------------------------------------


async def test_a_failure_is_told_at_once_though_a_question_is_on_its_way() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        world.send(partition=0)
        await world.turn()
        sent = world.one(ProduceRequest)
        world.send(partition=1)
        await world.turn()
        assert isinstance(world.one(TransactionRequest)[1].request, AddPartitionsToTxn)
        ending = world.manager.commit()
        await world.turn()
        changes = world.changes
        await world.answer(sent, code=TOO_LARGE)
        assert ending.error is not None
        assert world.changes > changes


async def test_a_producer_that_is_fenced_sends_nothing_any_more() -> None:
    async with transactional() as world:
        world.manager.begin()
        future = world.send()
        await world.turn()
        await answered(world, FENCED)
        assert world.manager.state is S.FATAL_ERROR
        assert isinstance(future.exception(), ProducerFencedError)
        with pytest.raises(ProducerFencedError):
            world.manager.check_open()
        assert await silent(world, 10)
        assert requester(world).idle


async def test_a_batch_that_is_refused_for_the_producer_takes_all_others_with_it() -> None:
    async with transactional(2) as world:
        world.manager.begin()
        await written(world, 0, 1)
        one, queued = world.send(), world.send(topic="unknown")
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=FENCED)
        assert isinstance(one.exception(), ProducerFencedError)
        assert isinstance(queued.exception(), ProducerFencedError)
        assert world.manager.state is S.FATAL_ERROR


async def test_a_broker_that_is_too_old_for_the_question_is_the_end() -> None:
    async with transactional(ready=False) as world:
        world.manager.initialize()
        await world.turn()
        error = UnsupportedVersionError("the broker does not support FIND_COORDINATOR requests")
        changes = world.changes
        await world.complete(world.one(TransactionRequest), error=error)
        assert world.manager.state is S.FATAL_ERROR
        assert world.manager.error is error
        assert world.changes > changes


# --- identities --------------------------------------------------------------------------------


async def test_under_another_producer_id_nothing_follows_a_partition_s_first_batch() -> None:
    """A broker that does not know the producer takes any first sequence number."""
    async with transactional(2) as world:
        world.manager.begin()
        await written(world)
        world.manager.commit()
        await world.turn()
        await answered(world, producer_id=78, epoch=0)
        world.manager.begin()
        for _ in range(2):
            world.send(value=bytes(900))
        await world.turn()
        sent = world.one(ProduceRequest)
        assert states(sent) == [(78, 0)]
        await world.answer(sent)
        assert states(world.one(ProduceRequest)) == [(78, 1)]


async def test_what_the_brokers_have_agreed_on_is_taken_on_after_the_transaction() -> None:
    async with transactional(1) as world:
        world.manager.begin()
        world.network.features = Features(2, {"transaction.version": 2})
        await written(world)
        assert world.manager.handle.version == 1
        world.manager.commit()
        await world.turn()
        assert await answered(world) == COMMIT
        assert await answered(world) == InitProducerId(epoch_bump=True)
        assert world.manager.handle.version == 2


# --- beside the transaction --------------------------------------------------------------------

READ = frozenset({TopicPartition("events", 0)})
UNSTABLE = 88


async def asked_for_offsets(world: World) -> None:
    """Their coordinator is found, and they are asked for."""
    await world.turn()
    assert isinstance(await answered(world), FindCoordinator)


@VERSIONS
async def test_offsets_are_asked_for_beside_a_question_of_the_transaction(version: int) -> None:
    async with transactional(version) as world:
        world.manager.begin()
        await written(world)
        pending = world.offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        fetch = world.one(TransactionRequest)
        assert fetch[1].request is pending.request
        ending = world.manager.commit()
        await world.turn()
        commit = world.one(TransactionRequest)
        assert commit[1].request == COMMIT, "it does not wait for the group's coordinator"
        moves, changes = world.manager.state_changes, world.changes
        await world.complete(fetch, coordinator_answer(fetch[1].request))
        assert (pending.offsets, world.manager.state_changes) == ({}, moves)
        assert world.changes > changes, "who waits is told"
        assert not ending.done
        epoch = {"producer_id": 77, "epoch": 1} if version == 2 else {}
        await world.complete(commit, coordinator_answer(COMMIT, **epoch))
        assert ending.done


async def test_a_pause_before_offsets_are_asked_for_again_is_none_of_the_transaction() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        assert isinstance(await answered(world, UNSTABLE), OffsetFetch)
        assert await silent(world)
        world.send()
        await world.turn()
        assert await answered(world) == AddPartitionsToTxn(frozenset({ONE}))
        assert await silent(world, BACKOFF * 0.99)
        await world.turn(BACKOFF * 0.02)
        assert isinstance(await answered(world), OffsetFetch)


async def test_a_pause_of_the_transaction_is_none_of_offsets() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.send()
        await world.turn()
        assert await answered(world, LOADING) == AddPartitionsToTxn(frozenset({ONE}))
        pending = world.offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        await answered(world)
        assert pending.offsets == {}
        assert await silent(world, BACKOFF * 0.99)


async def test_a_coordinator_of_a_group_that_can_t_be_reached_is_looked_for_again() -> None:
    async with transactional() as world:
        world.network.unreachable = {2}
        pending = world.offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        assert await silent(world), "it is being connected to"
        world.network.reasons = {2: BrokerConnectionError("refused")}
        assert await silent(world)
        assert world.offsets.last_error is world.network.reasons[2]
        assert world.manager.last_error is None
        await world.turn(BACKOFF * 1.01)
        assert isinstance(await answered(world, node=1), FindCoordinator)
        node, request = world.one(TransactionRequest)
        assert (node, request.request) == (1, pending.request)


async def test_offsets_that_brokers_can_t_be_asked_for_are_no_end_of_the_producer() -> None:
    async with transactional() as world:
        pending = world.offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        error = UnsupportedVersionError("OFFSET_FETCH: too old")
        await world.complete(world.one(TransactionRequest), error=error)
        assert pending.error is error
        assert world.manager.state is S.READY


async def test_a_producer_that_ends_does_not_wait_for_offsets() -> None:
    async with transactional() as world:
        world.offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        assert requester(world).idle
