"""The schedule of metadata requests, their topics, and callers that wait for them. No I/O.

Source: Kafka's ``Metadata`` and ``ProducerMetadata``. A partial update asks for topics that are
new, unknown or out of date, each with a backoff of its own (:class:`PartialUpdates`, KIP-526). A
full update asks for all topics in use when the metadata is old, or when the brokers may have
changed. :class:`Metadata` decides when which of them is due, takes the answers, and tells
:class:`TopicWaiters` what is known of their topics.

Callers and pending records of a topic fail at once if a broker refuses the topic
(:meth:`Metadata.is_refused`) or every broker refuses the login
(:meth:`MetadataRefresher.step`), and otherwise at the end of their time (``max_block_ms``) with
the error of :meth:`Metadata.why_no_partition`. A record for a partition that its topic lacks waits
as long, because partitions can be added. A partition without a leader is asked about again after
``retry_backoff_ms``; its batches fail at their ``delivery_timeout_ms``, and the next choice of a
partition for records without a key leaves it out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.cluster.snapshot import (
    Cluster,
    ClusterView,
    PartitionLeader,
    TopicInfo,
    why_no_answer,
)
from aioproducer.errors import (
    BootstrapError,
    BrokerConnectionError,
    Disposition,
    KafkaError,
    MetadataTimeoutError,
    NetworkError,
    ProducerError,
    RequestTimeoutError,
)
from aioproducer.foundation import tuning
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import duration
from aioproducer.model import (
    BootstrapServer,
    Node,
    NodeId,
    PartitionInfo,
    Peer,
    TopicPartition,
)


class _TopicUpdate:
    __slots__ = ("failures", "not_before")

    def __init__(self, failures: int = 0, not_before: float = 0.0) -> None:
        self.failures = failures
        self.not_before = not_before


class PartialUpdates:
    """The requested topics, and the time when each may be asked for. Times are seconds.

    No step depends on the number of requested topics, apart from the logarithm of a heap.
    """

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self.new: dict[str, None] = {}
        """The topics that were never requested before: they wait for no backoff."""
        self.again: dict[str, _TopicUpdate] = {}
        """The other requested topics."""
        self._due: list[tuple[float, str]] = []
        """A heap of the times in ``again``. Entries of topics that it lacks, or that have another
        time there, are out of date."""
        self._in_flight: dict[str, _TopicUpdate] = {}
        """The topics of the request in flight."""

    def __contains__(self, topic: str) -> bool:
        return topic in self.new or topic in self.again

    def request(self, topic: str, *, new: bool = False) -> None:
        """Request ``topic``. The backoff of a topic that is already requested stays."""
        if new:
            self.again.pop(topic, None)
            self.new[topic] = None
        elif topic not in self:
            self._add(topic, _TopicUpdate())

    def _add(self, topic: str, update: _TopicUpdate) -> None:
        self.again[topic] = update
        heapq.heappush(self._due, (update.not_before, topic))

    def forget(self, topics: Iterable[str]) -> None:
        """Request ``topics`` no longer."""
        for topic in topics:
            self.new.pop(topic, None)
            self.again.pop(topic, None)

    def due(self, floor: float) -> float | None:
        """The time of the next request; not before ``floor`` unless it is for a new topic."""
        if self.new:
            return 0.0
        first = self._first()
        return None if first is None else max(first, floor)

    def _first(self) -> float | None:
        """The earliest time in ``again``."""
        while self._due:
            not_before, topic = self._due[0]
            update = self.again.get(topic)
            if update is not None and update.not_before == not_before:
                return not_before
            heapq.heappop(self._due)
        return None

    def take(self, now: float, floor: float) -> frozenset[str]:
        """The topics to ask for now, new ones first; they are in flight then."""
        taken = [*islice(self.new, tuning.TOPICS_PER_REQUEST)]
        self._in_flight = {}
        for topic in taken:
            del self.new[topic]
            self._in_flight[topic] = _TopicUpdate()
        while len(self._in_flight) < tuning.TOPICS_PER_REQUEST:
            first = self._first()
            if first is None or max(first, floor) > now:
                break
            _, topic = heapq.heappop(self._due)
            self._in_flight[topic] = self.again.pop(topic)
        return frozenset(self._in_flight)

    def take_all(self) -> None:
        """A full update leaves: all requested topics are in flight."""
        self._in_flight = {topic: _TopicUpdate() for topic in self.new} | self.again
        self.new = {}
        self.again = {}
        self._due = []

    def found(self, topic: str) -> None:
        """The response completes ``topic``."""
        self._in_flight.pop(topic, None)

    def missed(self, topic: str, now: float) -> None:
        """The response lacks a part of ``topic``: request it again, with a growing backoff."""
        update = self._in_flight.pop(topic, None) or _TopicUpdate()
        update.failures += 1
        update.not_before = now + self._backoff.delay(update.failures)
        self.new.pop(topic, None)
        self._add(topic, update)

    def was_left_out(self, topic: str) -> bool:
        """True if a response lacked ``topic``, or a part of it, and none has completed it since."""
        update = self.again.get(topic) or self._in_flight.get(topic)
        return update is not None and update.failures > 0

    def unanswered(self) -> None:
        """No response came: the topics in flight are requested again."""
        for topic, update in self._in_flight.items():
            if topic not in self:
                self._add(topic, update)
        self._in_flight = {}


_T_contra = TypeVar("_T_contra", contravariant=True)
_T = TypeVar("_T")


class TopicFuture(Protocol[_T_contra]):
    """The methods that are used here of a waiting caller's future."""

    def done(self) -> bool:
        """True if the caller gave up."""

    def set_result(self, result: _T_contra | ProducerError, /) -> None:
        """Take the topic's metadata, or the error for which there will be none."""


