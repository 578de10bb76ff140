"""The health of a producer, and the rules by which it follows from the facts. No I/O.

``now`` is an argument. ``health_source.py`` reads the facts.

A broker's partitions can't be written while attempts to connect fail, while it refuses the login,
or while it delivers nothing for :data:`STALLED_AFTER`. The producer can't write if that is so for
all leaders of the partitions in use. Before any leader is known, the bootstrap servers stand for
them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from aioproducer.engine.accumulator import FailingTopic, LeaderView
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.foundation.logs import duration
from aioproducer.model import Node, NodeId, Peer, Value

_ENDED: Final = frozenset({"closed", "broken", "fatal", "forked"})
"""The states in which a producer never sends again."""

_FAILING: Final = frozenset({"unreachable", "refused", "silent"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BrokerHealth(Value):
    """The state of a broker, from the producer's connection to it."""

    node: int | str
    """The broker's id; ``-1``, ``-2``, … for a bootstrap server, as in ``metrics()``."""
    address: str
    """``host:port``."""
    state: str
    """``connected``: ready for requests. ``connecting``: the first attempt is in progress.
    ``disconnected``: no connection is open, and none is needed. ``unreachable``: attempts to
    connect fail. ``refused``: the login or the TLS handshake failed. ``silent``: there are records
    for it, and none was delivered for ten seconds or more. ``throttled``: it has requested a pause
    (a quota).
    """
    since: float | None = None
    """Seconds in this state; None: unknown."""
    error: str = ""
    """The reason for the last failure, until the broker is connected again."""
    leads: int = 0
    """The number of partitions in use that the broker leads."""
    in_flight: int = 0
    """The number of unanswered requests."""

    @property
    def is_failing(self) -> bool:
        """True if its partitions can't be written to."""
        return self.state in _FAILING


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Health(Value):
    """The state of a producer at one point in time. Ages are in seconds before that point."""

    client_id: str
    state: str
    """``not started``; ``started``; ``closing``; ``closed``; ``broken``: a part has failed;
    ``fatal``: no transaction can begin any more, because the brokers fenced or refused the
    producer, another cluster replaced theirs, or the transaction that it joined has
    ended; ``forked``: it belongs to another process."""
    can_write: bool | None
    """True: at least one leader of the partitions in use accepts records. False: no leader does, or
    the producer is not usable. None: unknown, because no connection is open: a new producer
    connects with its first record, and an idle producer closes its connections."""
    since: float | None = None
    """For how many seconds the producer has been unable to write; None: it can, or the time is
    unknown."""
    problems: tuple[str, ...] = ()
    """The problems, one line each. A broker that is down is a problem even if other brokers accept
    records."""
    brokers: tuple[BrokerHealth, ...] = ()
    leaderless_partitions: int = 0
    """The partitions of topics in use that have no leader."""
    oldest_record_age: float | None = None
    """The age of the oldest record without an outcome, in seconds since its ``send()``; None: there
    is none."""
    batches: int = 0
    """The number of batches without an outcome."""
    pending_records: int = 0
    """The number of records that wait for metadata or memory."""
    memory_used: float = 0.0
    """The used fraction of ``buffer_memory``, from 0 to 1."""
    metadata_age: float | None = None
    """Seconds since the last metadata response for all topics; None: there was none."""
    compiled: bool = field(default_factory=is_compiled)
    """False: compiled modules are missing, and a record takes several times as much CPU time."""

    @property
    def is_live(self) -> bool:
        """False if only a new producer would help: it is closed, broken or fatal, or in a forked
        process. ``reason`` says why.

        It stays True while brokers are down, refuse the login or belong to a cluster that is not
        followed, because restarting the application would not help.
        """
        return self.state not in _ENDED

    @property
    def is_ready(self) -> bool:
        """False if records can't be written now; True if they can, or if this is not known yet."""
        return self.state == "started" and self.can_write is not False

    @property
    def is_degraded(self) -> bool:
        """True if there are problems but records can still be written."""
        return self.is_ready and bool(self.problems)

    @property
    def reason(self) -> str:
        """The problems in one line; empty if there are none."""
        return "; ".join(self.problems)

    def as_dict(self) -> dict[str, Any]:
        """All fields and properties, ready for JSON."""
        return asdict(self) | {
            "is_live": self.is_live,
            "is_ready": self.is_ready,
            "is_degraded": self.is_degraded,
            "reason": self.reason,
        }

    def __str__(self) -> str:
        if self.can_write:
            says = "can write"
        elif self.can_write is None:
            says = "has no open connection"
        else:
            says = "can't write" + ("" if self.since is None else f" for {duration(self.since)}")
        facts = [f"memory {self.memory_used:.0%}"]
        if self.brokers:
            connected = sum(each.state in ("connected", "throttled") for each in self.brokers)
            facts.insert(0, f"{connected} of {len(self.brokers)} brokers connected")
        if self.oldest_record_age is not None:
            facts.append(f"oldest record {duration(self.oldest_record_age)}")
        why = f": {self.reason}" if self.problems else ""
        return f"{self.client_id} ({self.state}) {says}, {', '.join(facts)}{why}"


