"""Faults that can meet a frame, as values. No I/O.

A position `at` counts bytes from the start of the frame, its length prefix included: 0 is before
the frame, `END` after it, and `ANYWHERE` is drawn for each frame. A position after the frame's
end is its end.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

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