class TopicWaiters(Generic[_T]):
    """Futures by topic."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[TopicFuture[_T]]] = {}

    @property
    def topics(self) -> Collection[str]:
        """The topics that somebody waits for."""
        return self._waiting.keys()

    def add(self, topic: str, future: TopicFuture[_T]) -> None:
        """Let ``future`` wait for ``topic``."""
        self._waiting.setdefault(topic, []).append(future)

    def discard(self, topic: str, future: TopicFuture[_T]) -> None:
        """Forget ``future``, which has its result, or whose caller gave up."""
        waiting = self._waiting.get(topic, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(topic, None)

    def tell(self, topic: str, known: _T | ProducerError) -> None:
        """Give ``known`` to every future that waits for ``topic``."""
        for future in self._waiting.pop(topic, ()):
            if not future.done():
                future.set_result(known)

    def close(self, error: ProducerError) -> None:
        """Give ``error`` to every future."""
        for topic in list(self._waiting):
            self.tell(topic, error)


class Asked(NamedTuple):
    """The topics that a request asks for."""

    topics: frozenset[str]
    full: bool
    """True if these are all topics in use."""


Failures: TypeAlias = Callable[[], Mapping[NodeId, ProducerError]]


class Metadata:
    """The state of the cluster, and the schedule of refreshes. Times are the clock's seconds.

    ``max_age``: refresh all that is so old; ``max_idle``: forget a topic not used for so long.
    ``check_cluster``: known brokers have to belong to the cluster (KIP-1242). ``same_cluster``: the
    first cluster that answers is the only one.
    """

    def __init__(
        self,
        bootstrap: Sequence[BootstrapServer],
        *,
        max_age: float,
        max_idle: float,
        backoff: ExponentialBackoff,
        rebootstrap_after: float | None,
        check_cluster: bool = True,
        same_cluster: bool = False,
    ) -> None:
        self.bootstrap = tuple(bootstrap)
        self.last_update: float | None = None
        """The time of the cluster's last answer; None: never."""
        self.last_full_update: float | None = None
        """The time of its last answer for all topics at once; None: never."""
        self.cluster_id: str | None = None
        """The id of the cluster, once it is known."""
        self.foreign: ProducerError | None = None
        """The error if the last answer was refused, because another cluster gave it."""
        self.refusal: ProducerError | None = None
        """The error of the last request, if a broker has sent it."""
        self.on_request: Callable[[], None] = lambda: None
        """Called when an update is requested that was not requested before."""
        self.errors: dict[str, KafkaError] = {}
        """The errors that the last answers gave for topics instead of their partitions."""
        self._cluster = Cluster({})
        self.snapshot: ClusterView = self._cluster
        """The cluster as far as it is known now."""
        self._max_age = max_age
        self._max_idle = max_idle
        self._backoff = backoff
        self._rebootstrap_after = rebootstrap_after
        self._check_cluster = check_cluster
        self.same_cluster = same_cluster
        """True if no other cluster than the first one is followed."""
        self._last_used: dict[str, float] = {}
        self._partial = PartialUpdates(backoff)
        self._awaited = TopicWaiters[TopicInfo]()
        self._details_awaited = TopicWaiters[tuple[PartitionInfo, ...]]()
        self._wanted = False
        self._failures = 0
        self._not_before = 0.0
        self._asked: Asked | None = None
        self._open: set[str] = set()
        """The topics whose answer is awaited."""
        self._trying_since: float | None = None
        self._ask_bootstrap = False
        """True: the next answer has to come from a bootstrap server."""

    @property
    def expected_cluster(self) -> str | None:
        """The cluster that known brokers have to belong to; None: any."""
        return self.cluster_id if self._check_cluster else None

    def is_another(self, cluster_id: str | None) -> bool:
        """True if ``cluster_id`` is that of another cluster than the present one."""
        return None not in (self.cluster_id, cluster_id) and self.cluster_id != cluster_id

    def follows(self, node: NodeId) -> bool:
        """True if another cluster is followed whose metadata ``node`` has sent.

        Bootstrap servers name the cluster. A known broker that is checked does not: its address may
        be that of another broker now.
        """
        return not self.same_cluster and not (self._check_cluster and isinstance(node, int))

    def leave_cluster(self) -> list[TopicInfo]:
        """Know no topic any more: another cluster answers. Returns the topics of the former one."""
        former = [*self.snapshot.topics.values()]
        self._cluster.forget([info.name for info in former])
        self._cluster.replace_brokers({})
        self.errors.clear()
        self._wanted = self._asked is None or not self._asked.full
        return former

    def set_bootstrap(self, servers: Sequence[BootstrapServer]) -> None:
        """Use other bootstrap servers from now on."""
        self.bootstrap = tuple(servers)

    @property
    def peers(self) -> Collection[Peer]:
        """The peers to ask what any broker can answer: the brokers, or bootstrap servers before."""
        if self._ask_bootstrap:
            return self.bootstrap
        return self.snapshot.brokers.values() or self.bootstrap

    def describe(self, node: NodeId) -> str:
        """A broker or bootstrap server for messages, with its address if that is known."""
        if isinstance(node, int):
            return str(self.snapshot.brokers.get(node, f"broker {node}"))
        found = (str(server) for server in self.bootstrap if server.id == node)
        return next(found, "a bootstrap server")

    # --- topics ----------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """The topics in use."""
        return frozenset(self._last_used)

    def use(self, topic: str, now: float) -> None:
        """``topic`` is being written to; a new one is asked for as soon as possible."""
        if topic not in self._last_used:
            self._partial.request(topic, new=True)
            self.on_request()
        self._last_used[topic] = now

    @property
    def topic_count(self) -> int:
        """The number of topics in use."""
        return len(self._last_used)

    def idle_topics(self, now: float) -> frozenset[str]:
        """The topics that nobody has used for ``metadata_max_idle_ms``."""
        return frozenset(
            topic
            for topic, used in self._last_used.items()
            if now - used >= self._max_idle
            and topic not in self._awaited.topics
            and topic not in self._details_awaited.topics
        )

    def forget(self, topics: frozenset[str]) -> None:
        """Ask for ``topics`` no longer."""
        for topic in topics:
            self._last_used.pop(topic, None)
            self.errors.pop(topic, None)
        self._partial.forget(topics)
        self._cluster.forget(topics)

    def seek(self, topic: str, now: float) -> None:
        """Request ``topic`` for a caller that needs it, unless a response is awaited."""
        self.use(topic, now)
        if topic not in self._open:
            self.request_update(topic)

    def wait_for(self, topic: str, future: TopicFuture[TopicInfo], now: float) -> None:
        """Ask for ``topic``, and give ``future`` its state or its error."""
        self.seek(topic, now)
        self._awaited.add(topic, future)

    @property
    def detailed(self) -> Collection[str]:
        """The topics of which somebody wants to know the replicas."""
        return self._details_awaited.topics

    def wait_for_details(
        self, topic: str, future: TopicFuture[tuple[PartitionInfo, ...]], now: float
    ) -> None:
        """Ask for ``topic``, known or not, and give ``future`` its details or its error."""
        self.use(topic, now)
        self.request_update(topic)
        self._details_awaited.add(topic, future)

    def wait_no_longer(self, topic: str, future: TopicFuture[Any]) -> None:
        """Forget ``future``, which has its result, or whose caller gave up."""
        self._awaited.discard(topic, future)
        self._details_awaited.discard(topic, future)

    def tell_waiting(self, error: ProducerError) -> None:
        """Give ``error`` to every future that waits for a topic."""
        self._awaited.close(error)
        self._details_awaited.close(error)

    # --- refreshing ------------------------------------------------------------------------

    def request_update(self, topic: str | None = None) -> None:
        """Request an update as soon as the backoff allows, because metadata is out of date.

        ``topic``: a partial update for it; None: a full update. The reasons for a partial one:

        - a batch has no leader (:class:`BatchSender`), or its error says that the leader is another
          one, or its request was lost or timed out (:class:`BatchCompleter`);
        - a caller asks for the replicas of a topic (:meth:`wait_for_details`).

        The reasons for a full one:

        - a known broker was not reached, or its connection was lost (:meth:`broker_failed`);
        - a leader is not among the known brokers (:class:`BatchSender`);
        - a coordinator does not know the id of a topic (:class:`TransactionDriver`).

        Topics that a record or a caller needs come by :meth:`use` and :meth:`seek`, and a broker at
        the address of another one by :meth:`misrouted`. :meth:`update` asks again for a topic that
        the answer lacked.
        """
        if topic is not None:
            if topic not in self._partial:
                self._partial.request(topic)
                self.on_request()
        elif not self._wanted:
            self._wanted = True
            self.on_request()

    def broker_failed(self, *, transactional: bool) -> None:
        """A known broker was not reached, or its connection was lost: it may be elsewhere.

        A producer that uses no topic needs no brokers, unless it is ``transactional``. Else it
        would connect again and again where a proxy ends unused connections.
        """
        if self._last_used or transactional:
            self.request_update()

    def next_refresh(self) -> float | None:
        """The time of the next request; None while one is under way or nobody needs one.

        A producer that uses no topic needs the brokers if an update is requested: a transaction may
        have to end while another cluster answers.
        """
        needed = self._last_used or (self._wanted and self.last_update is not None)
        if self._asked is not None or not needed:
            return None
        due = self._not_before
        if not self._wanted and self.last_full_update is not None:
            due = max(self.last_full_update + self._max_age, due)
        partial = self._partial.due(self._not_before)
        return due if partial is None else min(due, partial)

    def is_full_refresh_due(self, now: float) -> bool:
        """True if the next request is a full update."""
        return (
            self._wanted
            or self.last_full_update is None
            or now - self.last_full_update >= self._max_age
        )

    def tries(self, now: float) -> None:
        """A request is due: :attr:`rebootstrap_at` counts from here, also while none can leave."""
        if self._trying_since is None:
            self._trying_since = now

    def start(self, now: float) -> Asked:
        """Begin a request that leaves now; returns the topics it asks for."""
        full = self.is_full_refresh_due(now)
        if full:
            self._partial.take_all()
            self._wanted = False
            self._asked = Asked(self.topics, full)
        else:
            self._asked = Asked(self._partial.take(now, self._not_before), full)
        self._open = set(self._asked.topics)
        return self._asked

    def update(
        self,
        news: MetadataNews,
        asked: Asked,
        now: float,
        lacks: Callable[[str], bool] = lambda topic: False,
    ) -> Iterator[TopicInfo | None]:
        """Take a broker's answer topic by topic: what is new of each, or None.

        The answer is taken when the last of them was. ``lacks``, called after that step,
        returns True if a topic that the broker knows lacks something that is wanted of it.
        """
        self._trying_since = self.refusal = None
        self.last_update = now
        useful = bool(news.brokers)  # else the broker has just started
        if useful:
            self._ask_bootstrap = False
            self.foreign = None
            self._cluster.replace_brokers(news.brokers)
            self.cluster_id = news.cluster_id or self.cluster_id
        for name in sorted(asked.topics):
            info = news.topics.get(name) if useful and name in self._last_used else None
            changed = None if info is None else self._cluster.update_topic(info)
            self._take_error(name, news.errors.get(name))
            if info is not None:
                self._awaited.tell(name, self._cluster.topics[name])
            yield changed
            self._open.discard(name)
            refused = name in news.errors and self.is_refused(name)
            if name not in self._last_used or refused:
                self._partial.found(name)
            elif info is None or name in news.stale or lacks(name):
                self._partial.missed(name, now)
            else:
                self._partial.found(name)
        for name, details in news.details.items():
            self._details_awaited.tell(name, details)
        self._asked = None
        self._failures = 0 if useful else self._failures + 1
        self._not_before = now + self._backoff.delay(max(self._failures, 1))
        if asked.full and useful:
            self.last_full_update = now
        elif asked.full:
            self._wanted = True

    def _take_error(self, topic: str, error: KafkaError | None) -> None:
        if error is None:
            self.errors.pop(topic, None)
            return
        self.errors[topic] = error
        if self.is_refused(topic):
            self._awaited.tell(topic, error)
            self._details_awaited.tell(topic, error)

    def failed(self, error: ProducerError, now: float) -> None:
        """The request got no usable response; retry it after a backoff.

        A broker that asks for it is followed to the bootstrap servers.
        """
        self._unanswered()
        self._failures += 1
        self._not_before = now + self._backoff.delay(self._failures)
        self.refusal = None if isinstance(error, NetworkError | RequestTimeoutError) else error
        if isinstance(error, KafkaError) and error.disposition is Disposition.REBOOTSTRAP:
            self.foreign = error
            if self.may_rebootstrap:
                self.rebootstrap(now)

    def _unanswered(self) -> None:
        if self._asked is not None and self._asked.full:
            self._wanted = True
        self._asked = None
        self._open.clear()
        self._partial.unanswered()

    def is_refused(self, topic: str) -> bool:
        """True if waiting for ``topic`` does not help: its callers get its error at once."""
        error = self.errors.get(topic)
        return error is not None and error.disposition is Disposition.TOPIC_REFUSED

    def why_no_metadata(self, topic: str, waited: float, failures: Failures) -> ProducerError:
        """The error of callers and records that have ``waited`` too long for ``topic``.

        ``failures`` returns the last error of each peer. The cause is the brokers' last error about
        the topic (source: ``KafkaProducer.waitOnMetadata()``), or that brokers do not respond. It
        is None if a broker has responded without the topic.
        """
        if self.last_update is None:
            listed = why_no_answer(self.bootstrap, failures())
            refused = f". Last response: {self.refusal}" if self.refusal is not None else ""
            return BootstrapError(
                f"no bootstrap server answered within {_bound(waited)}, so topic {topic!r} is "
                f"unknown. Check bootstrap_servers. {listed}{refused}"
            )
        said: ProducerError | None = self.errors.get(topic) or self.refusal
        if said is None and not self._partial.was_left_out(topic):
            advice = f"No broker has described it. {why_no_answer(self.peers, failures())}"
            said = BrokerConnectionError(advice)
        else:
            why = said or "a broker has left it out of its response"
            advice = f"Check its name and that it exists, or raise the timeout: {why}"
        late = MetadataTimeoutError(f"topic {topic!r} is unknown after {_bound(waited)}. {advice}")
        late.__cause__ = said
        return late

    def why_no_partition(
        self, topic: str, partition: int, waited: float, failures: Failures
    ) -> ProducerError | None:
        """The error of a record that has ``waited`` too long for ``partition``; None: it is known.

        ``failures`` returns the last error of each peer.
        """
        info = self.snapshot.topics.get(topic)
        if info is None:
            return self.why_no_metadata(topic, waited, failures)
        if partition < len(info.partitions):
            return None
        return MetadataTimeoutError(
            f"partition {partition} of topic {topic!r} is unknown after "
            f"{_bound(waited)}: the topic has the partitions 0 "
            f"to {len(info.partitions) - 1}. Use one of these, or add partitions"
        )

    def update_leaders(
        self, leaders: Mapping[TopicPartition, PartitionLeader], nodes: Mapping[int, Node]
    ) -> None:
        """Use the leaders that a produce response named (KIP-951), if brokers are known."""
        if self.snapshot.brokers:
            self._cluster.update_leaders(leaders, nodes)

    # --- the cluster is gone ---------------------------------------------------------------

    @property
    def rebootstrap_at(self) -> float:
        """The time at which no broker has answered for
        ``metadata_recovery_rebootstrap_trigger_ms``."""
        if not self.may_rebootstrap or self._trying_since is None:
            return float("inf")
        assert self._rebootstrap_after is not None
        return self._trying_since + self._rebootstrap_after

    @property
    def may_rebootstrap(self) -> bool:
        """True if the bootstrap servers may be tried again (KIP-899, KIP-1102)."""
        return self._rebootstrap_after is not None and bool(self.snapshot.brokers)

    def rebootstraps(self, now: float, *, reached: bool) -> bool:
        """True if it is time for the bootstrap servers again; ``reached``: a broker may respond."""
        return (not reached and self.may_rebootstrap) or self.rebootstrap_at <= now

    def rebootstrap(self, now: float) -> None:
        """Start again from the bootstrap servers; topics and leaders stay until they answer."""
        self._unanswered()
        self._cluster.replace_brokers({})
        self._trying_since = now
        self._wanted = True

    def misrouted(self) -> None:
        """Ask the bootstrap servers where a broker is, and continue with the others meanwhile."""
        if self.may_rebootstrap:
            self._ask_bootstrap = True
            self.request_update()


def _bound(waited: float) -> str:
    """The bound that was over after ``waited`` seconds, in tenths: it is measured a little late."""
    return f"{duration(round(waited, 1) or waited)} (max_block_ms or delivery_timeout_ms)"
