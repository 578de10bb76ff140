"""The driver sends one request at a time, in versions that the protocol allows, offsets too."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from aioproducer import Producer
from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.network.versions import Features
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    OffsetFetch,
    TxnOffsetCommit,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AbortableTransactionError,
    BrokerConnectionError,
    NotEnoughReplicasError,
    ProducerError,
    ProducerFencedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.fault_proxy import ApiKey
from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.support.kio_messages import theirs
from tests.support.simulated_world import run_in
from tests.support.world import BACKOFF, BUMP, FENCE, PAYMENTS
from tests.unit.sender.transactions import (
    COMMIT,
    CONCURRENT,
    FENCED,
    LOADING,
    NOT_COORDINATOR,
    ONE,
    TOO_LARGE,
    TWO,
    VERSIONS,
    requester,
    silent,
    written,
)
from tests.unit.sender.world import SenderWorld, answered, coordinator_answer, states, transactional
from tests.unit.transactions.wire import (
    CONSUMED,
    FIRST,
    MEMBER,
    SECOND,
    built,
    each_version,
    versions,
)

S = TransactionState


# --- one request at a time -------------------------------------------------------------------
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
        assert isinstance(request, FindCoordinator)
        assert await silent(world, 10) is False
        await world.complete((node, request), coordinator_answer(request, node=2))
        node, request = world.one(CoordinatorRequest)
        assert (node, request) == (
            2,
            FENCE,
        )
        assert request.timeout_ms == 60_000
        assert await silent(world, 10), "one at a time"
        done = coordinator_answer(request, producer_id=77, epoch=0)
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
            assert await answered(world) == AddPartitionsToTxn(frozenset({ONE}), producer=PAYMENTS)
        sent = world.one(ProduceRequest)
        assert states(sent) == [(77, 0)]
        assert sent[1].transaction == world.manager.handle
        assert all(batch.state.transactional for batch, _ in sent[1].batches)
        if version == 1:
            assert await answered(world) == AddPartitionsToTxn(frozenset({TWO}), producer=PAYMENTS)
        await world.answer(sent)
        assert future.done()
        assert world.requests(CoordinatorRequest) == []


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
        assert world.requests(CoordinatorRequest) == []
        await world.answer(world.one(ProduceRequest))
        assert waiting.done()
        changes = world.changes
        assert await answered(world, producer_id=77 if version == 2 else -1, epoch=1) == COMMIT
        assert ending.done
        assert requester(world).idle
        assert world.changes > changes


@VERSIONS
@pytest.mark.parametrize("topic_ids", [{}, {"events": UUID(int=7)}], ids=["name", "id"])
async def test_offsets_are_written_before_the_commit(
    version: int, topic_ids: dict[str, UUID]
) -> None:
    async with transactional(version) as world:
        world.manager.begin()
        offsets = {TopicPartition("events", 0): OffsetAndMetadata(7)}
        pending = world.manager.add_offsets(offsets, ConsumerGroupMetadata("readers"), topic_ids)
        world.manager.commit()
        await world.turn()
        if version == 1:
            assert await answered(world) == AddOffsetsToTxn("readers", producer=PAYMENTS)
        assert isinstance(await answered(world, node=1), FindCoordinator)
        ((node, request),) = world.network.sent
        assert node == 1, "the coordinator of the group"
        assert isinstance(request, TxnOffsetCommit)
        await answered(world)
        assert world.manager.is_written(pending)
        assert await answered(world) == COMMIT


async def test_the_metadata_of_a_topic_whose_id_is_unknown_is_out_of_date() -> None:
    async with transactional(2) as world:
        world.manager.begin()
        offsets = {TopicPartition("events", 0): OffsetAndMetadata(7)}
        group = ConsumerGroupMetadata("readers")
        pending = world.manager.add_offsets(offsets, group, {"events": UUID(int=7)})
        await world.turn()
        await answered(world, node=1)
        assert world.requests(MetadataRequest) == []
        await answered(world, ErrorCode.UNKNOWN_TOPIC_ID)
        assert not world.manager.is_written(pending)
        await world.turn(BACKOFF * 2)
        assert isinstance(await answered(world), TxnOffsetCommit)
        assert world.manager.is_written(pending)
        assert world.one(MetadataRequest)[1].asked.full


async def test_offsets_of_a_topic_that_was_made_anew_end_the_transaction() -> None:
    async with transactional(2) as world:
        world.manager.begin()
        offsets = {TopicPartition("orders", 0): OffsetAndMetadata(7)}
        group = ConsumerGroupMetadata("readers")
        pending = world.manager.add_offsets(offsets, group, {"orders": UUID(int=99)})
        await world.turn()
        await answered(world, node=1)
        await answered(world, ErrorCode.UNKNOWN_TOPIC_ID)
        with pytest.raises(
            AbortableTransactionError, match="'orders' was deleted and created again"
        ):
            world.manager.is_written(pending)
        assert world.state() is TransactionState.ABORTABLE_ERROR


# --- retries ---------------------------------------------------------------------------------
async def test_the_same_request_again_waits_longer_each_time() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.send()
        await world.turn()
        for wait in (BACKOFF, 2 * BACKOFF, 4 * BACKOFF, 8 * BACKOFF, 1.0, 1.0):
            assert await answered(world, LOADING) == AddPartitionsToTxn(
                frozenset({ONE}), producer=PAYMENTS
            )
            assert await silent(world, wait * 0.99)
            await world.turn(wait * 0.02)
        await answered(world)
        await world.answer(world.one(ProduceRequest))
        world.send(partition=1)
        await world.turn()
        await answered(world, LOADING)
        assert await silent(world, BACKOFF * 0.99), "the next request begins anew"
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
            for batch in world.batches:
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
        node, request = world.one(CoordinatorRequest)
        assert (node, request) == (1, COMMIT)


@pytest.mark.parametrize("error", [BrokerConnectionError("broken"), RequestTimeoutError("late")])
async def test_a_request_without_a_response_is_sent_again_to_whoever_coordinates_then(
    error: BrokerConnectionError | RequestTimeoutError,
) -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        ending = world.manager.commit()
        await world.turn()
        await world.complete(world.one(CoordinatorRequest), error=error)
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


# --- reports and the end ---------------------------------------------------------------------
async def test_a_failure_is_reported_at_once_though_a_request_is_on_its_way() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        world.send(partition=0)
        await world.turn()
        sent = world.one(ProduceRequest)
        world.send(partition=1)
        await world.turn()
        assert isinstance(world.one(CoordinatorRequest)[1], AddPartitionsToTxn)
        ending = world.manager.commit()
        await world.turn()
        changes = world.changes
        await world.answer(sent, code=TOO_LARGE)
        assert ending.error is not None
        assert world.changes > changes


async def test_a_commit_that_fails_while_the_producer_closes_is_aborted_before_its_end() -> None:
    async with transactional() as world:
        world.manager.begin()
        await written(world)
        world.manager.commit()
        world.manager.leave()
        world.manager.delivery_failed(ProducerError("refused"))
        assert world.manager.state is S.ABORTING
        assert not requester(world).idle, "the abort is still to be sent"


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


async def test_a_broker_that_is_too_old_for_the_request_is_the_end() -> None:
    async with transactional(ready=False) as world:
        world.manager.initialize()
        await world.turn()
        error = UnsupportedVersionError("the broker does not support FIND_COORDINATOR requests")
        changes = world.changes
        await world.complete(world.one(CoordinatorRequest), error=error)
        assert world.manager.state is S.FATAL_ERROR
        assert world.manager.error is error
        assert world.changes > changes


# --- identities ------------------------------------------------------------------------------
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
        assert await answered(world) == BUMP
        assert world.manager.handle.version == 2


# --- requests that nothing else asks for -----------------------------------------------------
def test_a_partition_is_added_when_the_backoff_of_its_last_batch_is_over() -> None:
    """The batch lines up after the driver's step of that round, and nothing else happens then."""
    simulated = SimulatedWorld(0, 1, options=ClusterOptions(transaction_version=1))
    cluster = simulated.cluster
    cluster.create_topic("orders")

    async def life() -> float:
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id="orders",
            retry_backoff_ms=2_000,
            retry_backoff_max_ms=2_000,
            enable_metrics_push=False,
        ) as producer:
            cluster.fail_next(ApiKey.PRODUCE, NotEnoughReplicasError)
            await producer.begin_transaction()
            producer.send("orders", b"aborted")
            await asyncio.sleep(0.1)
            await producer.abort_transaction()
            began = simulated.now
            async with producer.transaction():
                await producer.send("orders", b"1")
            return simulated.now - began

    assert run_in(simulated, life()) < 3


