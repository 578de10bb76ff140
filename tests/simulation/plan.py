"""The plan of a life: options, what callers do, what goes wrong and when.

Every part of a plan has a label, so a life can be lived again without some of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aioproducer.testing.simulation.loop import STEP_SECONDS

TOPICS: Final = {"orders": 3, "audit": 1}
INPUT: Final = "input"
"""The topic whose consumed offsets transactions commit."""
PARTITIONS_OF_INPUT: Final = 3
MURMUR2: Final = {
    b"key-0": 29_210_041,
    b"key-1": 193_331_640,
    b"key-2": 852_269_702,
    b"key-3": 308_347_547,
    b"key-4": 647_367_033,
    b"key-5": 449_156_768,
    b"key-6": 1_389_029_780,
}
"""The hashes of the callers' keys, by kafka-python."""
GROUP: Final = "readers"
EXPIRING: Final = frozenset({"expire_ids", "refuse_and_expire"})
"""The faults after which the brokers have their logs, but know no producer."""
FORGETFUL: Final = EXPIRING | {"lossy_crash", "truncate", "recreate", "replace"}
"""The faults after which brokers do not know what a producer has written. Neither the producer nor
Kafka can settle all of these cases."""
DELAYING: Final = frozenset({"freeze", "silent", "slow", "stall", "drip"})
"""The faults after which a request may arrive when its client has given it up."""
USER: Final = "user"
PASSWORD: Final = "secret"
LOGIN: Final = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": USER,
    "sasl_password": PASSWORD,
}
"""The options of clients, where brokers want a login."""


@dataclass(frozen=True)
class Step:
    """What a caller does: a method of :class:`tests.simulation.callers.Caller`, and arguments."""

    kind: str
    args: tuple[Any, ...] = ()
    steps: tuple[Step, ...] = ()
    """The steps inside of a transaction."""

    def __str__(self) -> str:
        inside = "".join(f"; {each}" for each in self.steps)
        return f"{self.kind}({', '.join(map(repr, self.args))}{inside})"


@dataclass(frozen=True)
class Event:
    """What goes wrong: a method of :class:`tests.simulation.faults.Faults`, and arguments."""

    at: float
    """Seconds after the beginning."""
    kind: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"at {self.at:.3f} s: {self.kind}({', '.join(map(repr, self.args))})"


BRISK: Final = 0.0, 0.001, 0.05
"""Seconds that calls take in a thread that has little else to do."""
NO_STEP: Final = Step("nothing")
NO_EVENT: Final = Event(0.0, "nothing")


