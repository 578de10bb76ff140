"""The questions of :meth:`Producer.check`, which finds out if a producer can write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aioproducer.errors import (
    BootstrapError,
    KafkaError,
    ProducerError,
    TopicAuthorizationFailedError,
    explain,
    kafka_error,
)
from aioproducer.model import Node, TransactionHandle
from aioproducer.sender.check_requests import DescribeRequest, Found, FoundTopic
from aioproducer.sender.transaction_requests import TransactionRequest
from aioproducer.transactions.questions import Coordinator, CoordinatorType, FindCoordinator

__all__ = ["ClusterCheck", "TopicCheck", "check"]

_PAUSE: Final = 0.1
"""Seconds before a broker that may know more soon is asked again."""


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """A topic that can be written to."""

    partitions: int
    may_write: bool | None
    """True if the cluster lets this principal write; None: the broker is too old to tell."""


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """The result of a check."""

    cluster_id: str | None
    brokers: tuple[Node, ...]
    features: Mapping[str, int]
    """The levels that the cluster has agreed on, such as ``metadata.version`` (KIP-584)."""
    versions: Mapping[str, tuple[int, int]]
    """The lowest and highest version of each request at the broker that answered: ``PRODUCE``, …"""
    topics: Mapping[str, TopicCheck]
    coordinator: Node | None
    """The broker that coordinates the transactional id, if one was named."""


class Cluster(Protocol):
    """The cluster that a check asks."""

    async def inquire(self, request: Any, node: Node | None = None) -> Any:
        """The answer of ``node``, or of any broker."""

    def why_no_answer(self) -> str:
        """The last error of each broker."""

    @property
    def features(self) -> Mapping[str, int]:
        """The features that the cluster has agreed on."""

    @property
    def versions(self) -> Mapping[str, tuple[int, int]]:
        """The versions of requests that a connected broker speaks."""


async def check(
    cluster: Cluster, topics: Iterable[str], transactional_id: str | None, timeout: float
) -> ClusterCheck:
    """Ask any broker about the cluster, connect to the leaders of ``topics``, find the coordinator.

    Raises:
        BootstrapError: ``timeout`` seconds were not enough; with each broker's reason.
        ProducerError: what is wrong.
    """
    doing = "the cluster"
    try:
        async with asyncio.timeout(timeout):
            found: Found = await cluster.inquire(DescribeRequest(tuple(dict.fromkeys(topics))))
            if found.error_code:
                raise kafka_error(found.error_code, explain(found.error_code))
            for name, topic in found.topics.items():
                _check_topic(name, topic)
            nodes = {node.id: node for node in found.brokers}
            leaders = frozenset[int]().union(*(each.leaders for each in found.topics.values()))
            for leader in sorted(leaders & nodes.keys()):
                doing = str(nodes[leader])
                await cluster.inquire(None, nodes[leader])
            coordinator = None
            if transactional_id is not None:
                doing = f"the coordinator of transactional id {transactional_id!r}"
                coordinator = await _coordinator(cluster, transactional_id)
                doing = str(coordinator)
                await cluster.inquire(None, coordinator)
    except TimeoutError as error:
        if isinstance(error, ProducerError):
            raise
        raise BootstrapError(
            f"check() did not reach {doing} within {timeout:g} s. Check bootstrap_servers and "
            f"security_protocol. {cluster.why_no_answer()}"
        ) from None
    return ClusterCheck(
        found.cluster_id,
        found.brokers,
        dict(cluster.features),
        dict(cluster.versions),
        {
            name: TopicCheck(topic.partitions, topic.may_write)
            for name, topic in found.topics.items()
        },
        coordinator,
    )


def _check_topic(name: str, topic: FoundTopic) -> None:
    if topic.error_code:
        raise kafka_error(topic.error_code, f"topic {name!r}: {explain(topic.error_code)}")
    if topic.may_write is False:
        raise TopicAuthorizationFailedError(
            f"topic {name!r}: the principal may describe it and not write to it; "
            "grant it WRITE on the topic"
        )


async def _coordinator(cluster: Cluster, transactional_id: str) -> Node:
    question = FindCoordinator(Coordinator(CoordinatorType.TRANSACTION, transactional_id))
    request = TransactionRequest(question, TransactionHandle(transactional_id, -1, -1, 2), 0)
    while True:
        answer = await cluster.inquire(request)
        if not answer.error_code and answer.node is not None:
            return answer.node  # type: ignore[no-any-return]
        error: KafkaError = kafka_error(
            answer.error_code,
            f"transactional id {transactional_id!r}: {explain(answer.error_code)}",
        )
        if not error.retriable:
            raise error
        await asyncio.sleep(_PAUSE)