STALLED_AFTER: Final = 10.0
"""Seconds without a delivery after which a broker with records is silent, in addition to
``linger_ms``. A cluster takes 9 s to replace a killed leader (``broker.session.timeout.ms``), and
acknowledgements of other partitions may wait for that, too: a shorter time would report each such
move."""

UNREACHABLE_AFTER: Final = 1.0
"""Seconds of failed attempts after which a broker affects :attr:`Health.can_write`: a broker
that restarts in an instant is no reason to take traffic from an application."""

FAILURES_COUNT_FOR: Final = 60.0
"""Seconds after which the last failure of a topic is history: the next record may be delivered, and
only a record can tell."""

_SHOWN: Final = 5
"""The most problems of one kind."""

_LONGEST: Final = 500
"""Characters of an error in a problem."""


class HealthFacts(NamedTuple):
    """The facts about a started producer. Times are clock seconds."""

    client_id: str
    state: str
    unusable: tuple[str, ...] = ()
    """The reason that a producer in this state sends nothing; empty: it is started."""
    connections: Sequence[ConnectionView] = ()
    leaders: Sequence[LeaderView] = ()
    """The brokers that lead partitions of topics in use."""
    brokers: Mapping[int, Node] | None = None
    """The brokers of the cluster, as far as they are known."""
    peers: Collection[Peer] = ()
    """The servers that any request may go to: brokers, or bootstrap servers before any is known."""
    topics: int = 0
    """The number of topics in use."""
    failing: Mapping[str, FailingTopic] | None = None
    topic_errors: Mapping[str, BaseException] | None = None
    """The errors that the cluster gives for topics in place of their partitions."""
    leaderless: Mapping[str, int] | None = None
    """Topics that have partitions without a leader, and their number."""
    foreign: BaseException | None = None
    """The error if another cluster answers in place of the producer's own."""
    oldest_sent: float | None = None
    oldest_error: BaseException | None = None
    """The last error of the oldest batch."""
    abortable: BaseException | None = None
    """The reason that the open transaction can only be aborted."""
    batches: int = 0
    pending_records: int = 0
    memory_used: float = 0.0
    metadata_updated: float | None = None
    stalled_after: float = STALLED_AFTER
    """Seconds, with the linger."""


class _Verdict(NamedTuple):
    """A server for records: True if it takes them, False if it can't since a time, or unknown."""

    takes: bool | None
    since: float = 0.0


def stalled_after(linger: float, delivery_timeout: float) -> float:
    """Seconds without a delivery that are too many; always before the records expire."""
    return linger + min(STALLED_AFTER, (delivery_timeout - linger) / 2)


