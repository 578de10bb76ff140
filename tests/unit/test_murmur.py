"""The hashes of keys in Python are those of the libraries."""

from __future__ import annotations

import sys
from random import Random

import mmh3
import pytest
from hypothesis import example, given
from hypothesis.strategies import binary
from murmurhash2 import murmurhash2

from aioproducer import Murmur3Partitioner, Partitions
from aioproducer.engine import partitioning


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
