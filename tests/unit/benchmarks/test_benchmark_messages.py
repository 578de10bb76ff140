"""The benchmark of messages compares two codecs that do the same."""

from __future__ import annotations

import pytest

from benchmarks import messages


@pytest.mark.parametrize("case", [*messages.cases()], ids=lambda case: case.name)
def test_both_codecs_have_the_same_bytes(case: messages.Case) -> None:
    ours, theirs = messages.codecs(case).values()
    assert ours.encode() == theirs.encode()


def test_the_fastest_time_of_each_call_counts() -> None:
    short, long = messages.best([lambda: sum(range(100)), lambda: sum(range(100_000))], 2)
    assert 0 < short < long


def test_a_large_response_is_read_in_pieces() -> None:
    total, longest = messages.in_steps()
    assert 0 < longest < total