def assess(facts: HealthFacts, now: float) -> Health:
    """The health of a started producer."""
    by_node = {each.node: each for each in facts.connections}
    leaders: dict[NodeId, LeaderView] = {each.node: each for each in facts.leaders}
    brokers = (
        *(
            _broker(facts, peer, by_node.get(peer.id), leaders.get(peer.id), now)
            for peer in _shown(facts)
        ),
        *_unlisted(facts, now),
    )
    verdicts = _verdicts(brokers, now)
    problems = [*facts.unusable, *_broker_problems(facts, brokers), *_topic_problems(facts, now)]
    if facts.foreign is not None:
        problems.insert(0, _text(facts.foreign))
    since = _cannot_write_since(facts, verdicts, now)
    age = None if facts.oldest_sent is None else max(now - facts.oldest_sent, 0.0)
    if age is not None and age > facts.stalled_after:
        why = "" if facts.oldest_error is None else f": {_text(facts.oldest_error)}"
        problems.append(f"the oldest record has had no outcome for {duration(round(age))}{why}")
    if facts.abortable is not None:
        problems.append(f"the transaction can only be aborted: {_text(facts.abortable)}")
    can_write: bool | None = None
    if since is not None:
        can_write = False
    elif any(each.takes for each in verdicts):
        can_write = True
    return Health(
        facts.client_id,
        facts.state,
        can_write if facts.state == "started" else False,
        None if since is None else max(now - since, 0.0),
        tuple(problems),
        brokers,
        sum((facts.leaderless or {}).values()),
        age,
        facts.batches,
        facts.pending_records,
        min(max(facts.memory_used, 0.0), 1.0),
        None if facts.metadata_updated is None else max(now - facts.metadata_updated, 0.0),
    )


# --- brokers ---------------------------------------------------------------------------------


def _shown(facts: HealthFacts) -> Iterable[Peer]:
    """The brokers, leaders that left the cluster, and bootstrap servers before it is known."""
    shown: dict[NodeId, Peer] = {each.id: each for each in facts.peers}
    shown.update((each.id, each) for each in (facts.brokers or {}).values())
    leading = {each.node for each in facts.leaders}
    for each in facts.connections:
        if each.peer is not None and each.node in leading:
            shown.setdefault(each.node, each.peer)
    return sorted(shown.values(), key=lambda peer: (isinstance(peer.id, str), peer.id))


def _unlisted(facts: HealthFacts, now: float) -> Iterable[BrokerHealth]:
    """Leaders of which the cluster gives no address, because they are down."""
    listed = {peer.id for peer in _shown(facts)}
    for each in facts.leaders:
        if each.node not in listed:
            since = now - each.silent_since if each.has_records else None
            why = "the cluster currently does not list this leader"
            yield BrokerHealth(each.node, "", "unreachable", since, why, each.partitions)


def _broker(
    facts: HealthFacts,
    peer: Peer,
    connection: ConnectionView | None,
    leader: LeaderView | None,
    now: float,
) -> BrokerHealth:
    leads = 0 if leader is None else leader.partitions
    if connection is None:
        return BrokerHealth(peer.id, peer.address, "disconnected", leads=leads)
    state, since = _state(facts, connection, leader, now)
    return BrokerHealth(
        peer.id,
        peer.address,
        state,
        max(now - since, 0.0),
        "" if connection.error is None else _text(connection.error).removeprefix(f"{peer}: "),
        leads,
        connection.in_flight,
    )


def _state(
    facts: HealthFacts, connection: ConnectionView, leader: LeaderView | None, now: float
) -> tuple[str, float]:
    """The state of a broker, and the time when it began."""
    since, failing_since = connection.since, connection.failing_since
    if connection.is_ready and connection.throttled_until > now:
        return "throttled", since
    is_listed = leader is None or leader.node in (facts.brokers or {})
    silent_since = _silent_since(connection, leader) if is_listed or connection.is_ready else None
    if silent_since is not None and now - silent_since > facts.stalled_after:
        return "silent", silent_since
    if connection.is_ready:
        return "connected", since
    if failing_since is not None and _is_current(facts, connection, now):
        return "refused" if connection.is_refused else "unreachable", failing_since
    if not is_listed:  # nobody connects to it
        return "unreachable", since if failing_since is None else failing_since
    if connection.is_connecting:
        overdue = now - since > facts.stalled_after
        return "unreachable" if overdue else "connecting", since
    return "disconnected", since


