"""Offsets by time, and the ends of partitions, from their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.describe_request import ClusterDescription
from aioproducer.engine.client.list_offsets import FoundOffset, IsolationLevel, ListOffsetsRequest
from aioproducer.errors import (
    LeaderNotAvailableError,
    ProducerError,
    UnknownTopicOrPartitionError,
    error_about,
)
from aioproducer.model import Node, TopicPartition

__all__ = ["leaders_of", "lookup_offsets"]


async def lookup_offsets(
    client: ClusterClient,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout: float,
) -> dict[TopicPartition, FoundOffset]:
    """The offset at each timestamp: milliseconds, ``EARLIEST`` or ``LATEST``.

    Leaders that moved are asked again for up to ``timeout`` seconds. Raises the error of a
    partition that can't be mended; a partition that does not exist is such an error.
    """
    found: dict[TopicPartition, FoundOffset] = {}

    async def attempt() -> None:
        missing = {where: at for where, at in wanted.items() if where not in found}
        cluster = await client.describe(dict.fromkeys(where.topic for where in missing))
        responses = await asyncio.gather(
            *(
                client.request(ListOffsetsRequest({w: missing[w] for w in led}, isolation), node)
                for node, led in leaders_of(missing, cluster).items()
            ),
            return_exceptions=True,
        )
        errors = [each for each in responses if isinstance(each, BaseException)]
        for response in responses:
            if not isinstance(response, BaseException):
                errors += _take(response, found)
        if errors:
            raise next((each for each in errors if not _may_pass(each)), errors[0])

    names = ", ".join(sorted({where.topic for where in wanted}))
    await client.retry(attempt, timeout=timeout, doing=f"looking up offsets of {names}")
    return {where: found[where] for where in wanted}


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, ProducerError) and ClusterClient.may_pass(error)


def _take(
    response: Mapping[TopicPartition, FoundOffset], found: dict[TopicPartition, FoundOffset]
) -> list[BaseException]:
    errors: list[BaseException] = []
    for where, offset in response.items():
        if offset.error_code:
            errors.append(error_about(where, offset.error_code))
        else:
            found[where] = offset
    return errors


def leaders_of(
    partitions: Iterable[TopicPartition], cluster: ClusterDescription
) -> dict[Node, list[TopicPartition]]:
    """The partitions by their leaders.

    Raises :class:`KafkaError` for a topic with an error, and for a partition that does not exist or
    has no leader.
    """
    led: dict[Node, list[TopicPartition]] = {}
    for where in partitions:
        led.setdefault(_leader(where, cluster), []).append(where)
    return led


def _leader(where: TopicPartition, cluster: ClusterDescription) -> Node:
    topic = cluster.topics[where.topic]
    if topic.error_code:
        raise error_about(f"topic {where.topic!r}", topic.error_code)
    known = {each.partition: each for each in topic.partitions}
    if where.partition not in known:
        raise UnknownTopicOrPartitionError(
            f"{where}: the topic has the partitions 0 to {len(known) - 1}"
        )
    leader = cluster.brokers.get(-1 if (at := known[where.partition].leader) is None else at)
    if leader is None:
        raise LeaderNotAvailableError(
            f"{where} currently has no leader: check that its brokers are up"
        )
    return leader