READ = frozenset({TopicPartition("events", 0)})
UNSTABLE = 88


async def asked_for_offsets(world: SenderWorld) -> None:
    """Their coordinator is found, and they are asked for."""
    await world.turn()
    assert isinstance(await answered(world), FindCoordinator)


@VERSIONS
async def test_offsets_are_asked_for_beside_a_request_of_the_transaction(version: int) -> None:
    async with transactional(version) as world:
        world.manager.begin()
        await written(world)
        pending = world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        fetch = world.one(CoordinatorRequest)
        assert fetch[1] is pending.request
        ending = world.manager.commit()
        await world.turn()
        commit = world.one(CoordinatorRequest)
        assert commit[1] == COMMIT, "it does not wait for the group's coordinator"
        moves, changes = world.manager.state_changes, world.changes
        await world.complete(fetch, coordinator_answer(fetch[1]))
        assert (pending.offsets, world.manager.state_changes) == ({}, moves)
        assert world.changes > changes, "who waits is told"
        assert not ending.done
        epoch = {"producer_id": 77, "epoch": 1} if version == 2 else {}
        await world.complete(commit, coordinator_answer(COMMIT, **epoch))
        assert ending.done


async def test_a_pause_before_offsets_are_asked_for_again_is_none_of_the_transaction() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        assert isinstance(await answered(world, UNSTABLE), OffsetFetch)
        assert await silent(world)
        world.send()
        await world.turn()
        assert await answered(world) == AddPartitionsToTxn(frozenset({ONE}), producer=PAYMENTS)
        assert await silent(world, BACKOFF * 0.99)
        await world.turn(BACKOFF * 0.02)
        assert isinstance(await answered(world), OffsetFetch)


