"""The choice of a record's partition, unless its caller names one; and the hashes of keys.

Without a user's partitioner, a keyed record goes to the partition of its key's murmur2 hash, as in
every Java client. A keyless record goes to the topic's sticky partition (KIP-480, KIP-794).
:class:`StickyChoice` (``accumulator/topic.py``) chooses it, and decides when the next one is
chosen. Only this choice avoids leaders that take no batches.

:meth:`Topic.ask` (in the same file) asks a user's partitioner at the ``send()`` of a record, once
the topic of the record becomes known, or again for a record that is in no batch yet when its
partition is gone.

``records/_speedups.pyx`` has the compiled form of murmur2, and ``mmh3`` that of murmur3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from zlib import crc32

from aioproducer.foundation import tuning
from aioproducer.model import Value

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


_POSITIVE: Final = 0x7FFFFFFF

_RECORD_BYTES: Final = 20
"""About the bytes of a record in addition to its value."""

STICKY: Final = -1
"""In place of a partition's number: the topic's sticky partition."""
UNKNOWN: Final = -2
"""In place of a partition's number: a partition that is not in the metadata."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Partitions(Value):
    """The partitions of a topic, for a partitioner: a sequence of their numbers."""

    count: int
    """The topic has the partitions 0 to ``count - 1``."""
    available: Sequence[int]
    """The partitions that currently have a leader."""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))

    def __getitem__(self, index: int) -> int:
        return range(self.count)[index]


PartitionFunction: TypeAlias = Callable[[str, bytes | None, bytes | None, Partitions], int]
"""``(topic, key, value, partitions) -> partition``; key and value are already serialized."""


@runtime_checkable
class Partitioner(Protocol):
    """An object that chooses partitions. A plain :data:`PartitionFunction` also works."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        """Return the partition for a record, from 0 to ``partitions.count - 1``."""


def murmur2_partition(key: bytes, count: int) -> int:
    """The partition of ``key`` among ``count``: the Java client's ``partitionForKey``.

    :func:`route` has the same formula, so that a record costs no further call.
    """
    return (murmur2(key) & _POSITIVE) % count


def route(key: bytes | None, partition: int | None, count: int, *, ignore_keys: bool) -> int:
    """The partition of a record whose topic has ``count`` partitions, :data:`STICKY` or
    :data:`UNKNOWN`: the named partition, else the key's, else the sticky one.

    All sends use this rule. ``records/_speedups.pyx`` has its compiled form.
    """
    if partition is not None:
        return partition if 0 <= partition < count else UNKNOWN
    if key is None or ignore_keys:
        return STICKY
    return (murmur2(key) & _POSITIVE) % count if count else UNKNOWN


class RoundRobinPartitioner:
    """Sends every record to the topic's next available partition and ignores its key.

    Starts at a random partition. Source: Kafka's ``RoundRobinPartitioner``.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._random = random
        self._next: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        """The next partition in turn."""
        turn = self._next.get(topic)
        if turn is None:
            if self._random is None:  # made late, so that forked processes differ
                self._random = Random()
            turn = self._random.randrange(partitions.count)
        self._next[topic] = turn + 1
        if partitions.available:
            return partitions.available[turn % len(partitions.available)]
        return turn % partitions.count


class Murmur3Partitioner:
    """Chooses by the key's murmur3 (32 bits, seed 0); keyless records go round robin.

    The partitions differ from the Java client's. Use this together with programs that use the same
    hash.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._hash = murmur3()
        self._keyless = RoundRobinPartitioner(random)

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        """The partition of the key's hash."""
        if key is None:
            return self._keyless.partition(topic, key, value, partitions)
        return (self._hash(key) & _POSITIVE) % partitions.count


class RandomPartitioner:
    """Sends every record to a random available partition and ignores its key. Source: librdkafka's
    ``random``.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._random = random

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        """A random partition."""
        if self._random is None:  # made late, so that forked processes differ
            self._random = Random()
        return self._random.choice(partitions.available or range(partitions.count))


class _StickyPartitions:
    """The partition of each topic's keyless records: a random available one, for the bytes of a
    batch. librdkafka keeps it for a time (``sticky.partitioning.linger.ms``).
    """

    def __init__(self, random: Random | None) -> None:
        self._choice = RandomPartitioner(random)
        self._current: dict[str, tuple[int, int]] = {}

    def partition(self, topic: str, value: bytes | None, partitions: Partitions) -> int:
        chosen, left = self._current.get(topic, (0, 0))
        if left <= 0 or chosen not in partitions.available:
            chosen, left = (
                self._choice.partition(topic, None, value, partitions),
                tuning.STICKY_BYTES,
            )
        self._current[topic] = chosen, left - _RECORD_BYTES - len(value or b"")
        return chosen


class ConsistentRandomPartitioner:
    """Chooses by the key's CRC-32. Records without a key, or with an empty one, stay in a random
    available partition until a batch is full.

    This is the default of librdkafka, on which clients for Python, Go, .NET and C++ are built. If
    you migrate from one of them, every key stays in its partition. Source: librdkafka's
    ``consistent_random``.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._keyless = _StickyPartitions(random)

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        """The partition of the key's checksum, which is unsigned."""
        if key:
            return crc32(key) % partitions.count
        return self._keyless.partition(topic, value, partitions)


class ConsistentPartitioner(ConsistentRandomPartitioner):
    """Differs from its base class in one case: an empty key belongs to partition 0. Source:
    librdkafka's ``consistent``, which does not get records without a key either.
    """

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        """The partition of the key's checksum."""
        return 0 if key == b"" else super().partition(topic, key, value, partitions)


class Fnv1aPartitioner:
    """Chooses by the key's FNV-1a hash, like Sarama's default. Records without a key are handled as
    above.

    Source: librdkafka's ``fnv1a`` and ``fnv1a_random``.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._keyless = _StickyPartitions(random)

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        """The partition of the absolute value of the hash, which is signed."""
        if key is None:
            return self._keyless.partition(topic, value, partitions)
        hashed = 0x811C9DC5
        for byte in key:
            hashed = (hashed ^ byte) * 0x01000193 & 0xFFFFFFFF
        return min(hashed, 2**32 - hashed) % partitions.count


NAMED_PARTITIONERS: Final[Mapping[str, Callable[[Random], Partitioner]]] = {
    "round_robin": RoundRobinPartitioner,
    "murmur3": Murmur3Partitioner,
    "consistent_random": ConsistentRandomPartitioner,
    "consistent": ConsistentPartitioner,
    "fnv1a": Fnv1aPartitioner,
    "random": RandomPartitioner,
}
"""The partitioners by their names in the configuration."""


def partition_function(partitioner: Any, random: Random) -> PartitionFunction | None:
    """The function of ``partitioner``: a name, an object, or the function itself; None for None."""
    if partitioner is None:
        return None
    if isinstance(partitioner, str):
        return NAMED_PARTITIONERS[partitioner](random).partition
    function: PartitionFunction = getattr(partitioner, "partition", partitioner)
    return function
