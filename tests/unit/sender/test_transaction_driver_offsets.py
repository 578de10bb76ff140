"""The requests for the offsets of groups, beside those of the transaction."""

from __future__ import annotations

from aioproducer.engine.sender.transaction_request import TransactionRequest
from aioproducer.engine.transactions.requests import (
    AddPartitionsToTxn,
    FindCoordinator,
    OffsetFetch,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import BrokerConnectionError, UnsupportedVersionError
from aioproducer.model import TopicPartition
from tests.support.world import BACKOFF
from tests.unit.sender.transactions import (
    COMMIT,
    LOADING,
    ONE,
    VERSIONS,
    requester,
    silent,
    written,
)
from tests.unit.sender.world import SenderWorld, answered, coordinator_answer, transactional

S = TransactionState


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
        world.group_offsets.fetch("readers", READ)
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
        node, request = world.one(TransactionRequest)
        assert (node, request.request) == (1, pending.request)


async def test_offsets_that_brokers_can_t_be_asked_for_are_no_end_of_the_producer() -> None:
    async with transactional() as world:
        pending = world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        error = UnsupportedVersionError("OFFSET_FETCH: too old")
        await world.complete(world.one(TransactionRequest), error=error)
        assert pending.error is error
        assert world.manager.state is S.READY


async def test_a_producer_that_ends_does_not_wait_for_offsets() -> None:
    async with transactional() as world:
        world.group_offsets.fetch("readers", READ)
        await asked_for_offsets(world)
        assert requester(world).idle