def _silent_since(connection: ConnectionView, leader: LeaderView | None) -> float | None:
    """The time since which a reachable broker delivers nothing, although it has records.

    A connection that is lost and opened again, because a request had no response, changes nothing.
    """
    if leader is None or not leader.has_records or connection.failing_since is not None:
        return None
    if connection.reachable_since is None:
        return None
    return max(leader.silent_since, connection.reachable_since)


def _is_current(facts: HealthFacts, connection: ConnectionView, now: float) -> bool:
    """True if attempts continue: a failure of an hour ago says nothing about now."""
    return connection.is_connecting or now <= connection.retry_at + facts.stalled_after


def _verdicts(brokers: Sequence[BrokerHealth], now: float) -> list[_Verdict]:
    """A verdict for each leader, or for each server while there is none."""
    verdicts = []
    for broker in [each for each in brokers if each.leads] or brokers:
        takes: bool | None = True if broker.state in ("connected", "throttled") else None
        failing_for = broker.since or 0.0
        if broker.is_failing:
            soon = broker.state == "unreachable" and failing_for < UNREACHABLE_AFTER
            takes = None if soon else False
        verdicts.append(_Verdict(takes, now - failing_for))
    return verdicts


# --- can it write? ---------------------------------------------------------------------------


def _cannot_write_since(
    facts: HealthFacts, verdicts: Sequence[_Verdict], now: float
) -> float | None:
    """The time since which no record can be written; None: some may."""
    moments = []
    if verdicts and all(each.takes is False for each in verdicts):
        moments.append(max(each.since for each in verdicts))
    failing = _failing(facts, now)
    refused = failing.keys() | (facts.topic_errors or {}).keys()
    if refused and len(refused) >= facts.topics:
        moments.append(max((each.since for each in failing.values()), default=now))
    if not facts.leaders and facts.oldest_sent is not None:  # no metadata, or no leader at all
        waited = now - facts.oldest_sent
        if waited > facts.stalled_after:
            moments.append(facts.oldest_sent)
    return min(moments, default=None)


def _failing(facts: HealthFacts, now: float) -> dict[str, FailingTopic]:
    """The topics whose records fail at present."""
    return {
        topic: each
        for topic, each in (facts.failing or {}).items()
        if now - each.last <= FAILURES_COUNT_FOR
    }


# --- problems --------------------------------------------------------------------------------


def _broker_problems(facts: HealthFacts, brokers: Sequence[BrokerHealth]) -> Iterable[str]:
    relevant = [each for each in brokers if each.leads] or brokers
    for each in [each for each in relevant if each.is_failing][:_SHOWN]:
        for_seconds = "" if each.since is None else f" for {duration(round(each.since))}"
        name = f"broker {each.node}" if isinstance(each.node, int) else "bootstrap server"
        where = f" ({each.address})" if each.address else ""
        said = {
            "refused": "refuses the login",
            "silent": "has delivered no record",
            "unreachable": "is unreachable",
        }[each.state]
        why = f": {each.error}" if each.error else ""
        yield f"{name}{where} {said}{for_seconds}{why}"
    leaderless = facts.leaderless or {}
    for topic, count in list(leaderless.items())[:_SHOWN]:
        yield f"topic {topic!r} has {count} partition{'s' * (count > 1)} without a leader"


def _topic_problems(facts: HealthFacts, now: float) -> Iterable[str]:
    failing = _failing(facts, now)
    for topic, each in list(failing.items())[:_SHOWN]:
        yield (
            f"no record of topic {topic!r} is delivered for {duration(round(now - each.since))}: "
            + _text(each.error)
        )
    for topic, error in list((facts.topic_errors or {}).items())[:_SHOWN]:
        if topic not in failing:
            yield _text(error)


def _text(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
