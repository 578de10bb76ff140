"""The choice of a record's partition as librdkafka makes it, and confluent-kafka's hash functions.

A record without a choice here goes where the producer's own rule sends it: a keyless one to the
sticky partition, a keyed one by murmur2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final, TypeAlias
from zlib import crc32

from aioproducer.engine.partitioning import Fnv1aPartitioner, Partitions, murmur2_partition

__all__ = [
    "CHOICES",
    "LATER",
    "UNASSIGNED",
    "Choice",
    "consistent",
    "consistent_random",
    "fnv1a",
    "murmur2",
]

Choice: TypeAlias = Callable[[bytes | None, int], int | None]
"""``(key, count of partitions) -> partition``; None: the producer's own rule. A choice of a key is
independent of the count being known: with 0 partitions it returns None or :data:`LATER`."""

LATER: Final = -1
"""In place of a partition: it is chosen once the topic is known."""
UNASSIGNED: Final = -1
"""In place of a partition: the caller names none."""

_FNV1A: Final = Fnv1aPartitioner()


def consistent_random(key: bytes | None, count: int) -> int | None:
    """librdkafka's default: by the key's CRC-32; without a key, or with an empty one, any."""
    if not key:
        return None
    return crc32(key) % count if count else LATER


def _consistent(key: bytes | None, count: int) -> int | None:
    if key is None:
        return None
    return crc32(key) % count if key and count else (0 if not key else LATER)


def _murmur2_random(key: bytes | None, count: int) -> int | None:
    return None


def _fnv1a_random(key: bytes | None, count: int) -> int | None:
    if key is None:
        return None
    return _fnv1a(key, count) if count else LATER


def _fnv1a(key: bytes, count: int) -> int:
    return _FNV1A.partition("", key, None, Partitions(count, ()))


def _random() -> Choice:
    random: list[Random] = []

    def choose(key: bytes | None, count: int) -> int | None:
        if not random:  # made late, so that forked processes differ
            random.append(Random())
        return random[0].randrange(count) if count else LATER

    return choose


CHOICES: Final[Mapping[str, Choice]] = {
    "consistent": _consistent,
    "consistent_random": consistent_random,
    "fnv1a": _fnv1a_random,
    "fnv1a_random": _fnv1a_random,
    "murmur2": _murmur2_random,
    "murmur2_random": _murmur2_random,
    "random": _random(),
}
"""The rules of librdkafka's partitioners, by their names."""


def murmur2(key: bytes, partition_count: int) -> int:
    """The partition of ``key`` by librdkafka's ``murmur2``.

    Raises:
        ValueError: there are no partitions.
        TypeError: an argument is of a wrong type. Both apply to all three functions.
    """
    _check(key, partition_count)
    return murmur2_partition(key, partition_count)


def consistent(key: bytes, partition_count: int) -> int:
    """The partition of ``key`` by librdkafka's ``consistent``: its CRC-32."""
    _check(key, partition_count)
    return crc32(key) % partition_count


def fnv1a(key: bytes, partition_count: int) -> int:
    """The partition of ``key`` by librdkafka's ``fnv1a``."""
    _check(key, partition_count)
    return _fnv1a(key, partition_count)


def _check(key: bytes, count: int) -> None:
    if not isinstance(key, bytes) or not isinstance(count, int):
        raise TypeError("expected a key of bytes, and the number of partitions")
    if count <= 0:
        raise ValueError("partition_count must be > 0")
