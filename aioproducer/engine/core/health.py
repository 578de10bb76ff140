"""The health of a producer as one value. No I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.foundation.wording import duration

_ENDED: Final = frozenset({"closed", "broken", "fatal", "forked"})
"""The states in which a producer never sends again."""

_FAILING: Final = frozenset({"unreachable", "refused", "silent"})


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """A broker, as the producer's connection sees it."""

    node: int | str
    """Its id; ``-1``, ``-2``, … for a bootstrap server, as in ``metrics()``."""
    address: str
    """``host:port``."""
    state: str
    """``connected``: it takes requests. ``connecting``: the first attempt is under way.
    ``disconnected``: no connection is open, and none is needed. ``unreachable``: attempts to
    connect fail. ``refused``: the login or the TLS handshake failed. ``silent``: it has records and
    has delivered none for ten seconds or more. ``throttled``: it has asked for a pause (a quota).
    """
    since: float | None = None
    """Seconds in this state; None: not known."""
    error: str = ""
    """The reason of the last failure, until the broker is connected again."""
    leads: int = 0
    """The number of partitions in use that it leads."""
    in_flight: int = 0
    """Requests without a response."""

    @property
    def is_failing(self) -> bool:
        """True if its partitions can't be written."""
        return self.state in _FAILING


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a producer at one moment. Times are seconds before that moment."""

    client_id: str
    state: str
    """``not started``, ``started``, ``closing``, ``closed``; ``broken``: a part has died;
    ``fatal``: the brokers fenced or refused the transactional producer; ``forked``: it belongs to
    another process."""
    can_write: bool | None
    """True: at least one leader of the partitions in use takes records. False: none does, or the
    producer is not usable. None: not known, because no connection is open: a new producer connects
    with its first record, and an idle one closes its connections."""
    since: float | None = None
    """Seconds since it can't write; None: it can, or the time is not known."""
    problems: tuple[str, ...] = ()
    """A line for each problem; a broker that is down is one even if others take records."""
    brokers: tuple[BrokerHealth, ...] = ()
    leaderless_partitions: int = 0
    """Partitions of topics in use that have no leader."""
    oldest_record_age: float | None = None
    """Seconds since the ``send()`` of the oldest record without an outcome; None: there is none."""
    batches: int = 0
    """Batches without an outcome."""
    pending_records: int = 0
    """Records that wait for metadata or memory."""
    memory_used: float = 0.0
    """The used part of ``buffer_memory``, from 0 to 1."""
    metadata_age: float | None = None
    """Seconds since the last answer about all topics; None: there was none."""
    compiled: bool = field(default_factory=is_compiled)
    """False: compiled modules are missing, and a record costs up to seven times as much CPU."""

    @property
    def is_live(self) -> bool:
        """False once only a new producer could help: closed, broken, fenced, or a forked process.

        It stays True while brokers are down: a restart of the application would not help.
        """
        return self.state not in _ENDED

    @property
    def is_ready(self) -> bool:
        """False if records can't be written now; True if they can, or if nobody knows yet."""
        return self.state == "started" and self.can_write is not False

    @property
    def is_degraded(self) -> bool:
        """True if there are problems, although records can be written."""
        return self.is_ready and bool(self.problems)

    @property
    def reason(self) -> str:
        """The problems in one line; empty without any."""
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
