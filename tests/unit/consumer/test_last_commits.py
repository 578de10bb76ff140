"""The last commit of a consumer that is closed in the middle of a rebalance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from aioproducer.consumer import Consumer
from aioproducer.errors.codes import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerGroup
from tests.support.simulated_groups import consumer, fill, live

SLOWEST = 1.5
"""Seconds of one way: the messages of two connections overtake each other."""


async def read(reader: Consumer, done: dict[TopicPartition, int]) -> None:
    async for record in reader:
        await asyncio.sleep(0.05)
        done[record.topic_partition] = record.offset  # those before it are acknowledged


def losses(moment: float, seed: int, options: Mapping[str, Any]) -> list[TopicPartition]:
    """The partitions whose last commit is lost by a close so many seconds after a join."""
    lost: list[TopicPartition] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 2_000, 4)
        done: dict[TopicPartition, int] = {}
        first = consumer(world, auto_commit_interval_ms=100_000, client_id="a", **options)
        async with consumer(world, client_id="b", **options):
            await first.start()
            reading = asyncio.create_task(read(first, done))
            await asyncio.sleep(22)
            async with consumer(world, client_id="c", **options):
                await asyncio.sleep(0.3)
                world.cluster.set_latency(0.01, SLOWEST)
                await asyncio.sleep(moment)
                reading.cancel()
                await asyncio.wait([reading])
                assert done
                began = world.now
                await first.close()
                assert world.now - began < 12
                committed = world.cluster.committed_offsets("g")
                for where, offset in done.items():
                    if where not in committed or committed[where].offset < offset:
                        lost.append(where)

    live(life, 4, seed=seed)
    return lost


def test_a_join_under_way_loses_no_commit() -> None:
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    for seed in range(10):
        assert not losses(2.2 + seed * 0.12, seed, options), seed


def test_a_new_epoch_loses_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers before Kafka 4.3 (KIP-1251) take commits in the newest epoch alone."""
    stale = 0

    def refuses_commit(
        group: ConsumerGroup, member_id: str, _: str | None, epoch: int, **__: Any
    ) -> ErrorCode:
        nonlocal stale
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        stale += epoch != member.epoch
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    monkeypatch.setattr(ConsumerGroup, "refuses_commit", refuses_commit)
    options = {"group_protocol": "consumer"}
    for seed in range(12):
        assert not losses(1.0 + seed * 0.15, seed, options), seed
    assert stale
