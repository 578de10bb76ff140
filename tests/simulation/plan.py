"""The plan of a life, drawn from its seed: options, what callers do, what goes wrong and when.

Every part of a plan has a label, so a life can be lived again without some of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

PRODUCERS: Final = ("a", "b")
FREEZES: Final = (1.0, 5.0, 31.0, 60.0, 130.0, 900.0)
"""Seconds for which the process is stopped."""
LIFE: Final = 40.0
"""Seconds of the cluster's life in which things go wrong."""
TOPICS: Final = {"orders": 3, "audit": 1}
GROUP: Final = "readers"


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

    @property
    def kinds(self) -> set[str]:
        """The kinds of the events."""
        return {event.kind for event in self.events}

    def lines(self) -> Iterator[str]:
        """The plan in words."""
        order = "timers before sockets" if self.timers_first else "sockets before timers"
        yield (
            f"life {self.seed}: {self.brokers} brokers (transaction.version "
            f"{self.transaction_version}), network {self.delays}, {order}, "
            f"{self.step_seconds * 1e6:g} µs a callback"
        )
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

    # --- shrinking -------------------------------------------------------------------------

    def labels(self) -> list[str]:
        """The parts that can be left out; large ones first."""
        found = [f"p.{name}" for name in self.producers if len(self.producers) > 1]
        found += self.callers
        found += [f"e{place}" for place in range(len(self.events))]
        found += ["close", "reader", "delays", "order", "step_seconds"]
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
            step_seconds=0.0 if "step_seconds" in gone else self.step_seconds,
            delays="even" if "delays" in gone else self.delays,
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
                nothing if f"e{place}" in gone else event for place, event in enumerate(self.events)
            ),
            closes_after=None if "close" in gone else self.closes_after,
            reads=self.reads and "reader" not in gone,
        )


KIND: Final = ("acks", "enable_idempotence", "transactional_id")
"""The options that say what a producer guarantees."""


def _kept(caller: str, steps: tuple[Step, ...], gone: set[str]) -> Iterator[Step]:
    for place, step in enumerate(steps):
        yield NO_STEP if f"{caller}.{place}" in gone else step


# --- drawing ---------------------------------------------------------------------------------


def make_plan(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"plan {seed}")
    brokers = random.choice([1, 2, 3, 3, 3])
    kind = random.choice(["plain", "idempotent", "idempotent", "transactional"])
    producers = {
        name: _options(random, name, kind) for name in PRODUCERS[: random.choice([1, 1, 1, 2])]
    }
    callers: dict[str, tuple[str, tuple[Step, ...]]] = {}
    for producer in producers:
        count = 1 if kind == "transactional" else random.choice([1, 2, 4])
        for number in range(1, count + 1):
            steps = _steps(random, kind)
            callers[f"{producer}{number}"] = producer, steps
    closes = random.random() < 0.2
    return Plan(
        seed=seed,
        brokers=brokers,
        timers_first=random.random() < 0.5,
        step_seconds=random.choice([0.0, 0.0, 20e-6, 1e-3]),
        delays=random.choice(["none", "even", "jitter", "jitter", "far"]),
        transaction_version=random.choice([1, 2, 2]),
        producers=producers,
        callers=callers,
        events=_events(random, brokers, kind),
        closes_after=random.choice([0.001, 0.2, 3.0, 20.0]) if closes else None,
        close_timeout=random.choice([0.0, 0.5, 5.0, 200.0]),
        reads=random.random() < 0.3,
    )


_VARIANTS: Final[tuple[dict[str, Any], ...]] = (
    {"buffer_memory": 24_000, "batch_size": 1_000},
    {"buffer_memory": 80_000, "batch_size": 500},
    {"linger_ms": 20},
    {"linger_ms": 0, "batch_size": 300},
    {"batch_size": 0},
    {"compression_type": "gzip"},
    {"compression_type": "zstd"},
    {"compression_type": "lz4"},
    {"max_in_flight_requests_per_connection": 1},
    {"max_in_flight_requests_per_connection": 2},
    {"connections_max_idle_ms": 3_000},
    {"metadata_max_age_ms": 4_000},
    {"max_block_ms": 5_000},
    {"partitioner_adaptive_partitioning_enable": False},
    {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50},
)


def _options(random: Random, name: str, kind: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "request_timeout_ms": random.choice([2_000, 5_000, 30_000]),
        "delivery_timeout_ms": random.choice([31_000, 60_000, 120_000]),
        "max_block_ms": 60_000,
    }
    if kind == "plain":
        options["acks"] = random.choice(["0", "1", "1", "all"])
        options["enable_idempotence"] = False
    elif kind == "transactional":
        options["transactional_id"] = f"tx-{name}"
        options["transaction_timeout_ms"] = random.choice([20_000, 60_000])
    for variant in random.sample(_VARIANTS, random.choice([0, 1, 2, 3])):
        options |= variant
    return options


def _steps(random: Random, kind: str) -> tuple[Step, ...]:
    if kind == "transactional":
        return tuple(_transaction(random) for _ in range(random.randint(1, 5)))
    return tuple(_plain_step(random) for _ in range(random.randint(1, 10)))


def _sizes(random: Random) -> int:
    return random.choice([10, 10, 100, 100, 400, 3_000])


