"""Values to measure with."""

from __future__ import annotations

import zlib
from random import Random

import pytest

from aioproducer.cli.performance_run import FilePayloads, Numbers, RandomPayloads


@pytest.mark.parametrize("size", [1, 7, 100, 10_000, 5_000_000])
def test_random_values_have_their_size_and_capital_letters(size: int) -> None:
    payloads = RandomPayloads(size, Random(0))
    values = [value for _ in range(3) for value in payloads.take(max(1, 65536 // size))]
    assert {len(value) for value in values} == {size}
    assert set(b"".join(values)) <= set(range(65, 91))


def test_random_values_go_on_beyond_the_pool() -> None:
    payloads = RandomPayloads(1000, Random(0))
    values = [value for _ in range(20) for value in payloads.take(500)]
    assert {len(value) for value in values} == {1000}
    assert len(set(values)) == len(values), "the next turn begins at another place"


def test_a_batch_of_random_values_is_as_hard_to_compress_as_random_letters() -> None:
    together = b"".join(RandomPayloads(100, Random(0)).take(10_000))
    assert len(zlib.compress(together)) > 0.55 * len(together)


def test_values_of_a_file_are_chosen_at_random() -> None:
    payloads = FilePayloads([b"a", b"bcd"], Random(0))
    assert payloads.mean_size == 2
    assert set(payloads.take(100)) == {b"a", b"bcd"}


def test_numbers_go_on() -> None:
    payloads = Numbers()
    assert payloads.take(3) + payloads.take(2) == [b"0", b"1", b"2", b"3", b"4"]
