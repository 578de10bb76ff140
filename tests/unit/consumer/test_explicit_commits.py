"""Commits of offsets that the application names, while the group is in a rebalance."""

from __future__ import annotations

import asyncio
from typing import Any

from aioproducer.consumer import Consumer
from aioproducer.errors import KafkaError
from aioproducer.model import TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_groups import consumer, each_protocol, fill, live

SLOWEST = 1.5
"""Seconds of one way: the messages of two connections overtake each other."""


class Ledger:
    """The commits of a member: what the group has taken, and which errors there were."""

    def __init__(self) -> None:
        self.taken: dict[TopicPartition, int] = {}
        self.refused: list[tuple[TopicPartition, bool]] = []
        """The partition of each error, and whether it was this member's before and after."""

    async def read(self, reader: Consumer) -> None:
        async for record in reader:
            where, next_offset = record.topic_partition, record.offset + 1
            try:
                await reader.commit({where: next_offset})
            except KafkaError:
                self.refused.append((where, where in reader.assignment))
            else:
                self.taken[where] = next_offset
            await asyncio.sleep(0.01)


@each_protocol
def test_offsets_of_partitions_that_stay_are_committed_in_a_rebalance(protocol: str) -> None:
    options: dict[str, Any] = {
        "group_protocol": protocol,
        "partition_assignment_strategy": "cooperative-sticky",
        "auto_commit": False,
    }
    rounds = 0

    async def life(world: SimulatedWorld) -> None:
        nonlocal rounds
        await fill(world, 4_000, 4)
        ledger = Ledger()
        async with consumer(world, client_id="a", **options) as first:
            reading = asyncio.create_task(ledger.read(first))
            await asyncio.sleep(20)
            world.cluster.set_latency(0.01, SLOWEST)
            for name in "bcd":
                async with consumer(world, client_id=name, **options):
                    await asyncio.sleep(30)
                    rounds += len(first.assignment) < 4
                await asyncio.sleep(30)
            assert not reading.done()
            first.finish()
            await reading
        assert not [where for where, stays in ledger.refused if stays], ledger.refused
        committed = world.cluster.committed_offsets("g")
        assert {where: committed[where].offset for where in ledger.taken} == ledger.taken

    for seed in range(4):
        live(life, 4, seed=seed)
    assert rounds
