"""The partition of a record, and the hashes of keys, which are those of the libraries."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, get_args

import mmh3
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import binary
from murmurhash2 import murmurhash2

from aioproducer.config.kinds import NamedPartitioner
from aioproducer.engine import partitioning
from aioproducer.engine.accumulator.topic import next_sticky_partition
from aioproducer.engine.partitioning import (
    NAMED_PARTITIONERS,
    ConsistentPartitioner,
    ConsistentRandomPartitioner,
    Fnv1aPartitioner,
    Murmur3Partitioner,
    Partitioner,
    Partitions,
    RandomPartitioner,
    RoundRobinPartitioner,
    murmur2_partition,
    route,
)
from aioproducer.engine.records import acceleration


class Dice(Random):
    """Gives the numbers that the test wants; ``random()`` gives them too."""

    def __init__(self, *numbers: float) -> None:
        super().__init__(0)
        self.numbers = list(numbers)
        self.ranges: list[int] = []

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.ranges.append(start)
        return int(self.numbers.pop(0))

    def random(self) -> float:
        return self.numbers.pop(0)


def partitions(count: int, available: Sequence[int] | None = None) -> Partitions:
    return Partitions(count, range(count) if available is None else available)


def java_murmur2(data: bytes) -> int:
    """Kafka's ``Utils.murmur2``, statement by statement; a signed 32-bit integer."""
    mask = 0xFFFFFFFF
    m, h = 0x5BD1E995, 0x9747B28C ^ len(data)
    for start in range(0, len(data) & ~3, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[len(data) & ~3 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - 2**32 if h & 0x80000000 else h


# Kafka's UtilsTest.testMurmur2
MURMUR2 = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "hashed"), MURMUR2)
@pytest.mark.parametrize("count", [1, 2, 3, 12, 1000, 2**31 - 1])
def test_a_key_goes_where_the_java_client_sends_it(key: bytes, hashed: int, count: int) -> None:
    assert java_murmur2(key) == hashed
    assert murmur2_partition(key, count) == (hashed & 0x7FFFFFFF) % count


@given(st.binary(max_size=200), st.integers(1, 10_000))
def test_any_key_goes_where_the_java_client_sends_it(key: bytes, count: int) -> None:
    assert murmur2_partition(key, count) == (java_murmur2(key) & 0x7FFFFFFF) % count


# Reference values of MurmurHash3_x86_32 with seed 0
@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"", 0),
        (b"hello", 0x248BFA47),
        (b"hello, world", 0x149BBB7F),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
        (b"\xff\xff\xff\xff", 0x76293B50),
        (b"\x21\x43\x65\x87", 0xF55B516B),
    ],
)
@pytest.mark.parametrize("count", [1, 7, 12, 2**31 - 1])
def test_murmur3_of_keys(key: bytes, hashed: int, count: int) -> None:
    chosen = Murmur3Partitioner().partition("t", key, b"v", partitions(count, available=[]))
    assert chosen == (hashed & 0x7FFFFFFF) % count


def test_murmur3_sends_keyless_records_round_robin() -> None:
    partitioner = Murmur3Partitioner(Dice(1))
    chosen = [partitioner.partition("t", None, b"v", partitions(3)) for _ in range(4)]
    assert chosen == [1, 2, 0, 1]


# The check values of CRC-32 as librdkafka computes it, some of them over 2**31
@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"123456789", 0xCBF43926),
        (b"a", 0xE8B7BE43),
        (b"The quick brown fox jumps over the lazy dog", 0x414FA339),
        (b"\0", 0xD202EF8D),
    ],
)
@pytest.mark.parametrize("count", [1, 7, 12, 2**31 - 1])
def test_crc32_of_keys_is_unsigned(key: bytes, hashed: int, count: int) -> None:
    partitioner = ConsistentRandomPartitioner()
    assert partitioner.partition("t", key, b"v", partitions(count, available=[])) == hashed % count


@pytest.mark.parametrize("key", [None, b""])
def test_consistent_random_has_no_place_for_an_empty_key(key: bytes | None) -> None:
    partitioner = ConsistentRandomPartitioner(Random(5))
    among, full = partitions(6, available=[1, 3, 5]), bytes(16_000)
    assert {partitioner.partition("t", key, full, among) for _ in range(100)} == {1, 3, 5}
    nobody = partitions(3, available=[])
    assert {partitioner.partition("t", key, full, nobody) for _ in range(100)} == {0, 1, 2}


