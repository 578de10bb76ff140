"""The last commit of a consumer that is closed in the middle of a rebalance."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.engine.protocol import Api
from aioproducer.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerGroup
from tests.support.simulated_groups import consumer, each_protocol, fill, live

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


@each_protocol
@pytest.mark.parametrize("error", [UnknownTopicIdError, UnknownTopicOrPartitionError])
def test_a_coordinator_that_does_not_know_the_topic_yet_loses_no_commit(
    protocol: str, error: type[KafkaError]
) -> None:
    """The leaders serve the partitions, so the coordinator's metadata are late."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 300, 2)
        done: dict[TopicPartition, int] = {}
        options: dict[str, Any] = {"group_protocol": protocol}
        first = consumer(world, auto_commit_interval_ms=100_000, **options)
        async with first:
            reading = asyncio.create_task(read(first, done))
            await asyncio.sleep(20)
            world.cluster.fail_next(Api.OFFSET_COMMIT, error, times=3)
            async with consumer(world, **options) as second:
                await asyncio.sleep(20)
                [where] = second.assignment
                assert where not in first.assignment
                committed = world.cluster.committed_offsets("g")
                assert committed[where].offset == done[where] + 1
            reading.cancel()

    live(life, 2)


@each_protocol
@pytest.mark.parametrize("moment", [0.0, 1.0, 10.0])
def test_offsets_of_a_deleted_topic_hold_up_no_revocation(
    protocol: str, moment: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("bills", 2)
        await fill(world, 300, 2)
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(2):
                await producer.send("bills", b"", partition=number)
        options: dict[str, Any] = {"topics": ("orders", "bills"), "group_protocol": protocol}
        async with consumer(world, auto_commit_interval_ms=100_000, **options) as first:
            reading = asyncio.create_task(read(first, {}))
            await asyncio.sleep(20)
            async with Admin(bootstrap_servers=servers) as admin:
                await admin.delete_topics("bills")
            await asyncio.sleep(moment)
            arrived = asyncio.Event()
            async with (
                consumer(world, on_assigned=lambda _: arrived.set(), **options),
                asyncio.timeout(10),
            ):
                await arrived.wait()
            reading.cancel()

    live(life, 2)
    failed = [each for each in caplog.records if "a commit failed" in each.getMessage()]
    assert {each.levelno for each in failed} <= {logging.INFO}
