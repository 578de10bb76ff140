"""Records that are delivered together get their results in slices, and nobody sees the difference.

``RECORDS_PER_SLICE`` are set in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.accumulator.results import Flushes, LateResults
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.transactions.requests import CoordinatorRequest, EndTxn
from aioproducer.errors import ProducerClosedError
from aioproducer.foundation.tuning import RECORDS_PER_SLICE
from aioproducer.model import NodeId, RecordMetadata, TopicPartition
from tests.support.responses import produce_response
from tests.support.tokens import Token
from tests.unit.accumulator.world import requested
from tests.unit.sender.world import SenderWorld, running, transactional

LARGE: dict[str, Any] = {"batch_size": 50_000, "memory": 1_000_000}
MANY = 2 * RECORDS_PER_SLICE + RECORDS_PER_SLICE // 2
Futures = list[asyncio.Future[RecordMetadata]]


def sent(world: SenderWorld, number: int = MANY, partition: int = 0) -> Futures:
    """Records of three sizes, so that there are many runs."""
    return [world.send(b"v" * (1 + index % 3), partition=partition) for index in range(number)]


def number_done(futures: Futures) -> int:
    done = [future.done() for future in futures]
    assert done == sorted(done, reverse=True)  # in their order
    return sum(done)


async def leave(world: SenderWorld) -> tuple[NodeId, Any]:
    """The request with what was sent, some turns later: in these, more results are set."""
    await world.turn()
    request = world.one(ProduceRequest)
    await world.turn()
    await world.turn()
    return request


def take(world: SenderWorld, request: tuple[NodeId, Any], base_offset: int = 100) -> None:
    """A response arrives, and no other task has run yet."""
    places = [batch.topic_partition for batch, _ in request[1].batches]
    response = produce_response(places, offset=base_offset)
    world.network.complete(request, request[1].read(response), None)
    world.sender.handle_response(world.now)


async def number_done_in_each_turn(futures: Futures) -> list[int]:
    """Until all are done, from the present turn on."""
    found = [number_done(futures)]
    while found[-1] < len(futures):
        await asyncio.sleep(0)
        if (done := number_done(futures)) > found[-1]:
            found.append(done)
    return found


async def test_a_large_batch_gets_its_results_in_slices() -> None:
    async with running(**LARGE) as world:
        futures = sent(world)
        take(world, await leave(world))
        assert await number_done_in_each_turn(futures) == [
            RECORDS_PER_SLICE,
            2 * RECORDS_PER_SLICE,
            MANY,
        ]
        for index, future in enumerate(futures):
            metadata = future.result()
            assert metadata.offset == 100 + index
            assert metadata.serialized_value_size == 1 + index % 3


async def test_what_was_sent_in_earlier_turns_makes_no_slice_longer() -> None:
    """No round of the sender has counted it: records that join an open batch wake nobody."""
    async with running(**LARGE) as world:
        futures = sent(world)
        request = await leave(world)
        for _ in range(10):
            sent(world, 200, partition=1)
            await asyncio.sleep(0)
        take(world, request)
        assert (await number_done_in_each_turn(futures))[0] == RECORDS_PER_SLICE


async def test_a_broker_that_tells_the_last_offset_of_all() -> None:
    async with running(**LARGE) as world:
        futures = sent(world)
        take(world, await leave(world), 2**63 - 1)
        for _ in range(MANY // RECORDS_PER_SLICE + 1):
            await asyncio.sleep(0)
        assert [each.result().offset - 2**63 for each in futures] == [*range(-1, MANY - 1)]


async def test_batches_of_one_response_share_the_slice() -> None:
    async with running(**LARGE) as world:
        most = RECORDS_PER_SLICE * 2 // 3
        first, second = sent(world, most), sent(world, most, partition=1)
        take(world, await leave(world))
        assert await number_done_in_each_turn(first + second) == [RECORDS_PER_SLICE, 2 * most]
        assert [each.result().offset for each in second] == [*range(100, 100 + most)]


async def test_later_deliveries_wait_for_earlier_ones() -> None:
    async with running(**LARGE) as world:
        first = sent(world)
        request = await leave(world)
        later = sent(world, 1)
        second = await leave(world)
        take(world, request)
        take(world, second, 100 + MANY)
        assert not later[0].done()
        turns = await number_done_in_each_turn(first + later)
        assert turns == [RECORDS_PER_SLICE, 2 * RECORDS_PER_SLICE, MANY + 1]


async def test_results_keep_up_with_a_caller_that_sends_many_records_in_each_turn() -> None:
    """Otherwise delivered records without results take more and more memory."""
    async with running(batch_size=50_000, memory=10_000_000) as world:
        futures: Futures = []
        most = 0
        for turn in range(50):
            futures += sent(world)
            world.now += 0.002  # at the least
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for request in world.requests(ProduceRequest):
                take(world, request, turn * MANY)
            most = max(most, len(futures) - number_done(futures))
        assert most <= 3 * MANY


def test_long_turns_set_more_results() -> None:
    """Other tasks hold the loop for 8 ms in each turn: results need few of them."""
    results = LateResults(Flushes())
    tokens = [Token() for _ in range(30_000)]
    batch = ProducerBatch(TopicPartition("t", 3), bytearray(900_000), 900_000, 0.0, 1.0)
    for token in tokens:
        batch.builder.append(token, 1, None, b"v")
    results.complete_futures(requested(batch), 0, 5)
    now, done = 1000.0, []
    while results.waiting:
        now += 1 / 128
        results.turn(now)
        done.append(sum(token.done() for token in tokens))
    assert done == [2_812, 10_624, 18_436, 26_248, 30_000]


def test_the_number_of_results_that_wait_is_bounded_whatever_the_time() -> None:
    results = LateResults(Flushes())
    tokens = [Token() for _ in range(40 * MANY)]
    most = 0
    for turn in range(40):
        batch = ProducerBatch(TopicPartition("t", 3), bytearray(200_000), 200_000, 0.0, 1.0)
        for token in tokens[turn * MANY : (turn + 1) * MANY]:
            batch.builder.append(token, 1, None, b"v")
        results.complete_futures(requested(batch), turn * MANY, 5)
        results.turn(1.0)
        most = max(most, sum(not token.done() for token in tokens[: (turn + 1) * MANY]))
    assert most <= 16 * MANY
    while results.waiting:
        results.turn(1.0)
    assert [token.metadata.offset for token in tokens if token.metadata] == [*range(40 * MANY)]


async def test_a_flush_waits_for_the_last_slice() -> None:
    async with running(**LARGE) as world:
        futures = sent(world)
        request = await leave(world)
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        world.accumulator.flush(flushed)
        take(world, request)
        assert not world.accumulator.is_empty
        await flushed
        assert number_done(futures) == MANY
        assert world.accumulator.is_empty


async def test_a_flush_that_begins_between_two_slices_waits_for_the_last_one() -> None:
    async with running(**LARGE) as world:
        futures = sent(world)
        take(world, await leave(world))
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        world.accumulator.flush(flushed)
        later = world.send()
        await flushed
        assert number_done(futures) == MANY
        assert not later.done()


async def test_a_transaction_ends_after_the_last_slice() -> None:
    async with transactional(version=2, **LARGE) as world:
        world.manager.begin()
        futures = sent(world)
        request = await leave(world)
        world.manager.commit()
        take(world, request)
        while not (ends := world.requests(CoordinatorRequest)):
            await asyncio.sleep(0)
            done = number_done(futures)
        assert isinstance(ends[0][1], EndTxn)
        assert done == MANY


async def test_a_producer_that_gives_up_has_delivered_what_is_in_the_log() -> None:
    async with running(**LARGE) as world:
        futures = sent(world)
        request = await leave(world)
        lost = world.send()
        take(world, request)
        assert world.completer.abort(ProducerClosedError("closed"), world.now) == 1
        assert [future.result().offset for future in futures] == [*range(100, 100 + MANY)]
        assert isinstance(lost.exception(), ProducerClosedError)


async def test_memory_returns_and_batches_leave_before_the_last_slice() -> None:
    async with running(**LARGE, one_at_a_time=True) as world:
        sent(world)
        request = await leave(world)
        world.send()
        await asyncio.sleep(0)
        assert world.requests(ProduceRequest) == []
        take(world, request)
        assert world.pool.available == world.pool.total - LARGE["batch_size"]
        await world.turn()
        assert world.one(ProduceRequest)


class Outcomes:
    """Takes the outcomes of one call."""

    def __init__(self) -> None:
        self.arrivals: list[int] = []

    def done(self) -> bool:
        return False

    def arrived(self, token: BulkToken, topic: str, partition: int, base_offset: int) -> None:
        self.arrivals.append(base_offset)

    def one(self, index: int) -> Any:
        raise AssertionError(index)


@pytest.mark.parametrize("before", [0, 1, RECORDS_PER_SLICE - 1, RECORDS_PER_SLICE])
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("base_offset", [100, -1])
def test_the_records_of_one_call_are_delivered_once(
    before: int, after: int, base_offset: int
) -> None:
    batch = ProducerBatch(TopicPartition("t", 3), bytearray(200_000), 200_000, 0.0, 1.0)
    outcomes = Outcomes()
    call = BulkToken(outcomes, 0, count=MANY)
    tokens = [Token() for _ in range(before + after)]
    for token in (*tokens[:before], *[call] * MANY, *tokens[before:]):
        batch.builder.append(token, 1, None, b"v")
    results = LateResults(Flushes())
    results.complete_futures(requested(batch), base_offset, 5)
    while results.waiting:
        results.turn(1.0)
    known = base_offset >= 0
    assert outcomes.arrivals == [base_offset + before if known else -1]
    found = [token.metadata.offset for token in tokens if token.metadata]
    places = [*range(before), *range(before + MANY, before + MANY + after)]
    assert found == [base_offset + place if known else -1 for place in places]
