"""The loads, the numbers and the tables of `python -m benchmarks.transactions`."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.summary import Spread
from benchmarks.transactions.plan import CLIENTS, LOADS, Load
from benchmarks.transactions.report import describe
from benchmarks.transactions.summary import Run, summarise, why_void

SMALL, LARGE = LOADS["10-records"], LOADS["100000-records"]
BOTH = [CLIENTS["aioproducer"], CLIENTS["java"]]


def run(client: str, rate: float, number: int = 1, load: Load = SMALL) -> Run:
    return Run(client, load.name, 2, number, None, 0.1, rate, 3_000_000 / rate, 40.0, 90.0)


def test_a_run_counts_only_if_the_logs_have_exactly_what_was_sent() -> None:
    values = [b"a", b"b"]
    assert why_void(values, 3, Counter({b"a": 3, b"b": 3})) is None
    assert why_void(values, 3, Counter({b"a": 3, b"b": 1})) == "2 of 6 records are missing" + LOGS
    assert why_void(values, 3, Counter({b"a": 4, b"b": 3})) == "1 of 6 records too many" + LOGS
    assert why_void(values, 3, Counter({b"a": 3, b"c": 3})) == "3 of 6 records are missing" + LOGS


LOGS = " in the logs"


def test_runs_are_summed_up_by_protocol_load_and_client() -> None:
    void = Run("java", SMALL.name, 2, 2, "it failed")
    summaries = summarise(
        [run("aioproducer", 20), run("java", 10), run("aioproducer", 40, 2), void]
    )
    ours, java = summaries[2, SMALL.name]
    assert ours.transactions_per_second == Spread(30, 20, 40)
    assert (ours.counted, ours.voids) == (2, ())
    assert (java.counted, java.voids) == (1, ("round 2: it failed",))


@pytest.mark.parametrize(
    ("load", "unit", "rate", "cpu"),
    [(SMALL, "commit", "20.0", "150,000"), (LARGE, "record", "2,000,000", "1.50")],
)
def test_small_transactions_are_counted_and_the_records_of_large_ones(
    load: Load, unit: str, rate: str, cpu: str
) -> None:
    runs = [run("aioproducer", 20, load=load), run("java", 10, load=load)]
    section = describe(2, load, BOTH, summarise(runs)[2, load.name], 5)
    assert section.headings[1::2][:2] == (f"{unit}s/s", f"CPU-µs/{unit}")
    assert section.rows[0][1::2][:2] == (rate, cpu)
    assert all(len(row) == len(section.headings) for row in section.rows)
    assert section.ratios == (
        "aioproducer / java: 2.00 x rate, 0.50 x CPU, 1.00 x p50, 1.00 x p99",
    )


def test_without_a_run_that_counts_there_are_no_numbers_and_no_ratio() -> None:
    runs = [run("aioproducer", 20), Run("java", SMALL.name, 2, 1, "it failed")]
    section = describe(2, SMALL, BOTH, summarise(runs)[2, SMALL.name], 5)
    assert section.ratios == ()
    assert section.voids == ("VOID java, round 1: it failed",)
    assert section.rows[1][1:4] == ("-", "-", "-")
