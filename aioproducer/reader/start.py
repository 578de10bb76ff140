"""The start of a reader: its partitions, and the offsets of their positions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from aioproducer.engine.client.arguments import countdown
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.offset_lookup import lookup_offsets
from aioproducer.engine.client.requests import (
    EARLIEST,
    LATEST,
    ClusterDescription,
    FoundOffset,
    IsolationLevel,
)
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    LeaderNotAvailableError,
    ProducerError,
    UnknownTopicOrPartitionError,
    error_about,
)
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.model import TopicPartition
from aioproducer.reader.positions import Assigned, Position, offset_of, timestamp_of

_GRACE: Final = 5.0
"""Seconds that brokers have to learn of a topic that was just created."""


async def find_partitions(
    client: ClusterClient, assigned: Iterable[Assigned], timeout: float
) -> tuple[ClusterDescription, dict[TopicPartition, Position]]:
    """The cluster, and the start of each partition of an assignment.

    ``timeout``: seconds. Raises the error of a topic; a topic or partition that is still unknown
    after 5 seconds is such an error.
    """
    assigned = list(assigned)
    topics = dict.fromkeys(each.topic for each in assigned)
    began, backoff, failures = client.clock(), client.backoff(), 0
    left = countdown(timeout, client.clock)
    while True:
        try:
            cluster = await client.describe(topics, timeout=left())
            return cluster, _partitions(cluster, assigned)
        except ProducerError as error:
            failures += 1
            delay = backoff.delay(failures)
            unknown = isinstance(error, UnknownTopicOrPartitionError)
            end = began + (min(timeout, _GRACE) if unknown else timeout)
            if not client.may_pass(error) or client.clock() + delay >= end:
                raise
        await asyncio.sleep(delay)


def _partitions(
    cluster: ClusterDescription, assigned: Iterable[Assigned]
) -> dict[TopicPartition, Position]:
    starts: dict[TopicPartition, Position] = {}
    known: dict[str, dict[int, None]] = {}
    for topic, partition, start in assigned:
        if topic not in known:
            known[topic] = _numbers(cluster, topic)
        there = known[topic]
        if partition is not None and partition not in there:
            raise UnknownTopicOrPartitionError(
                f"{topic}-{partition}: the topic has the partitions 0 to {max(there)}"
            )
        for number in there if partition is None else [partition]:
            starts[TopicPartition(topic, number)] = start
    return starts


def _numbers(cluster: ClusterDescription, topic: str) -> dict[int, None]:
    """The numbers of a topic's partitions. Raises the error of the topic."""
    described = cluster.topics[topic]
    if described.error_code:
        raise error_about(f"topic {topic!r}", described.error_code, Api.METADATA)
    if not described.partitions:
        raise LeaderNotAvailableError(f"topic {topic!r} has no partitions yet")
    return dict.fromkeys(each.partition for each in described.partitions)


async def find_beyond(
    client: ClusterClient,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int | None],
    timeout: float,
) -> set[TopicPartition]:
    """The partitions whose log lacks their offset, of those that nothing is fetched from.

    From an offset before the end, the first fetch shows it. ``timeout``: seconds.
    """
    unread = [
        where
        for where, offset in offsets.items()
        if (end := ends.get(where)) is not None and offset >= end
    ]
    if not unread:
        return set()
    # The records of open transactions are in the log, whatever the isolation.
    beginnings, high_watermarks = await asyncio.gather(
        lookup_offsets(client, dict.fromkeys(unread, EARLIEST), timeout=timeout),
        lookup_offsets(client, dict.fromkeys(unread, LATEST), timeout=timeout),
    )
    return {
        where
        for where in unread
        if not beginnings[where].offset <= offsets[where] <= high_watermarks[where].offset
    }


async def find_offsets(
    client: ClusterClient,
    positions: Mapping[TopicPartition, Position],
    isolation: IsolationLevel,
    timeout: float,
) -> dict[TopicPartition, int]:
    """The offset of each position. ``timeout``: seconds. Raises the error of a partition."""
    times = {where: timestamp_of(position) for where, position in positions.items()}
    from_end = [where for where, at in positions.items() if isinstance(at, int) and at < 0]
    beyond = [where for where, at in times.items() if at is not None and at >= 0]

    async def lookup(
        wanted: Mapping[TopicPartition, int],
    ) -> Mapping[TopicPartition, FoundOffset]:
        if not wanted:
            return {}
        return await lookup_offsets(client, wanted, isolation=isolation, timeout=timeout)

    found, beginnings, ends = await asyncio.gather(
        new_task(lookup({where: at for where, at in times.items() if at is not None})),
        new_task(lookup(dict.fromkeys(from_end, EARLIEST))),
        new_task(lookup(dict.fromkeys([*from_end, *beyond], LATEST))),
    )
    return {
        where: offset_of(
            position,
            found[where].offset if where in found else -1,
            beginning=beginnings[where].offset if where in beginnings else 0,
            end=ends[where].offset if where in ends else 0,
        )
        for where, position in positions.items()
    }