def _target(random: Random) -> tuple[Any, ...]:
    """The topic, and how the partition is found."""
    return random.choice(["orders", "orders", "audit"]), random.choice(["key", "sticky", "named"])


_STEPS: Final = {
    "send": 4,
    "send_and_wait": 2,
    "send_many": 1,
    "flush": 1,
    "pause": 3,
    "hold": 1,
    "cancel": 1,
}
"""The steps of callers, and how often they are taken."""


def _plain_step(random: Random) -> Step:
    [kind] = random.choices(list(_STEPS), list(_STEPS.values()))
    match kind:
        case "send":
            return Step(kind, (random.choice([1, 3, 10, 30]), _sizes(random), *_target(random)))
        case "send_and_wait":
            return Step(kind, (_sizes(random), *_target(random)))
        case "send_many":
            return Step(kind, (random.choice([1, 20, 60]), _sizes(random), *_target(random)))
        case "pause":
            return Step(kind, (random.choice([0.0, 0.001, 0.05, 1.0, 5.0, 12.0]),))
        case "hold":
            return Step(kind, (random.choice([0.02, 1.0, 6.0, 31.0]),))
        case "cancel":
            return Step(kind, (random.choice([0.0, 0.002, 0.5]), *_target(random)))
    return Step(kind)


def _transaction(random: Random) -> Step:
    steps: list[Step] = []
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        step = _plain_step(random)
        if step.kind not in ("hold", "cancel"):
            steps.append(step)
    if random.random() < 0.3:
        steps.append(Step("send_offsets", (random.randrange(3), random.randrange(1_000_000))))
    ending = random.choice(["commit", "commit", "commit", "abort"])
    return Step("transact", (ending, random.choice([0.0, 0.0, 0.1, 4.0])), tuple(steps))


_PRODUCE, _METADATA, _INIT, _END, _COORDINATOR = 0, 3, 22, 26, 10
_PASSING: Final = (
    (_PRODUCE, 6),
    (_PRODUCE, 3),
    (_PRODUCE, 7),
    (_PRODUCE, 19),
    (_PRODUCE, 20),
    (_PRODUCE, 2),
    (_PRODUCE, 56),
    (_METADATA, 5),
    (_INIT, 14),
    (_INIT, 51),
    (_END, 51),
    (_END, 16),
    (_COORDINATOR, 15),
)
"""APIs and error codes that pass."""
REFUSALS: Final = ((_PRODUCE, 29), (_PRODUCE, 87), (_PRODUCE, 10))
"""APIs and error codes that do not pass."""


def _events(random: Random, brokers: int, kind: str) -> tuple[Event, ...]:
    mood = random.choice(["calm", "frozen", "frozen", "troubled", "troubled", "hostile"])
    if mood == "calm":
        return ()
    count = random.randint(1, 3) if mood == "frozen" else random.randint(1, 10)
    events = [
        Event(random.choice([0.0, 0.01, 1.0, 5.0, LIFE]) * random.random(), *chosen)
        for chosen in (_event(random, brokers, mood, kind) for _ in range(count))
    ]
    return tuple(sorted(events, key=lambda event: event.at))


def _freeze(random: Random) -> tuple[str, tuple[Any, ...]]:
    place = random.choice(["select", "poll", "step"])
    return "freeze", (random.choice(FREEZES), place)


def _event(random: Random, brokers: int, mood: str, kind: str) -> tuple[str, tuple[Any, ...]]:
    if mood == "frozen":
        return _freeze(random)
    broker = random.randint(1, brokers)
    seconds = random.choice([0.05, 0.5, 3.0, 8.0, 35.0])
    kinds = ["cut", "cut", "stall", "stall", "crash", "move", "fail", "fail", "throttle"]
    kinds += ["lose_response", "lose_response", "slow", "silent", "freeze", "forget"]
    if mood == "hostile":
        kinds += ["refuse", "refuse", "lossy_crash"]
        kinds += ["fence"] * (kind == "transactional")
    match random.choice(kinds):
        case "freeze":
            return _freeze(random)
        case "cut":
            return "cut", (broker, random.random(), random.random())
        case "stall":
            return "stall", (broker, random.choice(["requests", "responses", "both"]), seconds)
        case "crash":
            return "crash", (broker, seconds)
        case "lossy_crash":
            return "lossy_crash", (broker, seconds)
        case "move":
            return "move", (*_place(random), random.randint(1, brokers))
        case "shrink":
            return "shrink", (*_place(random), broker)
        case "fail":
            return "fail", (*random.choice(_PASSING), random.choice([1, 2, 5]))
        case "refuse":
            return "fail", (*random.choice(REFUSALS), 1)
        case "throttle":
            return "throttle", (random.choice([50, 1_000, 9_000]), random.choice([1, 3]))
        case "lose_response":
            return "lose_response", (random.choice([1, 2]),)
        case "slow":
            return "slow", (random.choice([5.0, 50.0]), seconds)
        case "silent":
            return "silent", (broker, seconds)
        case "forget":
            return "forget", (broker,)
        case "delete_records":
            return "delete_records", (*_place(random), random.randint(1, 20))
        case "fence":
            return "fence", ()
    return "expire_ids", ()


def _place(random: Random) -> tuple[str, int]:
    topic = random.choice(list(TOPICS))
    return topic, random.randrange(TOPICS[topic])
