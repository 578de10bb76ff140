"""The plan of each seed, drawn at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.simulation.knobs import drawn_knobs
from tests.simulation.plan import BRISK, KIND, PARTITIONS_OF_INPUT, TOPICS, Event, Plan, Step
from tests.simulation.switches import switches_of

_PRODUCERS: Final = ("a", "b")
_PACES: Final = (0.05, 0.5, 4.0, 40.0)
"""Seconds in which most happens."""
_FREEZES: Final = (1.0, 5.0, 31.0, 60.0, 130.0, 900.0)
"""Seconds for which the process is stopped."""
_TIMEOUTS: Final = (
    (500, 1_000),
    (500, 4_000),
    (10_000, 12_000),
    (2_000, 31_000),
    (5_000, 60_000),
    (30_000, 30_020),
    (30_000, 40_000),
    (30_000, 120_000),
)
"""Values of request_timeout_ms and delivery_timeout_ms."""
_MAX_IDLE_MS: Final = 540_000
"""The value of connections_max_idle_ms by default."""
_NO_TIME_FOR_A_FORGOTTEN_CONNECTION: Final = {
    "connections_max_idle_ms": 3_000,
    "request_timeout_ms": 30_000,
    "delivery_timeout_ms": 30_020,
}
_LONG_ENOUGH: Final = 3
"""The first values that nobody misses by himself, with distant brokers and after many stops."""
_MOODS: Final = {
    "calm": 2,
    "frozen": 4,
    "orderly": 3,
    "troubled": 5,
    "doubtful": 5,
    "hostile": 4,
}
"""The moods of lives, and how often they are: one kind of fault at most; stops of the process;
answers that are errors; all that passes; lost responses of many small batches; all there is."""
_ALL_KINDS: Final = ("idempotent", "idempotent", "transactional", "plain")
_KINDS: Final = {
    "orderly": ("plain", "plain", "idempotent", "transactional", "transactional", "transactional"),
    "doubtful": ("idempotent", "idempotent", "transactional"),
}
"""The kinds of producers that a mood is hard for."""
_DOUBTFUL: Final = [
    *["lose_response"] * 3,
    *["mute"] * 5,
    *["stall", "cut", "cut", "fail", "refuse", "slow", "crash", "crash", "crash"],
]
_VARIANTS: Final[tuple[dict[str, Any], ...]] = (
    {"buffer_memory": 24_000, "batch_size": 1_000},
    {"buffer_memory": 80_000, "batch_size": 500},
    {"linger_ms": 20},
    {"linger_ms": 0, "batch_size": 300},
    {"batch_size": 0},
    {"batch_size": 2_000},
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
_STEPS: Final = {
    "send": 5,
    "send_and_wait": 2,
    "send_many": 1,
    "flush": 1,
    "pause": 4,
    "hold": 1,
    "cancel": 1,
}
"""The steps of callers, and how often they are drawn."""
_PRODUCE, _METADATA, _INIT, _END, _COORDINATOR = 0, 3, 22, 26, 10
_ADD_PARTITIONS, _OFFSETS = 24, 28
_NOT_ENOUGH_REPLICAS: Final = 19
"""The error code of a batch that waits for its next attempt, and is surely not in the log."""
_PASSING: Final = (
    *[(_PRODUCE, code) for code in (6, 3, 7, 19, 20, 2, 56)],
    (_METADATA, 5),
    (_INIT, 14),
    (_INIT, 51),
    (_END, 51),
    (_END, 16),
    (_END, 14),
    (_ADD_PARTITIONS, 51),
    (_ADD_PARTITIONS, 16),
    (_OFFSETS, 14),
    (_COORDINATOR, 15),
)
"""APIs and error codes that pass."""
_REFUSALS: Final = ((_PRODUCE, 29), (_PRODUCE, 87), (_PRODUCE, 10))
"""APIs and error codes that do not pass."""


def make_plan(seed: int, *, plain: bool = False) -> Plan:
    """The plan of a seed; ``plain``: without any switch."""
    plan = _Drawing(seed).plan()
    on = frozenset[str]() if plain else switches_of(seed)
    return _Switching(plan, on).plan() if on else plan


class _Drawing:
    """The random choices of one plan."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(f"plan {seed}")
        [self.mood] = random.choices(list(_MOODS), list(_MOODS.values()))
        self.brokers = random.choice([1, 1, 3] if self.mood == "doubtful" else [1, 2, 3, 3, 3])
        self.kind = random.choice(_KINDS.get(self.mood, _ALL_KINDS))
        self.pace = random.choice(_PACES[1:3] if self.mood == "doubtful" else _PACES)
        self.bulky = self.mood != "doubtful" and random.random() < 0.1
        """Batches are so large that they are compressed in a thread."""
        self.firewall = random.random() < 0.4
        self.session_lifetime_ms = random.choice([0] * 7 + [3_000, 20_000, 3_600_000])
        delays = ["none", "even", "jitter", "jitter", "far"]
        self.delays = random.choice(delays[:2] if self.mood == "doubtful" else delays)

    def plan(self) -> Plan:
        random = self.random
        names = _PRODUCERS[: random.choice([1, 1, 1, 2])]
        callers: dict[str, tuple[str, tuple[Step, ...]]] = {}
        for producer in names:
            count = 1 if self.kind == "transactional" else random.choice([1, 2, 4])
            for number in range(1, count + 1):
                callers[f"{producer}{number}"] = producer, self._steps()
        closes = random.random() < (0.5 if self.bulky else 0.15)
        producers = {name: self._options(name) for name in names}
        return Plan(
            seed=self.seed,
            brokers=self.brokers,
            timers_first=random.random() < 0.5,
            step_seconds=random.choice([1e-6, 1e-6, 20e-6, 1e-3]),
            delays=self.delays,
            transaction_version=random.choice([1, 1, 2] if self.mood == "orderly" else [1, 2, 2]),
            executor_delays=(0.05, 2.0, 5.0) if self.bulky else BRISK,
            slow_replicas=self.mood == "calm" and self.seed % 4 == 0,
            names_duplicates=random.random() < 0.1,
            news_takes=random.choice([0.0, 0.0, 0.3]),
            session_lifetime_ms=self.session_lifetime_ms,
            producers=producers,
            callers=callers,
            events=self._events(),
            closes_after=self.pace * random.random() if closes else None,
            close_timeout=random.choice([0.0, 0.5, 5.0, 200.0]),
            reads=random.random() < 0.3,
            reads_beyond=random.random() < 0.1,
            firewall=self.firewall,
        )

    def _options(self, name: str) -> dict[str, Any]:
        random = self.random
        long = self.delays in ("jitter", "far") or self.mood in ("calm", "frozen")
        timeouts: Sequence[tuple[int, int]] = _TIMEOUTS[_LONG_ENOUGH:] if long else _TIMEOUTS
        if self.mood == "doubtful":
            timeouts = _TIMEOUTS[:_LONG_ENOUGH]
        request_timeout, delivery_timeout = random.choice(timeouts)
        options: dict[str, Any] = {
            "request_timeout_ms": request_timeout,
            "delivery_timeout_ms": delivery_timeout,
        }
        if self.kind == "plain":
            options["acks"] = random.choice(["0", "1", "1", "all"])
            options["enable_idempotence"] = False
        elif self.kind == "transactional":
            options["transactional_id"] = f"tx-{name}"
            options["transaction_timeout_ms"] = random.choice([20_000, 60_000])
        if self.firewall and self.mood == "frozen":
            options["connections_max_idle_ms"] = random.choice([3_000, _MAX_IDLE_MS])
        if self.mood == "doubtful":
            options["batch_size"] = random.choice([300, 500, 2_000])
        if self.mood == "orderly" and random.random() < 0.5:
            options["max_in_flight_requests_per_connection"] = 1
        if random.random() < 0.25:
            options["on_failed"] = random.choice(["keep", "flush", "close"])
        for variant in random.sample(_VARIANTS, random.choice([0, 1, 2, 3])):
            options |= variant
        if self.bulky:
            options |= {"compression_type": "zstd", "batch_size": 100_000}
            options.pop("buffer_memory", None)
        if self.firewall and self.mood == "calm" and self.seed % 4 == 2:
            options |= _NO_TIME_FOR_A_FORGOTTEN_CONNECTION
        return options

    # --- callers ---------------------------------------------------------------------------

    def _steps(self) -> tuple[Step, ...]:
        random = self.random
        if self.kind == "transactional":
            return tuple(self._transaction() for _ in range(random.randint(1, 5)))
        return tuple(self._step() for _ in range(random.randint(2, 16)))

    def _step(self) -> Step:
        random, pace = self.random, self.pace
        [kind] = random.choices(list(_STEPS), list(_STEPS.values()))
        match kind:
            case "send":
                return Step(
                    kind,
                    (
                        60 if self.bulky else random.choice([1, 3, 10, 30]),
                        self._size(),
                        *self._target(),
                    ),
                )
            case "send_and_wait":
                return Step(kind, (self._size(), *self._target()))
            case "send_many":
                return Step(kind, (random.choice([1, 20, 60]), self._size(), *self._target()))
            case "pause":
                return Step(kind, (random.choice([0.0, 0.02, 0.1, 0.3]) * pace,))
            case "hold":
                return Step(kind, (random.choice([0.02, 0.3 * pace, 6.0, 31.0]),))
            case "cancel":
                return Step(kind, (random.choice([0.0, 0.002, 0.2 * pace]), *self._target()))
        return Step(kind)

    def _size(self) -> int:
        return 3_000 if self.bulky else self.random.choice([10, 10, 100, 100, 400, 3_000])

    def _target(self) -> tuple[str, str]:
        """The topic, and how the partition is found."""
        random = self.random
        topic = "audit" if self.mood == "doubtful" else random.choice(["orders", "orders", "audit"])
        return topic, random.choice(["key", "sticky", "named"])

    def _transaction(self) -> Step:
        random = self.random
        drawn = [self._step() for _ in range(random.choice([0, 1, 2, 4, 6]))]
        steps = [step for step in drawn if step.kind not in ("hold", "cancel")]
        if random.random() < 0.3:
            steps.append(
                Step(
                    "send_offsets",
                    (random.randrange(PARTITIONS_OF_INPUT), random.randrange(1_000_000)),
                )
            )
        ending = random.choice(["commit", "commit", "commit", "abort"])
        pause = random.choice([0.0, 0.0, 0.1 * self.pace])
        return Step("transact", (ending, pause), tuple(steps))

    # --- faults ----------------------------------------------------------------------------

    def _events(self) -> tuple[Event, ...]:
        random = self.random
        if self.mood == "calm":
            return self._quiet_faults()
        count = random.randint(1, 3 if self.mood == "frozen" else 12)
        events = [Event(self.pace * random.random(), *self._event()) for _ in range(count)]
        return tuple(sorted([*events, *self._swaps()], key=lambda event: event.at))

    def _swaps(self) -> Iterator[Event]:
        """Addresses are exchanged in some lives (KIP-1242)."""
        random = Random(f"swaps {self.seed}")
        if self.brokers > 1 and random.random() < 0.1:
            one, other = random.sample(range(1, self.brokers + 1), 2)
            seconds = random.choice([0.2, 2.0, 20.0])
            yield Event(self.pace * random.random(), "swap", (one, other, seconds))

    def _quiet_faults(self) -> tuple[Event, ...]:
        """Lost connections; or crashes of brokers that lose what only they have; or nothing."""
        random = Random(f"quiet faults {self.seed}")
        if self.seed % 4 == 2:
            return ()
        events = []
        for _ in range(random.randint(1, 3)):
            at, broker = self.pace * random.random(), random.randint(1, self.brokers)
            args = (broker,) if self.seed % 2 else (broker, 3.0)
            events.append(Event(at, "forget" if self.seed % 2 else "lossy_crash", args))
        return tuple(sorted(events, key=lambda event: event.at))

    def _event(self) -> tuple[str, tuple[Any, ...]]:
        random = self.random
        if self.mood == "frozen":
            return self._freeze()
        if self.mood == "orderly":
            kind = random.choice(["fail", "fail", "refuse", "refuse", "throttle", "slow"])
            if kind == "fail" and self.kind == "transactional" and random.random() < 0.7:
                return kind, (_PRODUCE, _NOT_ENOUGH_REPLICAS, random.choice([1, 2, 4]))
            return self._fault(kind)
        if self.mood == "doubtful":
            return self._fault(random.choice(_DOUBTFUL))
        kinds = ["cut", "cut", "stall", "stall", "crash", "move", "fail", "fail", "throttle"]
        kinds += ["shrink", "lose_response", "lose_response", "slow", "silent", "mute", "forget"]
        if self.mood == "hostile":
            kinds += ["refuse", "refuse", "refuse", "lossy_crash", "freeze", "expire_ids"]
            kinds += [random.choice(["delete_records", "truncate", "recreate"])]
            kinds += ["fence", "time_out", "time_out"] * (self.kind == "transactional")
        return self._fault(random.choice(kinds))

    def _fault(self, kind: str) -> tuple[str, tuple[Any, ...]]:
        random, broker = self.random, self.random.randint(1, self.brokers)
        seconds = random.choice([0.1 * self.pace, 0.5 * self.pace, self.pace, 3.0, 8.0, 35.0])
        if self.mood == "doubtful" and kind == "crash":
            seconds = min(seconds, 1.0)  # the batches have not expired when it is back
        match kind:
            case "freeze":
                return self._freeze()
            case "cut":
                return kind, (broker, random.random(), random.random())
            case "stall":
                return kind, (broker, random.choice(["requests", "responses", "both"]), seconds)
            case "mute":
                return kind, (broker, random.choice([0.5, 1.0, 2.0, 4.0, 35.0]))
            case "crash" | "lossy_crash" | "silent":
                return kind, (broker, seconds)
            case "move":
                return kind, (*self._place(), random.randint(1, self.brokers))
            case "shrink":
                return kind, (*self._place(), broker, seconds)
            case "delete_records":
                return kind, (*self._place(), random.randint(1, 20))
            case "truncate":
                return kind, (*self._place(), random.random())
            case "recreate":
                return kind, (random.choice(list(TOPICS)),)
            case "time_out":
                return kind, (random.choice(_PRODUCERS),)
            case "fail":
                return kind, (*random.choice(_PASSING), random.choice([1, 2, 5]))
            case "refuse":
                return kind, (*random.choice(_REFUSALS), 1)
            case "throttle":
                return kind, (random.choice([50, 1_000, 9_000]), random.choice([1, 3]))
            case "lose_response":
                return kind, (random.choice([1, 2, 4]),)
            case "slow":
                return kind, (random.choice([5.0, 50.0]), seconds)
            case "forget":
                return kind, (broker,)
        return kind, ()

    def _freeze(self) -> tuple[str, tuple[Any, ...]]:
        place = self.random.choice(["select", "poll", "step"])
        return "freeze", (self.random.choice(_FREEZES), place)

    def _place(self) -> tuple[str, int]:
        topic = self.random.choice(list(TOPICS))
        return topic, self.random.randrange(TOPICS[topic])


