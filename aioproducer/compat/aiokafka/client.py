"""What aiokafka's producer and consumer share, and what applications ask about the cluster."""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from aioproducer.compat.aiokafka.errors import translating
from aioproducer.config import ProducerConfig
from aioproducer.engine.client.requests import (
    ClusterDescription,
    DescribeRequest,
    TopicDescription,
)
from aioproducer.engine.cluster.snapshot import ClusterView
from aioproducer.engine.core.arguments import checked_topic
from aioproducer.engine.core.queries import ClusterQueries
from aioproducer.engine.network.request import Request
from aioproducer.errors import (
    AuthenticationError,
    BootstrapError,
    NetworkError,
    ProducerError,
    RebootstrapRequiredError,
)
from aioproducer.foundation import logs
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import BootstrapServer, Node, Peer, TopicPartition

WHOLE_CLUSTER: Final = DescribeRequest(None)
"""Asks for all topics as well."""


class LoopBound:
    """A client that belongs to an event loop, and warns if nobody has closed it, as aiokafka's."""

    _name: str
    _config: ProducerConfig
    _closed: bool | None = None  # None: in the making, for __del__
    _source_traceback: Any = None
    _loop: asyncio.AbstractEventLoop | None

    def _bind(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Belong to ``loop``, None: the one that runs here, if one does. A constructor calls it."""
        if loop is None:
            with suppress(RuntimeError):
                loop = asyncio.get_running_loop()
        self._loop = loop
        if loop is not None and loop.get_debug():
            self._source_traceback = traceback.extract_stack(sys._getframe(2))

    def __repr__(self) -> str:
        config = getattr(self, "_config", None)  # None: in a traceback, an error of the options
        return f"<{self._name} {'…' if config is None else config.client_id!r}>"

    def __del__(self, _warnings: Any = warnings) -> None:
        if self._closed is not False:
            return
        _warnings.warn(f"Unclosed {self._name} {self!r}", ResourceWarning, source=self)
        if self._loop is not None and not self._loop.is_closed():
            kind = self._name.removeprefix("AIOKafka").lower()
            context = {kind: self, "message": f"Unclosed {self._name}"}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            self._loop.call_exception_handler(context)


class _Cluster(Protocol):
    """Asks a bootstrap server."""

    @property
    def bootstrap_servers(self) -> Sequence[BootstrapServer]: ...
    async def request(self, request: Request, node: Peer | None = None) -> Any: ...


async def bootstrap(cluster: _Cluster, timeout: float) -> ClusterDescription:
    """The cluster with all topics, as the first bootstrap server that responds describes it.

    Raises:
        AuthenticationError: the last of the servers has refused the login.
        BootstrapError: no server has responded; the message has the reason of each.
    """
    reasons: list[str] = []
    last: ProducerError | None = None
    try:
        async with PatientTimeout(timeout):
            for server in cluster.bootstrap_servers:
                try:
                    found: ClusterDescription = await cluster.request(WHOLE_CLUSTER, server)
                except (NetworkError, AuthenticationError, RebootstrapRequiredError) as error:
                    reasons.append(str(error))
                    last = error
                else:
                    return found
    except TimeoutError as error:
        if isinstance(error, ProducerError):
            raise
        reasons.append(f"no response within {duration(timeout)} (request_timeout_ms)")
    if isinstance(last, AuthenticationError):
        raise last
    raise BootstrapError(f"Unable to bootstrap: {'; '.join(reasons)}")


logger: Final = logs.ModuleLogger(__name__)

_NO_CLUSTER: Final = ClusterView({})


class BrokerMetadata(NamedTuple):
    """A broker."""

    nodeId: int  # noqa: N815  # aiokafka's name
    host: str
    port: int
    rack: str | None


class ClusterMetadata:
    """A view of the brokers and topics of the cluster.

    It is as old as the last description of the whole cluster, and as new as the producer's own
    metadata for the topics that the producer uses.
    """

    def __init__(self, known: Callable[[], ClusterView]) -> None:
        self._known = known
        self._described: ClusterDescription | None = None

    def take(self, described: ClusterDescription) -> None:
        """Take a description of the cluster with all of its topics."""
        self._described = described

    def brokers(self) -> set[BrokerMetadata]:
        """All brokers; none before the first response with metadata."""
        return {_broker(node) for node in self._brokers().values()}

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """The broker with this id."""
        node = self._brokers().get(broker_id)
        return None if node is None else _broker(node)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The names of the topics."""
        described = {} if self._described is None else self._described.topics
        return {*self._known().topics, *(name for name, it in described.items() if _exists(it))} - {
            name for name, it in described.items() if it.internal and exclude_internal_topics
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of the partitions; None: the topic is not known."""
        leaders = self._leaders(topic)
        return None if leaders is None else set(leaders)

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of the partitions that have a leader; None: the topic is not known."""
        leaders = self._leaders(topic)
        if leaders is None:
            return None
        return {partition for partition, leader in leaders.items() if leader is not None}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """The id of the leader, -1 while there is none; None: the partition is not known."""
        leaders = self._leaders(partition[0])
        if leaders is None or partition[1] not in leaders:
            return None
        leader = leaders[partition[1]]
        return -1 if leader is None else leader

    def _brokers(self) -> Mapping[int, Node]:
        described = {} if self._described is None else self._described.brokers
        return self._known().brokers or described

    def _leaders(self, topic: str) -> dict[int, int | None] | None:
        """The leaders of the topic's partitions; None: the topic is not known."""
        used = self._known().topics.get(topic)
        if used is not None:
            return {each.partition: each.leader for each in used.partitions}
        described = None if self._described is None else self._described.topics.get(topic)
        if described is None or not _exists(described):
            return None
        return {each.partition: each.leader for each in described.partitions}


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
            self.cluster.take(await bootstrap(self._queries(), self._timeout))

    async def follow(self, max_age: float) -> None:
        """Ask about the cluster again every ``max_age`` seconds, until the task is cancelled."""
        while True:
            await asyncio.sleep(max_age)
            try:
                await self._describe()
            except ProducerError as error:
                logger.debug("The cluster was not described again: %s", error, error=error)

    async def _describe(self) -> None:
        queries = self._queries()
        try:
            async with PatientTimeout(self._timeout):
                self.cluster.take(await queries.request(WHOLE_CLUSTER))
        except TimeoutError as error:
            if isinstance(error, ProducerError):
                raise
            raise BootstrapError(
                f"no broker described the cluster within {duration(self._timeout)}"
                f" (request_timeout_ms): {queries.why_no_answer()}"
            ) from None

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
        """Fetch the metadata of all topics; True if the cluster has told all of it."""
        queries = self._queries()
        try:
            for topic in {*self._topics, *queries.known.topics}:
                await queries.partition_infos(topic, self._timeout)
                await queries.topic(topic, self._timeout)
            await self._describe()
        except ProducerError:
            return False
        return True

    async def fetch_all_metadata(self) -> ClusterMetadata:
        """The view of the cluster, after a response of a broker. Raises KafkaConnectionError."""
        with translating():
            await self._describe()
        return self.cluster


def _exists(topic: TopicDescription) -> bool:
    return not topic.error_code


def _broker(node: Node) -> BrokerMetadata:
    return BrokerMetadata(node.id, node.host, node.port, node.rack)


def _done() -> asyncio.Future[bool]:
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    future.set_result(True)
    return future