@dataclass(frozen=True)
class Plan:
    """A life before it is lived."""

    seed: int
    brokers: int
    timers_first: bool
    step_seconds: float
    delays: str
    """The distribution of the network's delays."""
    transaction_version: int
    executor_delays: tuple[float, ...] = BRISK
    """Seconds that calls take in a thread."""
    slow_replicas: bool = False
    """True: followers have a record only after a while."""
    names_duplicates: bool = False
    """True: brokers answer duplicates by an error code."""
    news_takes: float = 0.0
    """Seconds that brokers take at most to learn of a new leader."""
    session_lifetime_ms: int = 0
    """The time after which clients have to log in again; 0: there are no logins."""
    producers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The options of each producer."""
    callers: dict[str, tuple[str, tuple[Step, ...]]] = field(default_factory=dict)
    """The producer and the steps of each caller."""
    events: tuple[Event, ...] = ()
    closes_after: float | None = None
    """Seconds after which a producer is closed in the midst of it all."""
    close_timeout: float = 5.0
    reads: bool = False
    """True: a Reader follows the log meanwhile."""
    reads_beyond: bool = False
    """True: a Reader that starts behind the ends of the logs reads them in the end."""
    firewall: bool = False
    """True: the network forgets connections that no producer may still use."""
    switches: frozenset[str] = frozenset()
    """The features and faults that are on (:mod:`tests.simulation.switches`)."""
    knobs: dict[str, float] = field(default_factory=dict)
    """The engine's numbers that are not as usual (:mod:`tests.simulation.knobs`)."""
    telemetry_interval_ms: int = 0
    """The interval in which brokers want clients' metrics; 0: they do not."""
    changed: bool = False
    """True: callers change their buffers and lists right after each call."""
    cancelled_after: float | None = None
    """Seconds after which all tasks are cancelled, as asyncio.run() does in the end."""
    closes_at_once: bool = False
    """True: each producer is closed right after the last call of its callers."""

    @property
    def kinds(self) -> set[str]:
        """The kinds of the events."""
        return {event.kind for event in self.events}

    @property
    def forgets_after(self) -> float:
        """Seconds without use after which the network forgets a connection.

        A plan without producers has readers, whose connections may be idle as long as is usual.
        """
        idle = (each.get("connections_max_idle_ms", 540_000) for each in self.producers.values())
        return max(idle, default=540_000) / 1000 * 1.2 if self.firewall else float("inf")

    def lines(self) -> Iterator[str]:
        """The plan in words."""
        order = "timers before sockets" if self.timers_first else "sockets before timers"
        yield (
            f"life {self.seed}: {self.brokers} brokers (transaction.version "
            f"{self.transaction_version}), network {self.delays}, {order}, "
            f"{self.step_seconds * 1e6:g} µs a callback"
        )
        if self.executor_delays != BRISK:
            yield f"  threads: calls take {self.executor_delays} s"
        if self.slow_replicas:
            yield "  replicas: they are slow"
        if self.names_duplicates:
            yield "  duplicates: brokers answer them by DUPLICATE_SEQUENCE_NUMBER"
        if self.news_takes:
            yield f"  news: brokers learn of a new leader within {self.news_takes} s"
        if self.firewall:
            yield f"  firewall: forgets connections that are idle for {self.forgets_after:g} s"
        if self.session_lifetime_ms:
            yield f"  logins: again before {self.session_lifetime_ms} ms"
        for name, options in self.producers.items():
            yield f"  producer {name}:"
            yield from (f"    {name}.{key} = {value!r}" for key, value in options.items())
        for name, (producer, steps) in self.callers.items():
            yield f"  caller {name}, of producer {producer}:"
            for place, step in enumerate(steps):
                if step != NO_STEP:
                    yield f"    {name}.{place}: {step}"
        for place, event in enumerate(self.events):
            if event != NO_EVENT:
                yield f"  e{place} {event}"
        if self.closes_after is not None:
            yield f"  close: after {self.closes_after} s, with timeout={self.close_timeout}"
        if self.reads:
            yield "  reader: reads meanwhile"
        if self.reads_beyond:
            yield "  beyond: a reader starts behind the ends of the logs"
        if self.telemetry_interval_ms:
            yield f"  telemetry: pushed every {self.telemetry_interval_ms} ms"
        if self.changed:
            yield "  changed: callers change their buffers right after each call"
        if self.cancelled_after is not None:
            yield f"  cancelled: all tasks, after {self.cancelled_after} s"
        if self.closes_at_once:
            yield "  at_once: each producer is closed right after its last call"
        yield from (f"  knob.{name} = {value!r}" for name, value in self.knobs.items())

    # --- shrinking -------------------------------------------------------------------------

    def labels(self) -> list[str]:
        """The parts that can be left out; large ones first."""
        found = [f"p.{name}" for name in self.producers if len(self.producers) > 1]
        found += self.callers
        found += [f"e{place}" for place in range(len(self.events))]
        found += [
            "close",
            "reader",
            "beyond",
            "logins",
            "firewall",
            "duplicates",
            "threads",
            "replicas",
        ]
        found += ["news", "delays", "order", "step_seconds"]
        found += ["telemetry", "changed", "cancelled", "at_once"]
        found += [f"knob.{name}" for name in self.knobs]
        for name, (_, steps) in self.callers.items():
            found += [f"{name}.{place}" for place in range(len(steps))]
        for name, options in self.producers.items():
            found += [f"{name}.{key}" for key in options if key not in KIND]
        return found

    def without(self, labels: Collection[str]) -> Plan:
        """The plan without some of its parts. The others keep their labels."""
        gone = set(labels)
        return replace(
            self,
            timers_first=self.timers_first and "order" not in gone,
            step_seconds=STEP_SECONDS if "step_seconds" in gone else self.step_seconds,
            delays="even" if "delays" in gone else self.delays,
            executor_delays=BRISK if "threads" in gone else self.executor_delays,
            slow_replicas=self.slow_replicas and "replicas" not in gone,
            names_duplicates=self.names_duplicates and "duplicates" not in gone,
            news_takes=0.0 if "news" in gone else self.news_takes,
            session_lifetime_ms=0 if "logins" in gone else self.session_lifetime_ms,
            producers={
                name: {key: v for key, v in options.items() if f"{name}.{key}" not in gone}
                for name, options in self.producers.items()
                if f"p.{name}" not in gone
            },
            callers={
                name: (producer, tuple(_kept(name, steps, gone)))
                for name, (producer, steps) in self.callers.items()
                if name not in gone and f"p.{producer}" not in gone
            },
            events=tuple(
                NO_EVENT if f"e{place}" in gone else event
                for place, event in enumerate(self.events)
            ),
            closes_after=None if "close" in gone else self.closes_after,
            reads=self.reads and "reader" not in gone,
            reads_beyond=self.reads_beyond and "beyond" not in gone,
            firewall=self.firewall and "firewall" not in gone,
            telemetry_interval_ms=0 if "telemetry" in gone else self.telemetry_interval_ms,
            changed=self.changed and "changed" not in gone,
            cancelled_after=None if "cancelled" in gone else self.cancelled_after,
            closes_at_once=self.closes_at_once and "at_once" not in gone,
            knobs={k: v for k, v in self.knobs.items() if f"knob.{k}" not in gone},
        )


KIND: Final = ("acks", "enable_idempotence", "transactional_id")
"""The options that say what a producer guarantees."""


def _kept(caller: str, steps: tuple[Step, ...], gone: set[str]) -> Iterator[Step]:
    for place, step in enumerate(steps):
        yield NO_STEP if f"{caller}.{place}" in gone else step
