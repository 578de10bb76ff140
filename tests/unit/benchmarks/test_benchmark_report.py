"""What the report says, on a terminal and elsewhere."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from benchmarks.clients import CLIENTS
from benchmarks.report import Section, describe, print_plain, print_rich
from benchmarks.summary import Run, summarise
from benchmarks.workloads import WORKLOADS

NAMES = (
    *("records_per_second", "megabytes_per_second", "cpu_us_per_record", "peak_megabytes"),
    *("p50_ms", "p99_ms"),
)


def run(client: str, *numbers: float) -> Run:
    return Run(client, "tasks", 1, 0.1, None, dict(zip(NAMES, numbers, strict=True)))


RUNS = [
    run("aioproducer", 400_000.0, 40.0, 2.0, 60.0, 1.0, 2.5),
    run("aiokafka", 100_000.0, 10.0, 8.0, 50.0, 4.0, 10.0),
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


def test_plain_text_has_aligned_columns_and_no_escape_codes(
    section: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    print_plain([section])
    printed = capsys.readouterr().out
    table = printed.splitlines()[2:5]
    assert len({len(line) for line in table}) == 1
    assert "\x1b" not in printed
    assert "VOID aioproducer" in printed


def test_on_a_terminal_everything_is_said_too(section: Section) -> None:
    written = io.StringIO()
    print_rich([section], Console(file=written, force_terminal=True, width=200))
    for words in ("400,000", "VOID aioproducer", "x records/s", "acks=all"):
        assert words in written.getvalue()


def test_what_was_not_measured_is_a_dash() -> None:
    runs = [Run("confluent", "bulk", 1, 0.1, "it failed"), run("aiokafka", *range(1, 7))]
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
