"""The health of a producer as one value. No I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.foundation.logs import duration

_ENDED: Final = frozenset({"closed", "broken", "fatal", "forked"})
"""The states in which a producer never sends again."""

_FAILING: Final = frozenset({"unreachable", "refused", "silent"})


@dataclass(frozen=True, slots=True)
class BrokerHealth:
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


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a producer at one point in time. Ages are in seconds before that point."""

    client_id: str
    state: str
    """``not started``; ``started``; ``closing``; ``closed``; ``broken``: a part has failed;
    ``fatal``: no transaction can begin any more, because the brokers fenced or refused the
    producer, another cluster took the place of theirs, or the transaction that it joined has
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
    """False: compiled modules are missing, and a record takes up to seven times as much CPU
    time."""

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
