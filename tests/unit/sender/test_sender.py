"""The way of batches to the brokers, and of answers back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.records.compression import compression
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.errors import ProducerClosedError, ProducerError, ProtocolError
from aioproducer.foundation.tuning import COMPRESS_ELSEWHERE_BYTES
from aioproducer.model import Node, NodeId, RecordMetadata
from tests.support.responses import identity_response, metadata_response, produce_response
from tests.support.world import BACKOFF, BOOT, BROKERS, DELIVERY
from tests.unit.sender.world import SenderWorld, identified, running, states

# --- there and back -----------------------------------------------------------------------------


async def test_the_whole_way_of_a_record() -> None:
    async with running(known=False, idempotent=True) as world:
        first, second = world.send(b"a"), world.send(b"bc")
        await world.tell_metadata()
        node, request = world.one(InitProducerIdRequest)
        assert node in BROKERS
        assert world.requests(ProduceRequest) == [], "nothing leaves without identity"
        await world.complete((node, request), identity_response(77))
        sent = world.one(ProduceRequest)
        assert sent[0] == 1
        assert states(sent) == [(77, 0)]
        assert sent[1].topic_ids == {"orders": UUID(int=1)}
        await world.answer(sent, offset=10)
        assert await first == RecordMetadata("orders", 0, 10, 1, -1, 1)
        assert await second == RecordMetadata("orders", 0, 11, 1, -1, 2)
        world.send(b"d")
        await world.turn()
        assert states(world.one(ProduceRequest)) == [(77, 2)]


async def test_without_acks_a_record_is_delivered_when_it_is_written() -> None:
    async with running(acks=0) as world:
        future = world.send()
        await world.turn()
        assert (await asyncio.wait_for(future, 60)).offset == -1


async def test_one_request_for_each_broker() -> None:
    async with running(known=False) as world:
        futures = [world.send(partition=index) for index in range(3)]
        await world.tell_metadata([1, 2, 1])
        sent = world.requests(ProduceRequest)
        assert sorted((node, len(each.batches)) for node, each in sent) == [(1, 2), (2, 1)]
        for each in sent:
            await world.answer(each)
        assert [(await future).partition for future in futures] == [0, 1, 2]


async def test_large_requests_leave_one_in_each_turn_and_by_turns_to_the_brokers() -> None:
    large: dict[str, Any] = {"batch_size": 600_000, "memory": 10_000_000}
    async with running(known=False, **large) as world:
        world.metadata.use("orders", world.now)
        await world.tell_metadata([1, 1, 2])
        for partition in (0, 1, 2):
            for _ in range(2):
                world.send(b"v" * 550_000, partition=partition)
        nodes: list[NodeId] = []
        for turn in range(1, 7):
            await asyncio.sleep(0)
            nodes += [node for node, _ in world.requests(ProduceRequest)]
            assert len(nodes) == turn
        assert nodes == [1, 2, 1, 2, 1, 1]


async def test_requests_that_share_a_turn_leave_by_turns_to_the_brokers_as_well() -> None:
    brokers = {number: Node(number, f"host{number}", 9092) for number in (1, 2, 3)}
    async with running(known=False, batch_size=400_000, memory=100_000_000) as world:
        world.network.limit = 1
        world.metadata.use("orders", world.now)
        await world.tell_metadata([1, 2, 3], brokers=brokers)
        for _ in range(20):
            for partition in (0, 1, 2):
                world.send(b"v" * 350_000, partition=partition)
        nodes: Counter[NodeId] = Counter()
        for _ in range(12):
            await asyncio.sleep(0)
            for node, request in world.requests(ProduceRequest):
                nodes[node] += 1
                places = [batch.topic_partition for batch, _ in request.batches]
                result = request.read(produce_response(places))
                world.network.complete((node, request), result, None)
                world.sender.handle_response(world.now)
        assert nodes == {1: 8, 2: 8, 3: 8}


async def test_memory_goes_back_and_callers_that_wait_for_it_go_on() -> None:
    async with running(memory=1000) as world:
        world.send()
        assert world.pool.available == 0
        turn = world.accumulator.waiters.room_for(None, world.now)
        await world.turn()
        assert not turn.done()
        await world.answer(world.one(ProduceRequest))
        assert world.pool.available == 1000
        assert turn.done()


async def test_run_ends_when_all_have_their_outcome_and_no_more_will_come() -> None:
    world = SenderWorld()
    task = world.owner.start(world.sender.run(), name="sender")
    world.metadata.use("orders", world.now)
    await world.tell_metadata()
    future = world.send()
    world.accumulator.close()
    await world.turn()
    assert not task.done()
    await world.answer(world.one(ProduceRequest))
    await asyncio.wait_for(task, 60)
    assert future.done()


# --- leaders ------------------------------------------------------------------------------------


async def test_a_response_that_lacks_a_partition_is_an_error_of_that_partition() -> None:
    async with running() as world:
        there, missing = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        await world.complete(sent, produce_response([("orders", 0)]))
        assert there.done()
        assert not missing.done()
        batch = next(iter(world.batches))
        assert isinstance(batch.last_error, ProtocolError)
        assert "orders-1 on broker 1 (host1:9092)" in str(batch.last_error)
        await world.turn(BACKOFF * 2)
        again = world.one(ProduceRequest)
        assert [each.topic_partition.partition for each, _ in again[1].batches] == [1]


async def test_the_new_leader_of_a_response_is_used_at_once() -> None:
    async with running() as world:
        world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=6, leader=(2, 6))
        assert world.one(ProduceRequest)[0] == 2, "without backoff, without a refresh"


async def test_an_old_hint_is_not_followed() -> None:
    async with running() as world:
        world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=6, leader=(2, 5))
        assert world.requests(ProduceRequest) == []
        await world.turn(BACKOFF * 1.1)
        assert world.one(ProduceRequest)[0] == 1


async def test_a_partition_without_leader_waits_and_asks() -> None:
    async with running() as world:
        world.metadata.use("fresh", world.now)
        await world.tell_metadata([-1], topic="fresh")
        future = world.send(topic="fresh")
        await world.turn(1.0)
        assert world.requests(ProduceRequest) == []
        await world.tell_metadata([2], topic="fresh")
        assert world.one(ProduceRequest)[0] == 2
        assert not future.done()


async def test_nobody_gets_what_has_no_leader_after_a_rebootstrap() -> None:
    """Kafka's -1 for no leader was the first bootstrap server's id, which then got the batches."""
    async with running(known=False) as world:
        late = [world.send(partition=partition) for partition in (0, 1)]
        await world.tell_metadata([-1, -1])
        world.metadata.rebootstrap(world.now)
        await world.turn(BACKOFF * 4)
        assert world.requests(ProduceRequest) == []
        assert [future.done() for future in late] == [False, False]
        (asked,) = world.requests(MetadataRequest)
        assert asked[0] == BOOT.id
        await world.complete(asked, metadata_response("orders", [2, 2], 0, BROKERS, 6))
        (sent,) = world.requests(ProduceRequest)
        assert (sent[0], len(sent[1].batches)) == (2, 2)


# --- compression --------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [False, True])
async def test_much_to_compress_is_compressed_elsewhere(gone: bool) -> None:
    codec, size = compression("gzip", level=None), COMPRESS_ELSEWHERE_BYTES
    async with running(codec=codec, batch_size=2 * size, memory=4 * size) as world:
        future = world.send(b"x" * size)
        world.wakeup.wake()
        if gone:
            for _ in range(20):
                if not world.batch_sender._compressing:
                    await asyncio.sleep(0)
            world.network.unreachable.add(1)
        async with asyncio.timeout(60):
            while world.batch_sender._compressing or not (world.network.sent or gone):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        if gone:
            await world.turn()
            assert world.requests(ProduceRequest) == []
            world.network.unreachable.clear()
        await world.turn()
        await world.answer(world.one(ProduceRequest))
        assert (await asyncio.wait_for(future, 60)).offset == 42


class SlowThread:
    """A thread that compresses once the test lets it."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    async def __call__(self, call: Callable[[], None]) -> None:
        await self.free.wait()
        call()


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("given_up", [False, True])
async def test_a_batch_that_is_being_compressed_was_not_written(
    idempotent: bool, given_up: bool
) -> None:
    codec, size, thread = compression("gzip", level=None), COMPRESS_ELSEWHERE_BYTES, SlowThread()
    room: dict[str, Any] = {"batch_size": 2 * size, "memory": 4 * size}
    opened = identified if idempotent else running
    async with opened(codec=codec, elsewhere=thread, **room) as world:
        future = world.send(b"x" * size)
        await world.turn()
        assert not world.batch_sender.quiet
        if given_up:
            world.completer.abort(ProducerClosedError("closed"), world.now)
        else:
            await world.turn(DELIVERY + 1)
            assert "it was not written" in str(future.exception())
            assert "not compressed yet" in str(future.exception())
        error = future.exception()
        assert isinstance(error, ProducerError)
        assert not error.may_have_been_written
        thread.free.set()
        await world.turn()
        assert world.requests(ProduceRequest) == []
        assert world.batch_sender.quiet
        assert world.pool.available == world.pool.total
        later = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest))
        assert later.done()


async def test_no_batch_gets_the_memory_that_is_still_being_compressed() -> None:
    codec, size, thread = compression("gzip", level=None), COMPRESS_ELSEWHERE_BYTES, SlowThread()
    room: dict[str, Any] = {"batch_size": 2 * size, "memory": 2 * size}
    async with running(codec=codec, elsewhere=thread, **room) as world:
        world.send(b"x" * size)
        await world.turn()
        (batch,) = world.batches
        compressed_from = batch.builder.records
        before = bytes(compressed_from)
        world.completer.abort(ProducerClosedError("closed"), world.now)
        world.send(b"y" * size)
        assert bytes(compressed_from) == before
        thread.free.set()
        await world.turn()
