"""RefreshRules: Kafka's rules, and what must hold for every lifetime."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.oauthbearer import RefreshRules
from tests.support.chance import NoJitter
from tests.unit.auth.tokens_for_tests import NOW

FACTOR = 0.8 + 0.05 * 0.5


@pytest.mark.parametrize(
    ("lifetime", "after"),
    [
        (3600, 3600 * FACTOR),
        (900, 600),  # 0.825 is 742.5, too near to the end: 300 seconds before it
        (400, 100),
        (361, 61),
        (359, 359 * FACTOR),  # shorter than 60 + 300: both are left out
        (10, 10 * FACTOR),
        (0, 0),
        (-5, 0),
    ],
)
def test_kafkas_rules(lifetime: float, after: float) -> None:
    found = RefreshRules().refresh_at(NOW, NOW + lifetime, NoJitter())
    assert found == pytest.approx(NOW + after, abs=1e-3)


def test_the_shortest_period_between_two_fetches() -> None:
    rules = RefreshRules(window_factor=0.5, window_jitter=0, min_period=900, buffer=0)
    assert rules.refresh_at(NOW, NOW + 1000, NoJitter()) == NOW + 900


@given(
    st.floats(0, 1e8),
    st.floats(0.5, 1.0),
    st.floats(0, 0.25),
    st.floats(0, 900),
    st.floats(0, 3600),
    st.integers(),
)
def test_never_before_now_and_about_never_after_the_end(
    lifetime: float, factor: float, jitter: float, least: float, buffer: float, seed: int
) -> None:
    rules = RefreshRules(factor, jitter, least, buffer)
    found = rules.refresh_at(NOW, NOW + lifetime, Random(seed))
    assert NOW <= found <= NOW + lifetime * max(1.0, factor + jitter) + 1e-3
