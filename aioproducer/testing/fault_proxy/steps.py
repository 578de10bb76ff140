"""The steps of a fault on a frame, for the holder of the sockets. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import assert_never

from aioproducer.testing.fault_proxy.damage import damaged
from aioproducer.testing.fault_proxy.faults import (
    ANYWHERE,
    BEHIND_LENGTH,
    BlackHole,
    ClaimLength,
    Corrupt,
    Cut,
    Damage,
    Delay,
    Fault,
    HalfClose,
    Reset,
    Swallow,
    Throttle,
)

__all__ = ["Step", "Pass", "Wait", "Pace", "ShutDown", "End", "GoDark", "steps"]


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
