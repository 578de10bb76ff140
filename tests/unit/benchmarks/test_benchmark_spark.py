"""The contenders, the numbers and the tables of `python -m benchmarks.spark`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.spark.cpu import Ledger, Seen, Used
from benchmarks.spark.plan import CONTENDERS, LOADS, MICRO_BATCHES
from benchmarks.spark.report import describe
from benchmarks.spark.run import Plan, why_void
from benchmarks.summary import Run, summarise

DRIVER, JVM, WORKER = 1, 2, 4
PROCESSES = {"driver": (DRIVER, 0), "jvm": (JVM, DRIVER), "daemon": (3, JVM)}
PROCESSES |= {"worker": (WORKER, 3), "broker": (5, DRIVER)}


def seen(**cpu_seconds: float) -> list[Seen]:
    return [Seen(*PROCESSES[name], 0.0, seconds) for name, seconds in cpu_seconds.items()]


def test_spark_is_the_driver_and_all_under_the_jvm() -> None:
    ledger = Ledger(DRIVER, JVM)
    ledger.enter(seen(driver=1, jvm=2, daemon=4, worker=8, broker=16))
    assert ledger.used() == Used(spark=15, brokers=16)


def test_who_has_ended_still_counts() -> None:
    ledger = Ledger(DRIVER, JVM)
    ledger.enter(seen(driver=1, jvm=2, daemon=4, worker=8, broker=16))
    before = ledger.used()
    ledger.enter(seen(driver=1, jvm=3, daemon=4, broker=17))
    assert ledger.used().since(before) == Used(spark=1, brokers=1)


def test_an_id_that_is_used_again_is_another_process() -> None:
    ledger = Ledger(DRIVER, JVM)
    ledger.enter([*seen(driver=1, jvm=2), Seen(WORKER, JVM, 0.0, 8)])
    ledger.enter([*seen(driver=1, jvm=2), Seen(WORKER, JVM, 9.0, 1)])
    assert ledger.used().spark == 12


@pytest.mark.parametrize(
    ("name", "in_log", "counts"),
    [
        *(("spark", 100, True), ("spark", 99, False), ("spark", 101, False)),
        *(("noop", 0, True), ("noop", 100, False)),
        *(("exactly_once", 106, True), ("exactly_once", 101, True)),
        *(("exactly_once", 100, False), ("exactly_once", 107, False)),
    ],
)
def test_a_run_counts_only_if_the_logs_have_its_rows(name: str, in_log: int, counts: bool) -> None:
    void = why_void(CONTENDERS[name], 100, in_log, markers=6)
    assert (void is None) == counts
    assert void is None or str(in_log) in void


def run(client: str, rate: float, number: int = 1) -> Run:
    numbers = {"records_per_second": rate, "cpu_us_per_record": 1e6 / rate}
    return Run(client, "values", number, 0.1, None, numbers)


@pytest.mark.parametrize(("batches", "counts"), [(1, False), (2, True)])
def test_each_micro_batch_has_markers(batches: int, counts: bool) -> None:
    void = why_void(CONTENDERS["exactly_once"], 100, 107, markers=6 * batches)
    assert (void is None) == counts


def test_only_some_write_streams() -> None:
    plan = Plan([MICRO_BATCHES], list(CONTENDERS.values()), 1)
    able = [each.name for each in plan.able(MICRO_BATCHES)]
    assert able == ["noop", "python_noop", "spark", "aioproducer", "exactly_once"]
    assert len(plan.able(LOADS["values"])) == len(CONTENDERS)


def test_micro_batches_are_compared_by_their_time() -> None:
    both = [
        replace(run(name, 100), numbers={**run(name, 100).numbers, "p50_ms": ms})
        for name, ms in (("spark", 100), ("exactly_once", 150))
    ]
    contenders = [CONTENDERS["spark"], CONTENDERS["exactly_once"]]
    [ratio] = describe(LOADS["values"], contenders, summarise(both), 5_000).ratios
    assert ratio.startswith("exactly_once / spark: ")
    assert ratio.endswith(", 1.50 x p50")


def test_each_is_compared_with_sparks_own_sink() -> None:
    names = ("spark", "aioproducer", "confluent")
    runs = [run("spark", 100), run("spark", 300, 2), run("aioproducer", 300)]
    runs.append(Run("confluent", "values", 1, 0.1, "it failed"))
    contenders = [CONTENDERS[name] for name in names]
    section = describe(LOADS["values"], contenders, summarise(runs), 5_000)
    assert section.ratios == (
        "aioproducer / spark: 1.50 x rows/s (best rounds 1.00), 0.50 x CPU (best 1.00)",
    )
    assert section.voids == ("VOID confluent, round 1: it failed",)
    assert [row[:2] for row in section.rows] == [
        ("spark", "200"),
        ("aioproducer", "300"),
        ("confluent", "-"),
    ]
    assert all(len(row) == len(section.headings) for row in section.rows)
