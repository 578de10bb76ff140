"""Faults on frames: faults as values, the scripts that choose them, and their steps. No I/O.

A position `at` counts bytes from the start of the frame, its length prefix included: 0 is before
the frame, `END` after it, and `ANYWHERE` is drawn for each frame. A position after the frame's
end is its end.

A :class:`FaultScript` is a value, and a :class:`ScriptRun` the state of its run. :func:`steps`
splits a fault into the steps that the holder of the sockets carries out. Of Kafka's protocol, the
proxy needs only lengths, API keys and correlation ids.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum, IntEnum
from random import Random
from typing import Final, assert_never

__all__ = [
    "ApiKey",
    "Way",
    "Fault",
    "Cut",
    "Reset",
    "Delay",
    "Throttle",
    "HalfClose",
    "BlackHole",
    "Swallow",
    "Corrupt",
    "ClaimLength",
    "Damage",
    "ANYWHERE",
    "END",
    "LENGTH_BYTES",
    "Correlations",
    "NotKafkaError",
    "frame_length",
    "damaged",
    "FaultScript",
    "Rule",
    "ScriptRun",
    "Step",
    "Pass",
    "Wait",
    "Pace",
    "ShutDown",
    "End",
    "GoDark",
    "steps",
]


ANYWHERE: Final = -1
"""A position in a frame that is drawn for each frame."""
END: Final = sys.maxsize
"""The position after a frame."""
BEHIND_LENGTH: Final = 4


class ApiKey(IntEnum):
    """The requests of a producer, by Kafka's numbers; any other number is allowed as well."""

    PRODUCE = 0
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Way(Enum):
    """The part of a connection that a fault meets."""

    CONNECTION = "connection"
    """The moment after a client has connected, before the proxy connects to the broker."""
    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class Cut:
    """Pass the bytes before `at`, then close the connection on both sides."""

    at: int = 0


@dataclass(frozen=True, slots=True)
class Reset:
    """Pass the bytes before `at`, then end the connection by RST on both sides."""

    at: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Pass the bytes before `at`, and all later bytes `seconds` later."""

    seconds: float
    at: int = 0


@dataclass(frozen=True, slots=True)
class Throttle:
    """Pass so many bytes per second from this frame on, this way. A connection: both ways."""

    bytes_per_second: int

    def __post_init__(self) -> None:
        if self.bytes_per_second < 1:
            raise ValueError(f"at least 1 byte per second must pass, not {self.bytes_per_second}")


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Pass the bytes before `at`, then say EOF this way, and nothing more; the other way stays.

    A connection: the client gets EOF at once.
    """

    at: int = END


@dataclass(frozen=True, slots=True)
class BlackHole:
    """Take every byte of the connection from this frame on, both ways, and pass none on."""


@dataclass(frozen=True, slots=True)
class Swallow:
    """Drop only this frame."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Invert `count` bytes from `at` on. 4 is where an API key or a correlation id begins."""

    at: int = BEHIND_LENGTH
    count: int = 1


@dataclass(frozen=True, slots=True)
class ClaimLength:
    """Announce so many bytes instead of the frame's length; a negative number is possible."""

    length: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Damage:
    """Flip, drop, repeat or insert bytes after the length, or write numbers; correct the length.

    The places and the changes are drawn for each frame.
    """

    changes: int = 1


Fault = (
    Cut
    | Reset
    | Delay
    | Throttle
    | HalfClose
    | BlackHole
    | Swallow
    | Corrupt
    | ClaimLength
    | Damage
)
"""A fault of the network or of a broker."""


LENGTH_BYTES: Final = 4
_LONGEST_FRAME: Final = 100 * 1024 * 1024


class NotKafkaError(Exception):
    """The bytes are not a frame of Kafka's protocol, so the start of the next frame is unknown."""


def frame_length(prefix: bytes) -> int:
    """The number of bytes that follow the four in `prefix`. Raises NotKafkaError."""
    length = int.from_bytes(prefix, "big", signed=True)
    if not LENGTH_BYTES <= length <= _LONGEST_FRAME:
        raise NotKafkaError(f"a frame of {length} bytes (they begin with {prefix!r})")
    return length


class Correlations:
    """The API keys of one connection's unanswered requests, by correlation id."""

    def __init__(self) -> None:
        self._api_keys: dict[bytes, int] = {}

    def request(self, frame: bytes) -> int | None:
        """The API key of a request, None if it is too short for a header."""
        if len(frame) < LENGTH_BYTES + 8:
            return None
        api = int.from_bytes(frame[4:6], "big", signed=True)
        self._api_keys[frame[8:12]] = api
        return api

    def response(self, frame: bytes) -> int | None:
        """The API key of the request that it answers, None if there is no such request."""
        return self._api_keys.pop(frame[4:8], None)


_MOST_DAMAGED: Final = 8
"""The most bytes that one change drops, repeats or inserts."""
_NUMBERS: Final = (
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x7f\xff",
    b"\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\x03",
    b"\0",
    b"\0\0\0\0",
)
"""The largest and smallest numbers, and numbers near zero, fixed and as varints."""


