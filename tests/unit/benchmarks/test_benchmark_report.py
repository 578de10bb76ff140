"""The numbers of many runs, and what the report says of them."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.clients import CLIENTS
from benchmarks.report import Section, describe
from benchmarks.summary import Run, Spread, percentile, ratios, spread, summarise, why_void
from benchmarks.workloads import WORKLOADS


def run(client: str, rate: float = 0.0, *, number: int = 1, void: str | None = None) -> Run:
    return Run(
        client,
        "bulk",
        number,
        others_cores=0.1,
        void=void,
        numbers={"records_per_second": rate, "cpu_us_per_record": 1e6 / rate} if rate else {},
    )


@pytest.mark.parametrize(
    ("count", "fraction", "expected"),
    [(1, 0.5, 1), (1, 0.99, 1), (2, 0.5, 1), (100, 0.5, 50), (100, 0.99, 99), (101, 0.99, 100)],
)
def test_percentile_is_the_nearest_rank(count: int, fraction: float, expected: int) -> None:
    assert percentile(range(1, count + 1), fraction) == expected


def test_spread_leaves_out_what_was_not_measured() -> None:
    assert spread([3.0, None, 1.0, 8.0]) == Spread(median=3.0, low=1.0, high=8.0)
    assert spread([None, None]) is None


def test_median_of_an_even_number_of_rounds_is_between() -> None:
    assert spread([1.0, 2.0, 4.0, 9.0]) == Spread(median=3.0, low=1.0, high=9.0)


def test_summaries_keep_clients_apart_and_in_their_order() -> None:
    runs = [run("b", 10), run("a", 100), run("b", 30, number=2), run("a", 300, number=2)]
    summaries = summarise(runs)
    assert [summary.client for summary in summaries] == ["b", "a"]
    assert summaries[0].numbers["records_per_second"] == Spread(20, 10, 30)
    assert summaries[1].numbers["records_per_second"] == Spread(200, 100, 300)
    assert "p99_ms" not in summaries[0].numbers


def test_a_void_run_is_told_and_counts_for_nothing() -> None:
    (summary,) = summarise([run("a", 10), run("a", number=2, void="1 of 5 records failed")])
    assert summary.counted == 1
    assert summary.numbers["records_per_second"] == Spread(10, 10, 10)
    assert summary.voids == ("round 2: 1 of 5 records failed",)


def test_a_client_with_void_runs_only_has_no_numbers_and_no_ratio() -> None:
    summaries = summarise([run("ours", 10), run("peer", void="it failed")])
    assert summaries[1].numbers == {}
    assert ratios(summaries, ["ours"]) == []


def test_ratios_are_of_ours_to_each_peer() -> None:
    summaries = summarise([run("ours", 30), run("peer", 10), run("other", 60)])
    first, second = ratios(summaries, ["ours"])
    assert (first.ours, first.peer) == ("ours", "peer")
    assert first.numbers["records_per_second"] == pytest.approx(3.0)
    assert first.numbers["cpu_us_per_record"] == pytest.approx(1 / 3)
    assert "p99_ms" not in first.numbers
    assert second.peer == "other"
    assert second.numbers["records_per_second"] == pytest.approx(0.5)


def test_ratios_are_between_runs_with_the_same_settings() -> None:
    runs = [run("ours", 30), run("peer", 10), run("ours", 8), run("peer", 4)]
    runs[2:] = [dataclasses.replace(each, settings="defaults") for each in runs[2:]]
    found = ratios(summarise(runs), ["ours"])
    assert [(each.settings, each.numbers["records_per_second"]) for each in found] == [
        ("tuned", 3.0),
        ("defaults", 2.0),
    ]


@pytest.mark.parametrize(
    ("confirmed", "failed", "in_log", "expected"),
    [
        (5, 0, 5, None),
        (5, 0, 6, None),  # a retry of a client without idempotence
        (4, 0, 5, "1 of 5 records are unconfirmed"),
        (6, 0, 6, "-1 of 5 records are unconfirmed"),
        (4, 1, 5, "1 of 5 records failed, the first with TimeoutError()"),
        (5, 0, 4, "the client confirmed 5 records, but the log has only 4 of them"),
    ],
)
def test_a_run_counts_only_with_every_record_confirmed_and_in_the_log(
    confirmed: int, failed: int, in_log: int, expected: str | None
) -> None:
    assert why_void(5, confirmed, failed, in_log, "TimeoutError()") == expected


NAMES = (
    *("records_per_second", "megabytes_per_second", "cpu_us_per_record", "peak_megabytes"),
    *("p50_ms", "p99_ms"),
)


def measured(client: str, *numbers: float) -> Run:
    return Run(client, "tasks", 1, 0.1, None, dict(zip(NAMES, numbers, strict=True)))


RUNS = [
    measured("aioproducer", 400_000.0, 40.0, 2.0, 60.0, 1.0, 2.5),
    measured("aiokafka", 100_000.0, 10.0, 8.0, 50.0, 4.0, 10.0),
    Run("aioproducer", "tasks", 2, 0.1, "2 of 9 records failed, the first with OSError()"),
]


@pytest.fixture
def section() -> Section:
    return describe(WORKLOADS["tasks"], list(CLIENTS.values()), summarise(RUNS), 9)


def test_a_row_for_each_client_that_ran_in_the_order_they_were_asked_for(section: Section) -> None:
    assert [row[0] for row in section.rows] == ["aioproducer", "aiokafka"]
    assert section.rows[0] == (
        *("aioproducer", "tuned"),
        *("400,000", "400,000..400,000", "40.0", "2.00", "2.00..2.00", "60", "1.000", "2.500"),
        "1/2",
        "0.1..0.1",
    )
    assert all(len(row) == len(section.headings) for row in section.rows)


def test_ratios_voids_and_settings_are_said(section: Section) -> None:
    assert section.ratios == (
        "aioproducer / aiokafka, tuned: 4.00 x records/s, 0.25 x CPU, 0.25 x p50, 0.25 x p99",
    )
    assert section.voids == (
        "VOID aioproducer, tuned, round 2: 2 of 9 records failed, the first with OSError()",
    )
    assert section.settings[0] == "aioproducer, tuned: no option, uvloop"
    assert "acks=all" in section.settings[1]


def test_defaults_stand_beside_the_tuned_settings() -> None:
    runs = [*RUNS, *(dataclasses.replace(each, settings="defaults") for each in RUNS)]
    section = describe(WORKLOADS["tasks"], list(CLIENTS.values()), summarise(runs), 9)
    assert [row[:2] for row in section.rows] == [
        *(("aioproducer", "defaults"), ("aioproducer", "tuned")),
        *(("aiokafka", "defaults"), ("aiokafka", "tuned")),
    ]
    assert section.settings[2:] == (
        "aiokafka, defaults: acks=all, uvloop",
        "aiokafka, tuned: acks=all, linger_ms=0, max_batch_size=131072, uvloop",
    )


def test_what_was_not_measured_is_a_dash() -> None:
    runs = [Run("confluent", "bulk", 1, 0.1, "it failed"), measured("aiokafka", *range(1, 7))]
    runs = [dataclasses.replace(each, workload="bulk") for each in runs]
    clients = [CLIENTS["confluent"], CLIENTS["aiokafka"]]
    section = describe(WORKLOADS["bulk"], clients, summarise(runs), 9)
    assert section.rows[0] == ("confluent", "tuned", *["-"] * 8, "0/1", "-")


def test_only_what_was_measured_has_a_column() -> None:
    stall = Run("aiokafka", "stall", 1, 0.1, None, {"late_p50_ms": 0.5, "late_p999_ms": 4.0})
    section = describe(WORKLOADS["stall"], [CLIENTS["aiokafka"]], summarise([stall]), 9)
    assert section.headings == (
        *("client", "settings", "late p50 ms", "p99.9", "range", "runs", "others' cores"),
    )
    assert section.rows == (("aiokafka", "tuned", "0.50", "4.00", "4.00..4.00", "1/1", "0.1..0.1"),)


@pytest.mark.parametrize(
    ("workload", "to"),
    [("bulk", "to 6 partitions"), ("topics", "to 5,000 topics of 1 partition, acks=all")],
)
def test_the_title_says_where_records_go(workload: str, to: str) -> None:
    assert to in describe(WORKLOADS[workload], [], [], 9).title