def test_keyless_records_stay_for_the_bytes_of_a_batch() -> None:
    partitioner = ConsistentRandomPartitioner(Random(5))
    among = partitions(100)
    chosen = [partitioner.partition("t", None, bytes(80), among) for _ in range(480)]
    assert [len(set(chosen[start : start + 160])) for start in (0, 160, 320)] == [1, 1, 1]
    assert len(set(chosen)) == 3
    here = partitioner.partition("t", None, None, among)
    elsewhere = [each for each in range(100) if each != here]
    assert partitioner.partition("t", None, None, partitions(100, elsewhere)) != here
    assert partitioner.partition("t", None, None, partitions(1)) == 0


def test_consistent_has_one_place_for_an_empty_key() -> None:
    partitioner = ConsistentPartitioner(Random(5))
    among, full = partitions(6), bytes(16_000)
    assert {partitioner.partition("t", b"", full, among) for _ in range(20)} == {0}
    assert len({partitioner.partition("t", None, full, among) for _ in range(100)}) == 6
    assert partitioner.partition("t", b"123456789", full, among) == 0xCBF43926 % 6


# librdkafka's unittest_fnv1a(), whose numbers are Sarama's
@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"kafka", 0xD33C4E1),
        (b"giberish123456789", 0x77A58295),
        (b"1234", 0x23BDD03),
        (b"PreAmbleWillBeRemoved,ThePrePartThatIs", 0x65CBD69C),
        (b"", 0x7EE3623B),
    ],
)
def test_fnv1a_of_keys(key: bytes, hashed: int) -> None:
    assert Fnv1aPartitioner().partition("t", key, None, partitions(2**31 - 1)) == hashed


def test_the_places_of_keyless_records_of_other_partitioners() -> None:
    among, full = partitions(6, available=[1, 3, 5]), bytes(16_000)
    fnv1a, anywhere = Fnv1aPartitioner(Random(5)), RandomPartitioner(Random(5))
    assert {fnv1a.partition("t", None, full, among) for _ in range(100)} == {1, 3, 5}
    assert {anywhere.partition("t", b"k", None, among) for _ in range(100)} == {1, 3, 5}


def test_every_name_of_the_configuration_has_its_partitioner() -> None:
    assert set(NAMED_PARTITIONERS) == set(get_args(NamedPartitioner))
    for make in NAMED_PARTITIONERS.values():
        assert isinstance(make(Random(5)), Partitioner)


def test_round_robin_starts_anywhere_and_ignores_keys() -> None:
    dice = Dice(2)
    partitioner = RoundRobinPartitioner(dice)
    keys = [b"a", None, b"a", b"b", None]
    chosen = [partitioner.partition("t", key, b"v", partitions(4)) for key in keys]
    assert chosen == [2, 3, 0, 1, 2]
    assert dice.ranges == [4]


def test_round_robin_visits_the_available_partitions_only() -> None:
    partitioner = RoundRobinPartitioner(Dice(4))
    chosen = [
        partitioner.partition("t", None, b"v", partitions(6, available=[1, 3, 5])) for _ in range(6)
    ]
    assert chosen == [3, 5, 1, 3, 5, 1]


def test_round_robin_goes_on_when_partitions_come_and_go() -> None:
    partitioner = RoundRobinPartitioner(Dice(0))
    seen = [
        partitioner.partition("t", None, b"v", now)
        for now in (
            partitions(3),
            partitions(3, available=[2]),
            partitions(3, available=[]),
            partitions(5),
            partitions(5),
        )
    ]
    assert seen == [0, 2, 2, 3, 4]


def test_round_robin_counts_each_topic_apart() -> None:
    partitioner = RoundRobinPartitioner(Dice(0, 1))
    chosen = [partitioner.partition(topic, None, None, partitions(2)) for topic in "aabab"]
    assert chosen == [0, 1, 1, 0, 0]


def test_all_are_partitioners() -> None:
    assert isinstance(ConsistentRandomPartitioner(), Partitioner)
    assert isinstance(RoundRobinPartitioner(), Partitioner)
    assert isinstance(Murmur3Partitioner(), Partitioner)


