"""Offsets by time, and the ends of partitions, from their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import (
    ClusterDescription,
    FoundOffset,
    IsolationLevel,
    ListOffsetsRequest,
)
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProducerError, kafka_error
from aioproducer.errors.broker import error_about, explain
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.model import Node, TopicPartition

__all__ = ["divided", "leaders_of", "lookup_offsets", "portions"]

_T = TypeVar("_T")

MOST_AT_ONCE: Final = 1_000
"""The most partitions of a request. Each takes some microseconds to write and to read, and the loop
waits for a whole request or response."""
_LOOKED_UP_ONE_BY_ONE: Final = 50
"""The most partitions that are."""


def portions(partitions: Iterable[_T]) -> Iterator[list[_T]]:
    """The partitions, for as many requests as they need."""
    left = iter(partitions)
    while portion := [*islice(left, MOST_AT_ONCE)]:
        yield portion


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

    async def ask(node: Node, led: list[TopicPartition]) -> list[BaseException]:
        errors: list[BaseException] = []
        for portion in portions(led):
            request = ListOffsetsRequest({where: wanted[where] for where in portion}, isolation)
            errors += _take(await client.request(request, node), found)
        return errors

    async def attempt() -> None:
        missing = [where for where in wanted if where not in found]
        cluster = await client.describe(dict.fromkeys(where.topic for where in missing))
        responses = await asyncio.gather(
            *(new_task(ask(node, led)) for node, led in leaders_of(missing, cluster).items()),
            return_exceptions=True,
        )
        errors: list[BaseException] = []
        for response in responses:
            if isinstance(response, BaseException):
                errors.append(response)
            else:
                errors += response
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
            errors.append(error_about(where, offset.error_code, Api.LIST_OFFSETS))
        else:
            found[where] = offset
    return errors


async def divided(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> Collection[Collection[TopicPartition]]:
    """The partitions, for look-ups of which none holds up another for long.

    Each by itself, or of many those of each leader, since each look-up describes its topics.
    """
    if len(partitions) <= _LOOKED_UP_ONE_BY_ONE:
        return [(where,) for where in partitions]
    found = await client.describe(dict.fromkeys(where.topic for where in partitions))
    leaders = {
        TopicPartition(name, each.partition): each.leader
        for name, topic in found.topics.items()
        for each in topic.partitions
    }
    groups: dict[int | None, list[TopicPartition]] = {}
    for where in partitions:
        groups.setdefault(leaders.get(where), []).append(where)
    return groups.values()


def leaders_of(
    partitions: Iterable[TopicPartition], cluster: ClusterDescription
) -> dict[Node, list[TopicPartition]]:
    """The partitions by their leaders.

    Raises :class:`KafkaError` for a topic with an error, and for a partition that does not exist or
    has no leader.
    """
    led: dict[Node, list[TopicPartition]] = {}
    for where in partitions:
        leader = cluster.leader(where)
        if not isinstance(leader, Node):
            code, reason = leader
            failed = cluster.topics[where.topic].error_code
            what = f"topic {where.topic!r}" if failed else where
            raise kafka_error(code, f"{what}: {explain(code, reason, Api.METADATA)}")
        led.setdefault(leader, []).append(where)
    return led
