"""Damaged bytes, as of a broken network or a broken broker. No I/O."""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["damaged"]

_MOST_BYTES: Final = 8
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
        some = random.randint(1, _MOST_BYTES)
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
