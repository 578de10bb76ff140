"""aioproducer.foundation.logs: how durations and counts are written."""

from __future__ import annotations

import pytest

from aioproducer.foundation.logs import counted, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000012, "0 s"),
        (0.05, "0.05 s"),
        (0.25, "0.25 s"),
        (1, "1 s"),
        (1.99999, "2 s"),
        (1.2345, "1.23 s"),
        (29.97, "30 s"),
        (30.0, "30 s"),
        (99.99, "100 s"),
        (120.4, "120 s"),
        (1234.5678, "1235 s"),
        (1e9, "1000000000 s"),
        (-0.5, "-0.5 s"),
        (float("inf"), "inf s"),
    ],
)
def test_a_duration_has_three_digits_or_whole_seconds(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "record", "0 records"),
        (1, "record", "1 record"),
        (2, "pending record", "2 pending records"),
        (1, "batch", "1 batch"),
        (3, "batch", "3 batches"),
        (12345, "byte", "12345 bytes"),
    ],
)
def test_one_is_singular(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


def test_a_large_number_may_have_separators() -> None:
    assert counted(12345, "record", ",") == "12,345 records"
    assert counted(1, "record", ",") == "1 record"