# KIP-794's example: queues of 0, 3 and 1 batches have the weights 4, 1 and 3 of 8.
@pytest.mark.parametrize(
    ("eighth", "partition"),
    [(0, 10), (1, 10), (2, 10), (3, 10), (4, 11), (5, 12), (6, 12), (7, 12)],
)
def test_the_longer_the_queue_the_rarer_the_partition(eighth: int, partition: int) -> None:
    for within in (0.0, 0.0625, 0.124):
        dice = Dice(eighth / 8 + within)
        assert next_sticky_partition(dice, [10, 11, 12], [0, 3, 1]) == partition


@pytest.mark.parametrize("sizes", [None, [0, 0, 0], [7, 7, 7]])
def test_equal_queues_are_equally_probable(sizes: list[int] | None) -> None:
    dice = Dice(0, 1, 2)
    assert [next_sticky_partition(dice, [4, 8, 6], sizes) for _ in range(3)] == [4, 8, 6]
    assert dice.ranges == [3, 3, 3]


@given(st.lists(st.integers(0, 20), min_size=2, max_size=8).filter(lambda s: len(set(s)) > 1))
def test_weights_are_exact(sizes: list[int]) -> None:
    weights = [max(sizes) + 1 - size for size in sizes]
    total = sum(weights)
    chosen = Counter(
        next_sticky_partition(Dice((turn + 0.5) / total), range(len(sizes)), sizes)
        for turn in range(total)
    )
    assert [chosen[partition] for partition in range(len(sizes))] == weights


def test_a_single_partition_is_always_chosen() -> None:
    assert next_sticky_partition(Random(0), [5], [9]) == 5
    assert next_sticky_partition(Random(0), [5]) == 5


@pytest.mark.parametrize("partitioner", [RoundRobinPartitioner, ConsistentRandomPartitioner])
def test_forked_processes_choose_differently(partitioner: Any, monkeypatch: Any) -> None:
    """A configuration that was made before the fork has no generator, whose copies would agree."""
    made: list[Random] = []

    def generator() -> Random:
        made.append(Random())
        return made[0]

    monkeypatch.setattr("aioproducer.engine.partitioning.Random", generator)
    before_the_fork = partitioner()
    assert not made
    before_the_fork.partition("orders", None, b"v", Partitions(3, (0, 1, 2)))
    assert made


@given(
    key=st.none() | st.binary(max_size=40),
    partition=st.none() | st.integers(-2, 12) | st.just(1 << 70),
    count=st.integers(0, 10),
    ignore_keys=st.booleans(),
)
def test_the_compiled_route_is_the_same(
    key: bytes | None, partition: int | None, count: int, ignore_keys: bool
) -> None:
    chosen = acceleration.route(key, partition, count, ignore_keys=ignore_keys)
    assert chosen == route(key, partition, count, ignore_keys=ignore_keys)


def test_partitions_can_be_counted_and_iterated() -> None:
    partitions = Partitions(3, (0, 2))
    assert len(partitions) == 3
    assert list(partitions) == [0, 1, 2]


def test_partitions_are_chosen_from_as_from_a_list() -> None:
    partitions = Partitions(3, (0, 2))
    assert (partitions[0], partitions[7 % len(partitions)], partitions[-1]) == (0, 1, 2)
    with pytest.raises(IndexError):
        partitions[3]
    assert Random(1).choice(partitions) in partitions
    assert list(reversed(partitions)) == [2, 1, 0]


@given(binary(max_size=100))
@example(b"")
@example(b"\xff" * 7)
def test_murmur2_is_that_of_the_library(key: bytes) -> None:
    expected = murmurhash2(key, partitioning.KAFKAS_SEED) & 0xFFFFFFFF
    assert partitioning.murmur2(key) == expected


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    """The numbers are those of Kafka's ``UtilsTest.testMurmur2``."""
    assert partitioning.murmur2(key) == hashed & 0xFFFFFFFF


@given(binary(max_size=100))
@example(b"")
@example(b"\xff" * 7)
def test_murmur3_is_that_of_the_library(key: bytes) -> None:
    expected = mmh3.hash(key, signed=False)
    assert partitioning.murmur3_in_python(key) == expected
    assert partitioning.murmur3()(key) == expected


def test_a_partitioner_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = Partitions(1_000, range(1_000))
    keys = [b"customer-%d" % number for number in range(100)]

    def chosen() -> list[int]:
        partition = Murmur3Partitioner(Random(1)).partition
        return [partition("orders", key, None, partitions) for key in keys]

    expected = chosen()
    monkeypatch.setitem(sys.modules, "mmh3", None)
    assert chosen() == expected