async def test_a_pause_of_the_transaction_is_none_of_offsets() -> None:
    async with transactional() as world:
        world.manager.begin()
        world.send()
        await world.turn()
        assert await answered(world, LOADING) == AddPartitionsToTxn(
            frozenset({ONE}), producer=PAYMENTS
        )
        pending = world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        await answered(world)
        assert pending.offsets == {}
        assert await silent(world, BACKOFF * 0.99)


async def test_a_coordinator_of_a_group_that_can_t_be_reached_is_looked_for_again() -> None:
    async with transactional() as world:
        world.network.unreachable = {2}
        pending = world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        assert await silent(world), "it is being connected to"
        world.network.reasons = {2: BrokerConnectionError("refused")}
        assert await silent(world)
        assert world.group_offsets.last_error is world.network.reasons[2]
        assert world.manager.last_error is None
        await world.turn(BACKOFF * 1.01)
        assert isinstance(await answered(world, node=1), FindCoordinator)
        node, request = world.one(CoordinatorRequest)
        assert (node, request) == (1, pending.request)


async def test_offsets_that_brokers_can_t_be_asked_for_are_no_end_of_the_producer() -> None:
    async with transactional() as world:
        pending = world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        error = UnsupportedVersionError("OFFSET_FETCH: too old")
        await world.complete(world.one(CoordinatorRequest), error=error)
        assert pending.error is error
        assert world.manager.state is S.READY


async def test_a_producer_that_ends_does_not_wait_for_offsets() -> None:
    async with transactional() as world:
        world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        assert requester(world).idle


@pytest.mark.parametrize(
    ("coordinator_request", "api", "highest"),
    [
        (EndTxn(committed=True, producer=PAYMENTS), Api.END_TXN, 4),
        (TxnOffsetCommit(CONSUMED, MEMBER, producer=PAYMENTS), Api.TXN_OFFSET_COMMIT, 4),
    ],
    ids=["EndTxn", "TxnOffsetCommit"],
)
def test_in_version_1_requests_that_mean_version_2_are_not_used(
    coordinator_request: CoordinatorRequest, api: Api, highest: int
) -> None:
    """KIP-890: a broker takes the version of the request for that of the protocol."""
    assert SUPPORTED[api][1] > highest
    for version in versions(api):
        if isinstance(coordinator_request, TxnOffsetCommit) and version < 3:
            continue
        read = built(coordinator_request, version, FIRST)
        assert int(read.__version__) == min(version, highest)
        assert int(built(coordinator_request, version, SECOND).__version__) == version


@each_version(Api.PRODUCE)
@pytest.mark.parametrize("handle", [FIRST, SECOND, None])
def test_a_produce_request_names_the_transaction(
    version: int, handle: TransactionHandle | None
) -> None:
    batch = ProducerBatch(ONE, bytearray(100), 100, 0.0, 1.0)
    made = ProduceRequest([(batch, bytearray(b"batch"))], -1, 30_000, {"orders": None})
    if handle is not None:
        made = ProduceRequest(made.batches, -1, 30_000, made.topic_ids, handle)
    payload = made.build(version)
    read = theirs(payload)
    assert read.transactional_id == (None if handle is None else "payments")
    highest = 11 if handle is FIRST else 12  # 13 needs the topic's id
    assert int(read.__version__) == min(version, highest)
