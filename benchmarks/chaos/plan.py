"""What is sent, and what is done to whom and when: all of it from the seed. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from random import Random
from typing import Final

from aioproducer.testing.fault_proxy import (
    ANYWHERE,
    ApiKey,
    BlackHole,
    Cut,
    Delay,
    Fault,
    HalfClose,
    Reset,
    Rule,
    Way,
)

BROKERS: Final = 3
PARTITIONS: Final = 12
_BURSTS: Final = (1, 1, 10, 10, 100, 100, 1000, 3000)
_KEYS: Final = 5000


class Disturbances(StrEnum):
    """What may happen on the way; all but CUT happen to brokers."""

    KILL = "kill"
    """SIGKILL, and a start later, before or after the others have noticed."""
    PAUSE = "pause"
    """SIGSTOP and SIGCONT."""
    RESTART = "restart"
    """SIGTERM, and a start."""
    CUT = "cut"
    """Faults of single connections, by the proxies."""


_LASTS: Final = {
    Disturbances.KILL: (0.0, 8.0),
    Disturbances.PAUSE: (0.5, 8.0),
    Disturbances.RESTART: (0.0, 3.0),
}


@dataclass(frozen=True, slots=True)
class Load:
    """What a client has to send, and within which time a record has its fate."""

    records: int
    seed: int
    records_per_second: int
    request_timeout_ms: int
    delivery_timeout_ms: int

    @property
    def seconds(self) -> float:
        """From the first record to the last, for a client that keeps up."""
        return self.records / self.records_per_second


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is sent: with a partition, with a key, or with neither."""

    value: bytes
    key: bytes | None
    partition: int | None


def record(number: int) -> Record:
    """The value begins with the number; the length differs."""
    value = b"%d of chaos " % number + b"." * (number * 7919 % 120)
    kind = number % 3
    return Record(
        value,
        b"%d" % (number % _KEYS) if kind == 1 else None,
        number // 3 % PARTITIONS if kind == 2 else None,
    )


def number_of(value: bytes) -> int | None:
    """The number of the record with this value, None if it is the value of none."""
    digits = value.partition(b" ")[0]
    if not digits.isdigit():
        return None
    number = int(digits)
    return number if record(number).value == value else None


def bursts(load: Load) -> Iterator[tuple[range, float]]:
    """The numbers that are sent in one go, and when, in seconds from the start."""
    random = Random(f"bursts {load.seed}")
    first = 0
    while first < load.records:
        behind = min(first + random.choice(_BURSTS), load.records)
        yield range(first, behind), first / load.records_per_second
        first = behind


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One broker is not itself for `lasts` seconds, after `calm` seconds."""

    kind: Disturbances
    broker: int
    calm: float
    lasts: float


def disturbances(
    seed: int, lane: int, kinds: Sequence[Disturbances], every: float
) -> Iterator[Disturbance]:
    """Without end. `lane` tells those apart that go on at the same time."""
    random = Random(f"brokers {seed} {lane}")
    for _ in count():
        kind = random.choice(kinds)
        broker = random.randint(1, BROKERS)
        calm = random.uniform(0.3, 1.7) * every
        yield Disturbance(kind, broker, calm, random.uniform(*_LASTS[kind]))


@dataclass(frozen=True, slots=True)
class ConnectionFault:
    """A rule for the proxy before `broker`, after `calm` seconds; the seed is of its position."""

    broker: int
    calm: float
    rule: Rule
    seed: int


# Not among them: corrupt bytes. No checksum covers a response, so a wrong offset would be believed.
_FAULTS: Final[tuple[Fault, ...]] = (
    Cut(ANYWHERE),
    Cut(ANYWHERE),
    Reset(ANYWHERE),
    Reset(ANYWHERE),
    HalfClose(ANYWHERE),
    Delay(0.3, ANYWHERE),
    BlackHole(),
)
_MOSTLY_PRODUCE: Final = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.PRODUCE, None)


def connection_faults(
    seed: int, every: float, apis: Sequence[ApiKey | None] = _MOSTLY_PRODUCE
) -> Iterator[ConnectionFault]:
    """Without end. ``apis``: whose frames meet them; None: of every kind."""
    random = Random(f"connections {seed}")
    for _ in count():
        fault = random.choice(_FAULTS)
        api = random.choice(apis)
        rule = Rule(fault, api, random.choice((Way.REQUEST, Way.RESPONSE)))
        broker = random.randint(1, BROKERS)
        calm = random.uniform(0.3, 1.7) * every
        yield ConnectionFault(broker, calm, rule, random.randrange(2**32))