_BURSTS: Final = (100, 250, 600)
"""The records of a burst in most lives: with small slices they are as many as thousands."""
_LARGE_BURST: Final = 10_000
_LARGE_BURSTS: Final = 1 / 30
_BATCH_OF_LARGE_BURSTS: Final = 2_000
"""Bytes: with smaller batches, each record of a large burst would take a request."""
_DISTANT_BURST: Final = 25
"""With those, and a round trip of 0.2 s for each request, more would reach delivery_timeout_ms."""
_LAST_MOMENT: Final = 0.9
_QUICK_STEP: Final = 20e-6
"""Seconds of a callback: slices of one record take many."""
_ASIDE: Final = 0.3
"""The part of transactional callers with offsets that another task adds as they commit."""
_DROPPED: Final = 0.5
"""The part with a transaction that is aborted while its batches wait for another attempt."""
_WHILE_IT_IS_RETRIED: Final = (0.01, 0.03, 0.1)
_HOLDS: Final = (0.05, 0.4, 3.0)
_INTERVALS_MS: Final = (200, 2_000, 60_000)
_EXPIRING: Final = 0.2
"""The part of idempotent producers that brokers forget as they refuse one of its batches."""
_LOST_FIRST: Final = (18, 3, 22, 10, 71, 72)
"""The APIs at which a peer hangs up: ApiVersions, Metadata, InitProducerId, and so on."""


