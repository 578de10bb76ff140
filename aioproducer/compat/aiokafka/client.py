"""``AIOKafkaProducer.client``: what applications ask aiokafka's client about the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from aioproducer.cluster.snapshot import ClusterView
from aioproducer.compat.aiokafka.bootstrap import bootstrap
from aioproducer.compat.aiokafka.errors import translating
from aioproducer.core.arguments import checked_topic
from aioproducer.core.check import check
from aioproducer.core.cluster_queries import ClusterQueries
from aioproducer.errors import ProducerError
from aioproducer.model import Node, TopicPartition

_NO_CLUSTER = ClusterView({})


class BrokerMetadata(NamedTuple):
    """A broker."""

    nodeId: int  # noqa: N815  # aiokafka's name
    host: str
    port: int
    rack: str | None


class ClusterMetadata:
    """A view of the brokers, and of the topics that the producer uses."""

    def __init__(self, known: Callable[[], ClusterView]) -> None:
        self._known = known

    def brokers(self) -> set[BrokerMetadata]:
        """All brokers; none before the first response with metadata."""
        return {_broker(node) for node in self._known().brokers.values()}

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """The broker with this id."""
        node = self._known().brokers.get(broker_id)
        return None if node is None else _broker(node)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The names of the topics that are in use."""
        return set(self._known().topics)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of the partitions; None: the topic is not known."""
        info = self._known().topics.get(topic)
        return None if info is None else {each.partition for each in info.partitions}

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of the partitions that have a leader; None: the topic is not known."""
        info = self._known().topics.get(topic)
        if info is None:
            return None
        return {each.partition for each in info.partitions if each.leader is not None}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """The id of the leader, -1 while there is none; None: the partition is not known."""
        info = self._known().topics.get(partition[0])
        if info is None or not 0 <= partition[1] < len(info.partitions):
            return None
        leader = info.partitions[partition[1]].leader
        return -1 if leader is None else leader


class AIOKafkaClient:
    """A producer's view of the cluster. ``queries`` raises if the producer is not started."""

    def __init__(
        self,
        queries: Callable[[], ClusterQueries],
        hosts: Iterable[tuple[str, int]],
        timeout: float,
    ) -> None:
        self._queries = queries
        self._hosts = list(hosts)
        self._timeout = timeout
        self._topics: set[str] = set()
        self.cluster = ClusterMetadata(self._known)

    def __repr__(self) -> str:
        return f"<AIOKafkaClient of {self._hosts}>"

    def _known(self) -> ClusterView:
        try:
            return self._queries().known
        except ProducerError:  # not started, or closed
            return _NO_CLUSTER

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """The bootstrap servers."""
        return list(self._hosts)

    async def bootstrap(self) -> None:
        """Ask the bootstrap servers about the cluster. Raises KafkaConnectionError."""
        with translating():
            await bootstrap(self._queries(), self._timeout)

    def add_topic(self, topic: str) -> asyncio.Future[bool]:
        """Let :meth:`force_metadata_update` ask for ``topic`` as well."""
        with translating():
            self._topics.add(checked_topic(topic))
        return _done()

    def set_topics(self, topics: Iterable[str]) -> asyncio.Future[bool]:
        """Let :meth:`force_metadata_update` ask for these topics."""
        with translating():
            self._topics = set(map(checked_topic, topics))
        return _done()

    async def force_metadata_update(self) -> bool:
        """Fetch the metadata of the topics in use; True if the cluster has told all of it."""
        queries = self._queries()
        try:
            for topic in {*self._topics, *queries.known.topics}:
                await queries.partition_infos(topic, self._timeout)
                await queries.topic(topic, self._timeout)
        except ProducerError:
            return False
        return True

    async def fetch_all_metadata(self) -> ClusterMetadata:
        """A view of the cluster, after a response of a broker. Raises KafkaConnectionError."""
        with translating():
            await check(self._queries(), (), None, self._timeout)
        return self.cluster


def _broker(node: Node) -> BrokerMetadata:
    return BrokerMetadata(node.id, node.host, node.port, node.rack)


def _done() -> asyncio.Future[bool]:
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    future.set_result(True)
    return future
