"""The questions of callers to the cluster, sent between the sender's requests, and ``check()``.

:func:`check` asks those of :meth:`Producer.check`, which finds out if a producer can write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aioproducer.engine.client.requests import (
    ClusterDescription,
    Coordinator,
    CoordinatorLookup,
    CoordinatorType,
    DescribeRequest,
    GroupPermission,
    TopicDescription,
    TransactionalIdPermission,
)
from aioproducer.engine.cluster.snapshot import ClusterView, TopicInfo, why_no_answer
from aioproducer.engine.core.arguments import checked_topic
from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.errors import (
    BootstrapError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    ProducerError,
    UnknownTopicOrPartitionError,
    kafka_error,
)
from aioproducer.errors.broker import ErrorCode, error_about, explain, lacking
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import BootstrapServer, Node, PartitionInfo, Peer, Value

if TYPE_CHECKING:  # a producer's start imports them
    from aioproducer.engine.client.requester import AdHocRequests
    from aioproducer.engine.cluster.metadata import Metadata
    from aioproducer.engine.metrics import ProducerMetrics
    from aioproducer.engine.network.network_client import NetworkClient
    from aioproducer.engine.network.request import Request

__all__ = ["ClusterCheck", "ClusterQueries", "TopicCheck", "check"]

_T = TypeVar("_T")


class ClusterQueries:
    """Sends requests on behalf of a caller, which waits for the response. Times are seconds.

    ``max_block``: the time of a caller that names none.
    """

    def __init__(
        self,
        metadata: Metadata,
        client: NetworkClient,
        metrics: ProducerMetrics,
        ad_hoc: AdHocRequests,
        max_block: float,
        clock: Callable[[], float],
    ) -> None:
        self._metadata = metadata
        self._client = client
        self._metrics = metrics
        self._ad_hoc = ad_hoc
        self._max_block = max_block
        self._clock = clock

    @property
    def known(self) -> ClusterView:
        """The cluster as it is known: the brokers, and the topics in use."""
        return self._metadata.snapshot

    @property
    def bootstrap_servers(self) -> Sequence[BootstrapServer]:
        """The addresses for the first request."""
        return self._metadata.bootstrap

    async def request(self, request: Request, node: Peer | None = None) -> Any:
        """The response of ``node``, or of any broker.

        Raises the reason that there is none. Without ``node`` the call waits until a broker accepts
        the login or each broker has refused it.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ad_hoc.ask(request, answer, node)
        result = await answer
        if isinstance(result, ProducerError):
            raise anew(result)
        return result

    @property
    def features(self) -> Mapping[str, int]:
        """The features that the whole cluster supports (KIP-584)."""
        return self._client.features.levels

    @property
    def versions(self) -> Mapping[str, tuple[int, int]]:
        """The versions of requests that a connected broker speaks."""
        return self._client.versions()

    def why_no_answer(self) -> str:
        """The last error of each broker that could get a request."""
        return why_no_answer(self._metadata.peers, self._client.failures())

    async def topic(self, topic: str, timeout: float | None = None) -> TopicInfo:
        """The partitions and leaders of ``topic``, waited for up to ``timeout`` seconds.

        Raises the error of a record that waits for the topic's metadata in vain.
        """
        known = self._metadata.snapshot.topics.get(topic)
        if known is not None:
            self._metadata.use(topic, self._clock())
            return known
        return await self._wait_for(topic, timeout, self._metadata.wait_for)

    async def partition_infos(
        self, topic: str, timeout: float | None = None
    ) -> tuple[PartitionInfo, ...]:
        """The partitions of ``topic`` as the cluster has them now; raises as :meth:`topic` does."""
        return await self._wait_for(topic, timeout, self._metadata.wait_for_details)

    async def _wait_for(
        self,
        topic: str,
        timeout: float | None,
        wait: Callable[[str, asyncio.Future[_T | ProducerError], float], None],
    ) -> _T:
        began = self._clock()
        answer: asyncio.Future[_T | ProducerError] = asyncio.get_running_loop().create_future()
        wait(topic, answer, began)
        try:
            async with PatientTimeout(self._max_block if timeout is None else timeout):
                found = await answer
        except TimeoutError:
            failures, waited = self._client.failures, self._clock() - began
            error = self._metadata.why_no_metadata(topic, waited, failures)
            raise error from error.__cause__
        finally:
            self._metadata.wait_no_longer(topic, answer)
            now = self._clock()
            self._metrics.metadata_waited(now - began, now)
        if isinstance(found, ProducerError):
            raise anew(found)
        return found


# --- check() -------------------------------------------------------------------------------------

_PAUSE: Final = 0.1
"""Seconds before a request is repeated, when the response names a temporary problem."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopicCheck(Value):
    """A topic that was checked and can be written to."""

    partitions: int
    may_write: bool | None
    """True if this principal is allowed to write; None: the broker is too old to tell."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterCheck(Value):
    """The result of a check."""

    cluster_id: str | None
    brokers: tuple[Node, ...]
    features: Mapping[str, int]
    """The cluster's finalized feature levels, such as ``metadata.version`` (KIP-584)."""
    versions: Mapping[str, tuple[int, int]]
    """The lowest and highest version of each request (``PRODUCE``, …) at the responding broker."""
    topics: Mapping[str, TopicCheck]
    coordinator: Node | None
    """The coordinator of the transactional id, if you passed one."""
    compiled: bool = field(default_factory=is_compiled)
    """False: compiled modules are missing, and a record takes several times as much CPU time."""