class _Switching:
    """Adds to a plan what its switches say, by random choices of their own."""

    def __init__(self, plan: Plan, on: frozenset[str]) -> None:
        self._plan = plan
        self._on = on
        self._random = Random(f"switches {plan.seed}")
        self._knobs = drawn_knobs(self._random) if "knobs" in on else {}
        if plan.executor_delays != BRISK:  # small batches would wait longer than they may
            self._knobs.pop("COMPRESS_ELSEWHERE_BYTES", None)
        events = [event.at for event in plan.events]
        self._span = max([*events, 1.0])
        """Seconds in which most happens."""

    def plan(self) -> Plan:
        random, on = self._random, self._on
        return replace(
            self._plan,
            switches=on,
            step_seconds=min(self._plan.step_seconds, _QUICK_STEP),
            knobs=self._knobs,
            telemetry_interval_ms=random.choice(_INTERVALS_MS) if "telemetry" in on else 0,
            changed="changed" in on,
            cancelled_after=self._moment() if "cancelled" in on else None,
            closes_at_once="closes at once" in on,
            producers={name: self._options(each) for name, each in self._plan.producers.items()},
            callers=self._callers(),
            events=tuple(sorted([*self._plan.events, *self._events()], key=lambda e: e.at)),
        )

    def _moment(self) -> float:
        return self._span * self._random.random() * _LAST_MOMENT

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        random, on = self._random, self._on
        found = dict(options)
        if "telemetry" in on:
            found["enable_metrics_push"] = True
        if "failed records" in on:
            found.setdefault("on_failed", random.choice(["keep", "flush", "close"]))
        if "codec" in on:
            found.setdefault("compression_type", random.choice(["gzip", "zstd", "lz4", "snappy"]))
        if "serializer" in on:
            found["serializer"] = random.choice([0.0, 0.05, 0.3])
        for name in ("tracing", "interceptors", "partitioner"):
            if name in on:
                found[name] = True
        return found

    # --- callers ---------------------------------------------------------------------------

    def _callers(self) -> dict[str, tuple[str, tuple[Step, ...]]]:
        return {
            name: (producer, self._steps(steps, self._plan.producers[producer]))
            if name.endswith("1")
            else (producer, steps)
            for name, (producer, steps) in self._plan.callers.items()
        }

    def _steps(self, steps: tuple[Step, ...], options: dict[str, Any]) -> tuple[Step, ...]:
        random, more = self._random, [*self._more_steps(options)]
        found = [*steps]
        if "transactional_id" in options:
            if random.random() < _ASIDE:
                offsets = random.randrange(PARTITIONS_OF_INPUT), random.randrange(1_000_000)
                aside = Step("send_offsets_aside", offsets)
                place = random.randint(0, len(found))
                found.insert(place, Step("transact", ("commit", 0.0), (aside,)))
            if random.random() < _DROPPED:
                sends = tuple(Step("send", (3, 10, topic, "key")) for topic in [*TOPICS, *TOPICS])
                place = random.randint(0, len(found))
                pause = random.choice(_WHILE_IT_IS_RETRIED)
                found.insert(place, Step("transact", ("abort", pause), sends))
            if more:
                ending = random.choice(["commit", "commit", "abort"])
                place = random.randint(0, len(found))
                found.insert(place, Step("transact", (ending, 0.0), tuple(more)))
        else:
            for step in more:
                found.insert(random.choice([random.randint(0, len(found)), len(found)]), step)
        if "holding" in self._on:
            found.insert(random.randint(0, len(found)), Step("hold", (random.choice(_HOLDS),)))
        return tuple(found)

    def _more_steps(self, options: dict[str, Any]) -> Iterator[Step]:
        random = self._random
        size = random.choice([10, 100])
        target = random.choice(list(TOPICS)), random.choice(["key", "sticky", "named"])
        if "send_many" in self._on:
            yield Step("send_many", (random.choice([1, 40, 400]), size, *target))
        if "columns" in self._on:
            yield Step("columns", (random.choice([1, 40, 400]), size, target[0]))
        if "burst" in self._on:
            least = min(
                options.get("batch_size", 16_000), self._knobs.get("SMALLEST_BATCH", 16_000)
            )
            small = least < _BATCH_OF_LARGE_BURSTS
            large = random.random() < _LARGE_BURSTS and not small
            records = _LARGE_BURST if large else random.choice(_BURSTS)
            if small and self._plan.delays == "far":
                records = _DISTANT_BURST
            yield Step("burst", (records, 10, *target))

    # --- faults ----------------------------------------------------------------------------

    def _events(self) -> Iterator[Event]:
        random, on = self._random, self._on
        broker = random.randint(1, self._plan.brokers)
        seconds = random.choice([0.5, 3.0, 20.0])
        if any("transactional_id" in each for each in self._plan.producers.values()):
            for _ in range(random.choice([0, 2, 4])):
                yield Event(self._moment(), "fail", (_PRODUCE, _NOT_ENOUGH_REPLICAS, 4))
        if all(each.keys().isdisjoint(KIND) for each in self._plan.producers.values()):
            own = Random(f"expiry {self._plan.seed}")
            if own.random() < _EXPIRING:
                args = own.choice([1, 2, 4, 8]), own.choice([1, 3])
                yield Event(0.0, "refuse_and_expire", args)
        if "slow" in on:
            yield Event(self._moment(), "slow", (random.choice([5.0, 50.0]), seconds))
        if "dripping" in on:
            yield Event(self._moment(), "drip", (broker, random.choice([1, 20]), 0.05, seconds))
        if "hanging up" in on:
            api = random.choice(_LOST_FIRST)
            yield Event(
                random.choice([0.0, self._moment()]), "hang_up", (api, random.choice([1, 3]))
            )
        if "descriptors" in on:
            at = random.choice([0.0, self._moment()])
            yield Event(at, "descriptors", (broker, random.choice([0.5, 2.5, 10.0])))
        if "replaced" in on:
            yield Event(self._moment(), "replace")
