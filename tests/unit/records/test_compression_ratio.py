from __future__ import annotations

import pytest

from aioproducer.engine.records.compression import CompressionRatios

MARGIN = 1.05


def estimate(ratios: CompressionRatios, topic: str = "t") -> float:
    return ratios.estimate(topic) / MARGIN


def after(*observed: float) -> CompressionRatios:
    ratios = CompressionRatios()
    for ratio in observed:
        ratios.observe("t", ratio)
    return ratios


# Kafka's CompressionRatioEstimatorTest: one step down at a time, up at once or by one large step.
@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        ((), 1.0),
        ((1.0,), 1.0),
        ((0.2,), 0.995),
        ((0.2, 0.2), 0.990),
        ((0.997,), 0.997),
        ((0.9975, 0.9975), 0.9975),
        ((1.01,), 1.05),
        ((1.3,), 1.3),
        ((0.2, 0.2, 0.991), 1.04),
        ((0.2,) * 100, 0.5),
        ((0.2,) * 100 + (0.8,), 0.8),
        ((0.2,) * 100 + (0.51,), 0.55),
        ((0.2,) * 1000, 0.2),
    ],
)
def test_better_slowly_worse_fast(observed: tuple[float, ...], expected: float) -> None:
    assert estimate(after(*observed)) == pytest.approx(expected)


def test_topics_are_apart() -> None:
    ratios = after(0.1, 0.1)
    ratios.observe("other", 1.5)
    assert estimate(ratios) == pytest.approx(0.99)
    assert estimate(ratios, "other") == pytest.approx(1.5)
    assert estimate(ratios, "third") == 1.0


@pytest.mark.parametrize(("ratio", "expected"), [(0.3, 1.0), (1.0, 1.0), (1.7, 1.7)])
def test_reset_never_goes_below_one(ratio: float, expected: float) -> None:
    ratios = after(*[0.1] * 50)
    ratios.reset("t", ratio)
    assert estimate(ratios) == pytest.approx(expected)


def test_a_forgotten_topic_begins_anew() -> None:
    ratios = after(*[0.1] * 50)
    ratios.observe("kept", 0.5)
    ratios.forget("t")
    ratios.forget("never seen")
    assert estimate(ratios) == 1.0
    assert estimate(ratios, "kept") == pytest.approx(0.995)
