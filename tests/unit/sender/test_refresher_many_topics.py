"""A cold start: the first records to many topics, one after the other, and all at once."""

from __future__ import annotations

from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.requests import MetadataRequest
from tests.support.counting import counted_lines
from tests.support.responses import metadata_response
from tests.support.world import BROKERS
from tests.unit.sender.world import SenderWorld, running

FEW, MANY = 20, 200
ROUNDING = 1.15


async def _first_record(world: SenderWorld, topic: str) -> None:
    """The first record to ``topic``: one request asks for this topic, and one takes the record."""
    future = world.send(topic=topic)
    await world.turn()
    node, request = world.one(MetadataRequest)
    assert request.asked == (frozenset({topic}), False)
    await world.complete((node, request), metadata_response(topic, [1], 0, BROKERS, 5))
    await world.answer(world.one(ProduceRequest))
    assert (await future).offset == 42


async def test_each_of_many_topics_costs_the_same() -> None:
    """By count of lines in all rooms, and of topics in requests."""
    async with running() as world:
        lines = []
        for some in (range(FEW), range(FEW, MANY), range(MANY, MANY + FEW)):
            with counted_lines() as counted:
                for number in some:
                    await _first_record(world, f"topic-{number}")
            lines.append(counted.count / len(some))
        first, _, last = lines
        assert last <= first * ROUNDING


async def test_many_topics_at_once_are_asked_for_together() -> None:
    async with running(pending_memory=10_000_000) as world:
        for number in range(600):
            world.send(topic=f"topic-{number}")
        asked = 0
        for together in (500, 100):
            await world.turn()
            node, request = world.one(MetadataRequest)
            assert len(request.asked.topics) == together
            asked += together
            topic = min(request.asked.topics)
            await world.complete((node, request), metadata_response(topic, [1], 0, BROKERS, 5))
        assert asked == 600