async def check(
    cluster: ClusterQueries,
    topics: Iterable[str],
    transactional_id: str | None,
    timeout: float,
    group_id: str | None = None,
    consumed_topics: Iterable[str] = (),
) -> ClusterCheck:
    """Ask any broker about the cluster, connect to the leaders of ``topics``, find the
    coordinators, and ask for permissions. One error names all permissions that are missing.

    Raises:
        BootstrapError: the timeout is over; the message has each broker's reason.
        ProducerError: the problem that the check has found.
    """
    written, consumed = _names("topics", topics), _names("consumed_topics", consumed_topics)
    lacks: list[KafkaError] = []
    doing, passing = "the cluster", None
    try:
        async with PatientTimeout(timeout):
            while True:
                both = tuple(dict.fromkeys(written + consumed))
                found: ClusterDescription = await cluster.request(DescribeRequest(both))
                passing = _check_found(found)
                if passing is None:
                    break
                await asyncio.sleep(_PAUSE)
            lacks += _lacks_for_topics(found, written, consumed)
            for leader in _leaders(found):
                doing = str(leader)
                await cluster.request(DescribeRequest(()), leader)
            coordinator = None
            if transactional_id is not None:
                doing = f"the coordinator of transactional id {transactional_id!r}"
                key = Coordinator(CoordinatorType.TRANSACTION, transactional_id)
                asked = TransactionalIdPermission(transactional_id)
                coordinator = await _ask_coordinator(cluster, key, asked, "WRITE", lacks)
            if group_id is not None:
                doing = f"the coordinator of group {group_id!r}"
                key = Coordinator(CoordinatorType.GROUP, group_id)
                await _ask_coordinator(cluster, key, GroupPermission(group_id), "READ", lacks)
    except TimeoutError as error:
        if isinstance(error, ProducerError):
            raise
        if lacks:
            raise _lacking(lacks) from error
        if passing is not None:
            raise passing from None
        raise BootstrapError(
            f"check() did not reach {doing} within {duration(timeout)}. Check bootstrap_servers "
            f"and security_protocol. {cluster.why_no_answer()}"
        ) from None
    if lacks:
        raise _lacking(lacks)
    return ClusterCheck(
        found.cluster_id,
        tuple(found.brokers.values()),
        dict(cluster.features),
        dict(cluster.versions),
        {
            name: TopicCheck(len(topic.partitions), topic.may_write)
            for name, topic in found.topics.items()
            if name in written
        },
        coordinator,
    )


def _names(argument: str, topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, str):
        raise InvalidTopicError(f"{argument} must be a list of names, such as [{topics!r}]")
    return tuple(dict.fromkeys(checked_topic(topic) for topic in topics))


def _check_found(found: ClusterDescription) -> KafkaError | None:
    """A temporary error, if there is one; raises any other error."""
    if found.error_code:
        raise kafka_error(found.error_code, explain(found.error_code))
    errors = [_check_topic(name, topic, found) for name, topic in found.topics.items()]
    return next((error for error in errors if error is not None), None)


def _leaders(found: ClusterDescription) -> list[Node]:
    leaders = {part.leader for topic in found.topics.values() for part in topic.partitions}
    return [node for node in found.brokers.values() if node.id in leaders]


def _check_topic(
    name: str, topic: TopicDescription, found: ClusterDescription
) -> KafkaError | None:
    if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return None  # it is told with the permissions
    if topic.error_code:
        error = error_about(f"topic {name!r}", topic.error_code)
        if error.retriable and not isinstance(error, UnknownTopicOrPartitionError):
            return error
        raise error
    if any(each.leader not in found.brokers for each in topic.partitions):
        return LeaderNotAvailableError(
            f"topic {name!r} has partitions without a leader: check that all brokers are up"
        )
    return None


def _lacking(lacks: Sequence[KafkaError]) -> ProducerError:
    """One error for all permissions that are missing."""
    return kafka_error(lacks[0].code, "; ".join(map(str, lacks)))


def _lacks_for_topics(
    found: ClusterDescription, written: Sequence[str], consumed: Sequence[str]
) -> Iterator[KafkaError]:
    for name, topic in found.topics.items():
        hidden = topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        operations = ["DESCRIBE"] if hidden else []
        if name in written and (hidden or topic.may_write is False):
            operations.append("WRITE")
        if name in consumed and (hidden or topic.may_read is False):
            operations.append("READ")
        if operations:
            yield lacking(f"topic {name!r}", ErrorCode.TOPIC_AUTHORIZATION_FAILED, *operations)


async def _ask_coordinator(
    cluster: ClusterQueries,
    key: Coordinator,
    permission: Request,
    operation: str,
    lacks: list[KafkaError],
) -> Node | None:
    """The coordinator, which is asked for the ``permission`` for ``operation``. What is missing is
    added to ``lacks``."""
    what, refusal = f"group {key.key!r}", ErrorCode.GROUP_AUTHORIZATION_FAILED
    if key.type is CoordinatorType.TRANSACTION:
        what = f"transactional id {key.key!r}"
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    while True:
        answer = await cluster.request(CoordinatorLookup(key))
        if answer.error_code == refusal:
            lacks.append(lacking(what, refusal, "DESCRIBE", operation))
            return None
        if not answer.error_code and answer.node is not None:
            # Brokers look at permissions first: any other error comes after them.
            if await cluster.request(permission, answer.node) == refusal:
                lacks.append(lacking(what, refusal, operation))
            return answer.node  # type: ignore[no-any-return]
        error = error_about(what, answer.error_code)
        if not error.retriable:
            raise error
        await asyncio.sleep(_PAUSE)
