"""The murmur hashes of keys. Both take bytes and return an unsigned number of 32 bits.

``records/_speedups/route.pxd`` has the compiled form of murmur2, and ``mmh3`` that of murmur3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["murmur2", "murmur3", "murmur3_in_python"]

KAFKAS_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """MurmurHash2 with Kafka's seed. Source: Kafka's ``Utils.murmur2``."""
    factor: Final = 0x5BD1E995
    found = KAFKAS_SEED ^ len(key)
    whole = len(key) & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * factor & _MASK
        word = (word ^ word >> 24) * factor & _MASK
        found = found * factor & _MASK ^ word
    if len(key) > whole:
        found = (found ^ int.from_bytes(key[whole:], "little")) * factor & _MASK
    found = (found ^ found >> 13) * factor & _MASK
    return found ^ found >> 15


def murmur3_in_python(key: bytes) -> int:
    """MurmurHash3 for x86 with 32 bits and the seed 0. Source: Appleby's ``MurmurHash3.cpp``."""
    found = 0
    whole = len(key) & ~3
    for position in range(0, whole, 4):
        found ^= _mixed(int.from_bytes(key[position : position + 4], "little"))
        found = ((found << 13 | found >> 19) * 5 + 0xE6546B64) & _MASK
    found ^= _mixed(int.from_bytes(key[whole:], "little")) ^ len(key)
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    return found ^ found >> 16


def _mixed(word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    return word * 0x1B873593 & _MASK


def _compiled_murmur3() -> Callable[[bytes], int]:
    import mmh3

    return lambda key: mmh3.hash(key, signed=False)


def murmur3() -> Callable[[bytes], int]:
    """MurmurHash3; the library is imported now, since few producers need it."""
    try:
        return _compiled_murmur3()
    except ImportError:
        return murmur3_in_python
