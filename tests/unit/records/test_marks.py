"""The times of sends in a batch, in Python and in C."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.records import builder as reference
from aioproducer.engine.records.builder import MARK_GRANULE_NS, RecordsBuilder, sent_times

pytestmark = pytest.mark.any_form

speedups = pytest.importorskip(
    "aioproducer.engine.records._speedups",
    reason="installed without a compiler",
    exc_type=ImportError,
)
FORMS: Final = [reference.RecordsBuilder, speedups.RecordsBuilder]
START: Final = 1_700_000_000_000_000_000


def marked(make: Any, times: list[int], *, fits: int = 1_000) -> RecordsBuilder:
    builder: RecordsBuilder = make(bytearray(100_000), 100_000)
    for number, sent_ns in enumerate(times):
        if number == fits:
            builder.close()
        builder.append(None, 1, None, b"v", (), sent_ns)
    return builder


@given(st.lists(st.integers(-200_000, 200_000).map(lambda offset: START + offset), max_size=40))
def test_a_record_counts_with_its_time_but_for_a_granule(times: list[int]) -> None:
    one, other = (marked(make, times) for make in FORMS)
    assert one.marks == other.marks
    told = sent_times(one.marks, one.count)
    assert all(0 <= sent - mark < MARK_GRANULE_NS for sent, mark in zip(times, told, strict=True))


@pytest.mark.parametrize("make", FORMS)
def test_records_sent_together_have_one_mark(make: Any) -> None:
    builder = marked(make, [START, START + 1, START + MARK_GRANULE_NS - 1, START + MARK_GRANULE_NS])
    assert builder.marks == [(0, START), (3, START + MARK_GRANULE_NS)]


@pytest.mark.parametrize("make", FORMS)
def test_a_record_that_does_not_fit_counts_nowhere(make: Any) -> None:
    later = START + 10 * MARK_GRANULE_NS
    builder = marked(make, [START, later, later], fits=1)
    assert builder.count == 1
    assert sent_times(builder.marks, builder.count) == [START]
