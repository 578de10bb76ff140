from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.foundation.backoff import ExponentialBackoff, Pace


class Fixed(Random):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


LOWEST, MIDDLE, HIGHEST = Fixed(0.0), Fixed(0.5), Fixed(1.0 - 2**-53)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (6, 1.0), (63, 1.0), (10**9, 1.0)],
)
def test_it_doubles_up_to_the_maximum(failures: int, seconds: float) -> None:
    assert ExponentialBackoff(0.1, 1.0, MIDDLE).delay(failures) == pytest.approx(seconds)


@pytest.mark.parametrize("failures", [0, -1])
def test_no_wait_without_failure(failures: int) -> None:
    assert ExponentialBackoff(0.1, 1.0, HIGHEST).delay(failures) == 0.0


@pytest.mark.parametrize(
    ("random", "failures", "seconds"),
    [(LOWEST, 1, 0.08), (HIGHEST, 1, 0.12), (LOWEST, 5, 0.8), (HIGHEST, 5, 1.0)],
)
def test_jitter_is_a_fifth_and_never_exceeds_the_maximum(
    random: Random, failures: int, seconds: float
) -> None:
    assert ExponentialBackoff(0.1, 1.0, random).delay(failures) == pytest.approx(seconds)


def test_a_maximum_below_the_first_wait_is_the_first_wait() -> None:
    backoff = ExponentialBackoff(0.5, 0.1, MIDDLE)
    assert [backoff.delay(failures) for failures in (1, 2, 9)] == [0.5, 0.5, 0.5]


def test_zero_turns_it_off() -> None:
    assert ExponentialBackoff(0.0, 1.0, HIGHEST).delay(7) == 0.0


def test_what_is_ready_soon_is_asked_for_soon_and_no_later_than_anything_else() -> None:
    backoff = ExponentialBackoff(0.1, 1.0, MIDDLE)
    soon = [backoff.delay(failures, Pace.SOON) for failures in range(1, 40)]
    assert soon[:4] == pytest.approx([0.005, 0.0075, 0.01125, 0.016875])
    assert soon[-1] == backoff.delay(10**9, Pace.SOON) == 1.0

    assert all(wait <= backoff.delay(failures) for failures, wait in enumerate(soon, 1))
    assert ExponentialBackoff(0.001, 1.0, MIDDLE).delay(1, Pace.SOON) == 0.001


def test_a_retry_at_once_waits_for_nothing() -> None:
    assert ExponentialBackoff(0.1, 1.0, HIGHEST).delay(7, Pace.AT_ONCE) == 0.0


@given(st.floats(0.001, 10), st.floats(0.001, 100), st.integers(1, 100), st.integers(0, 2**32))
def test_bounds(initial: float, maximum: float, failures: int, seed: int) -> None:
    delay = ExponentialBackoff(initial, maximum, Random(seed)).delay(failures)
    limit = max(initial, maximum)
    exact = min(initial * 2 ** (failures - 1), limit)
    assert exact * 0.8 * (1 - 1e-9) <= delay <= min(exact * 1.2, limit) * (1 + 1e-9)


def test_two_clients_do_not_wait_the_same() -> None:
    delays = {ExponentialBackoff(1.0, 9.0, Random(seed)).delay(3) for seed in range(50)}
    assert len(delays) == 50