def damaged(data: bytes, random: Random, *, changes: int = 1) -> bytes:
    """``data`` with `changes` changes of any kind anywhere: another length is possible."""
    for _ in range(changes):
        at = random.randint(0, len(data))
        some = random.randint(1, _MOST_DAMAGED)
        before, here, after = data[:at], data[at : at + some], data[at + some :]
        match random.randrange(5):
            case 0:
                here = bytes([here[0] ^ 1 << random.randrange(8)]) + here[1:] if here else here
            case 1:
                here = b""
            case 2:
                here = here * random.randint(2, 4)
            case 3:
                here = random.randbytes(some) + here
            case _:
                number = random.choice(_NUMBERS)
                before, after = data[:at], data[at + len(number) :]
                here = number
        data = before + here + after
    return data


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault for frames of one kind, counted over all connections of the proxy.

    "The third produce response": ``Rule(fault, ApiKey.PRODUCE, Way.RESPONSE, after=2)``; "the next
    two of them": ``count=2``; "each with probability p": ``count=None, probability=p``.
    """

    fault: Fault
    api: int | None = None
    """An `ApiKey` or any other of Kafka's numbers. None: of every kind."""
    way: Way = Way.RESPONSE
    after: int = 0
    """The number of frames of the kind that pass unharmed first."""
    count: int | None = 1
    """The number of frames that meet the fault. None: no end."""
    probability: float = 1.0
    """The probability for each frame between the first and the last."""

    def __post_init__(self) -> None:
        if self.after < 0 or (self.count is not None and self.count < 1):
            raise ValueError(f"no frame would ever meet this fault: {self}")
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError(f"a probability is 0 to 1, not {self.probability}")
        if self.way is Way.CONNECTION:
            if self.api is not None:
                raise ValueError(f"a new connection has no API key yet: {self}")
            if isinstance(self.fault, Swallow | Corrupt | ClaimLength | Damage):
                raise ValueError(f"a new connection has no bytes yet: {self}")

    def matches(self, way: Way, api: int | None) -> bool:
        """True if such a frame is counted; `api` is None if it is unknown."""
        return way is self.way and (self.api is None or api == self.api)


@dataclass(frozen=True, slots=True)
class FaultScript:
    """Rules: the first rule that applies to a frame decides; the others do not count the frame."""

    rules: tuple[Rule, ...] = ()
    seed: int = 0
    """The seed of the probabilities and of `ANYWHERE`: the same frames meet the same faults."""


class ScriptRun:
    """A script under way: the state of one proxy."""

    def __init__(self, script: FaultScript) -> None:
        self.random = Random(script.seed)
        self._running: list[_RunningRule] = []
        self.add(*script.rules)

    def add(self, *rules: Rule) -> None:
        """Add rules after the present ones; they count from now on."""
        self._running += [_RunningRule(rule, Random(self.random.random())) for rule in rules]

    def decide(self, way: Way, api: int | None = None) -> Fault | None:
        """The fault that the next frame of this kind meets; None: no fault."""
        decided: Fault | None = None
        for running in self._running:
            if running.rule.matches(way, api):
                applies = running.applies()
                if applies and decided is None:
                    decided = running.rule.fault
                    running.hits += 1
        self._running = [running for running in self._running if not running.finished]
        return decided


@dataclass(slots=True)
class _RunningRule:
    rule: Rule
    random: Random
    """A generator for each rule, independent of the other rules' draws."""
    passed: int = 0
    hits: int = 0

    @property
    def finished(self) -> bool:
        return self.rule.count is not None and self.hits >= self.rule.count

    def applies(self) -> bool:
        if self.passed < self.rule.after:
            self.passed += 1
            return False
        return self.rule.probability == 1.0 or self.random.random() < self.rule.probability


@dataclass(frozen=True, slots=True)
class Pass:
    """Write these bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Pause this direction for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Pace:
    """Bound the pace of writes from now on."""

    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class ShutDown:
    """Say EOF this way, and pass nothing more."""


@dataclass(frozen=True, slots=True)
class End:
    """End the connection on both sides, by FIN or by RST."""

    reset: bool


@dataclass(frozen=True, slots=True)
class GoDark:
    """Pass nothing more either way."""


Step = Pass | Wait | Pace | ShutDown | End | GoDark


def steps(fault: Fault | None, frame: bytes, random: Random) -> tuple[Step, ...]:
    """A fault's steps. A connection has an empty `frame`; `random` draws positions `ANYWHERE`."""
    match fault:
        case None:
            return (Pass(frame),)
        case Cut(at):
            return Pass(frame[: _position(at, frame, random)]), End(reset=False)
        case Reset(at):
            return Pass(frame[: _position(at, frame, random)]), End(reset=True)
        case Delay(seconds, at):
            position = _position(at, frame, random)
            return Pass(frame[:position]), Wait(seconds), Pass(frame[position:])
        case Throttle(bytes_per_second):
            return Pace(bytes_per_second), Pass(frame)
        case HalfClose(at):
            return Pass(frame[: _position(at, frame, random)]), ShutDown()
        case BlackHole():
            return (GoDark(),)
        case Swallow():
            return ()
        case Corrupt(at, count):
            position = _position(at, frame, random)
            wrong = bytes(byte ^ 0xFF for byte in frame[position : position + count])
            return (Pass(frame[:position] + wrong + frame[position + count :]),)
        case ClaimLength(length):
            claimed = length.to_bytes(BEHIND_LENGTH, "big", signed=True)
            return (Pass(claimed + frame[BEHIND_LENGTH:]),)
        case Damage(changes):
            body = damaged(frame[BEHIND_LENGTH:], random, changes=changes)
            return (Pass(len(body).to_bytes(BEHIND_LENGTH, "big") + body),)
        case _:
            assert_never(fault)


def _position(at: int, frame: bytes, random: Random) -> int:
    return random.randint(0, len(frame)) if at == ANYWHERE else min(at, len(frame))
