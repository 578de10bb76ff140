"""The parts of `aioproducer perf`: the rate, the values, the figures and their table."""

from __future__ import annotations

import io
import zlib
from random import Random

import pytest
from rich.console import Console

from aioproducer.cli.performance_run import (
    FilePayloads,
    Measurement,
    Numbers,
    RandomPayloads,
    RateSchedule,
    Summary,
    performance_table,
)


def test_without_a_rate_everything_is_due() -> None:
    schedule = RateSchedule(None, 100.0)
    assert schedule.due(0, 100.0, 500) == 500
    assert schedule.pause(10_000, 100.0) == 0


def test_the_first_record_is_due_at_once() -> None:
    assert RateSchedule(0.5, 100.0).due(0, 100.0, 500) == 1
    assert RateSchedule(0.5, 100.0).due(1, 100.0, 500) == 0


def test_the_next_record_names_its_time() -> None:
    schedule = RateSchedule(10, 100.0)
    assert schedule.pause(1, 100.0) == pytest.approx(0.1)
    assert schedule.due(1, 100.1001, 500) == 1


def test_late_records_are_caught_up_with_in_parts() -> None:
    schedule = RateSchedule(1000, 100.0)
    assert schedule.due(0, 102.0, 500) == 500
    assert schedule.due(1900, 102.0, 500) == 101


@pytest.mark.parametrize("rate", [1, 3, 999, 50_000, 1_000_000])
def test_the_rate_is_kept(rate: int) -> None:
    schedule = RateSchedule(rate, 0.0)
    now, sent = 0.0, 0
    while now < 10:
        count = schedule.due(sent, now, 500)
        sent += count
        now += 0.0 if count else schedule.pause(sent, now)
    assert sent == pytest.approx(rate * 10, rel=0.001, abs=1)


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


LATENCIES = ("avg", "p50", "p95", "p99", "p99.9", "max")


def test_every_column_has_its_unit_and_fits_a_terminal() -> None:
    summary = Summary(1_234_567, 60 << 20, 10.0, dict.fromkeys(LATENCIES, 123.4))
    console = Console(file=io.StringIO(), width=80)
    console.print(performance_table({"now": summary, "so far": summary}))
    written = console.file
    assert isinstance(written, io.StringIO)
    names, units, _, now, _ = written.getvalue().strip("\n ").split("\n")[:5]
    assert names.split() == list(LATENCIES)
    assert units.split() == ["records", "records/s", "MiB/s", *["ms"] * len(LATENCIES)]
    assert now.split() == ["now", "1,234,567", "123,457", "6.0", *["123.4"] * len(LATENCIES)]
