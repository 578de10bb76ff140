"""Figures of a run: since the last report, since the warm-up, and in all."""

from __future__ import annotations

from aioproducer.cli.performance_run import Measurement


def test_recent_figures_begin_anew_and_the_total_has_all() -> None:
    measured = Measurement(100.0)
    measured.acknowledged(0.010, 10, 1000, steady=False)
    first = measured.recent(102.0)
    assert (first.records, first.bytes, first.seconds, first.rate) == (10, 1000, 2.0, 5.0)
    measured.acknowledged(0.030, 30, 3000, steady=False)
    second = measured.recent(103.0)
    assert (second.records, second.bytes, second.seconds) == (30, 3000, 1.0)
    measured.acknowledged(0.030, 60, 6000, steady=False)
    total = measured.total(104.0)
    assert (total.records, total.bytes, total.seconds, total.rate) == (100, 10_000, 4.0, 25.0)
    assert round(total.latency_ms["avg"]) == 28
    assert measured.steady_state(104.0) is None


def test_the_steady_state_leaves_out_the_warm_up() -> None:
    measured = Measurement(100.0)
    measured.acknowledged(9.0, 10, 1000, steady=False)
    measured.end_warm_up(110.0)
    measured.acknowledged(9.0, 10, 1000, steady=False)
    measured.acknowledged(0.5, 4, 400, steady=True)
    steady = measured.steady_state(112.0)
    assert steady is not None
    assert (steady.records, steady.bytes, steady.seconds) == (4, 400, 2.0)
    assert steady.latency_ms["max"] == 500
    assert measured.total(112.0).records == 24


def test_the_words_of_kafkas_tool() -> None:
    measured = Measurement(0.0)
    measured.acknowledged(0.002, 1000, 1 << 20, steady=False)
    total = measured.total(2.0)
    assert total.line(percentiles=False) == (
        "1000 records sent, 500.0 records/sec (0.50 MB/sec), "
        "2.00 ms avg latency, 2.00 ms max latency."
    )
    assert total.line(percentiles=True).endswith(
        " max latency, 2.00 ms 50th, 2.00 ms 95th, 2.00 ms 99th, 2.00 ms 99.9th."
    )


def test_the_fields_of_json() -> None:
    measured = Measurement(0.0)
    measured.acknowledged(0.002, 1000, 1 << 20, steady=False)
    assert measured.total(2.0).fields() == {
        "records": 1000,
        "bytes": 1 << 20,
        "seconds": 2.0,
        "records_per_second": 500.0,
        "mebibytes_per_second": 0.5,
        "latency_ms": {"avg": 2.0, "max": 2.0, "p50": 2.0, "p95": 2.0, "p99": 2.0, "p99.9": 2.0},
    }


def test_nothing_was_acknowledged() -> None:
    total = Measurement(5.0).total(5.0)
    assert (total.records, total.rate, total.latency_ms["p99"]) == (0, 0.0, 0.0)
