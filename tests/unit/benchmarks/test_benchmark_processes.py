"""The figures of new processes, lines and installations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import light, produce_lines
from benchmarks.light import Installed, Numbers
from benchmarks.new_process import __main__ as new_process
from benchmarks.producer_performance import Progress, costs, watch
from benchmarks.workloads import WORKLOADS


def test_the_times_of_a_process_count_from_its_start() -> None:
    said = {"began": 10.1, "imported": 10.3, "delivered": 10.4, "cpu_seconds": 0.25}
    assert new_process.times(said, began=10.0, ended=10.5) == pytest.approx(
        {"imported_ms": 200, "delivered_ms": 400, "ended_ms": 500, "cpu_ms": 250}
    )


def test_a_new_process_is_compared_with_each_peer() -> None:
    def runs(*factors: int) -> list[new_process.Times]:
        names = ("imported_ms", "delivered_ms", "ended_ms", "cpu_ms")
        return [dict.fromkeys(names, 10.0 * factor) for factor in factors]

    section = new_process.describe(
        {"no client": runs(1, 1), "aioproducer": runs(2, 6), "aiokafka": runs(8, 8)}
    )
    assert section.rows[1] == ("aioproducer", *("40", "20..60") * 4)
    assert section.ratios == (
        "aioproducer / aiokafka: 0.50 x import ms, 0.50 x first record ms, 0.50 x ended ms, "
        "0.50 x CPU ms until delivered",
    )
    assert {len(row) for row in section.rows} == {len(section.headings)}


def test_lines_are_said_per_second_and_with_their_cpu() -> None:
    found = {
        "aioproducer produce": [produce_lines.Costs(1_000, 0.5, 0.004)],
        "kcat": [produce_lines.Costs(1_000, 0.25, 0.001)],
    }
    section = produce_lines.describe(found, 1_000)
    assert section.rows[0][:4] == ("aioproducer produce", "2,000", "2,000..2,000", "4.00")
    assert section.ratios == ("aioproducer produce / kcat: 0.50 x lines/s, 4.00 x CPU",)
    assert {len(row) for row in section.rows} == {len(section.headings)}


def run(objects: int) -> Numbers:
    return {"imported_ms": 50.0, "objects": objects, "collection_ms": 2.0}


def test_a_client_is_not_a_package_besides_itself() -> None:
    environments = {
        "nothing": Installed(Path("python"), {}),
        "aioproducer": Installed(Path("python"), {"aioproducer": 3.0, "zstandard": 24.4}),
    }
    clients, packages = light.describe(
        {"nothing": [run(0)], "aioproducer": [run(9_000), run(11_000)]}, environments
    )
    assert clients.rows[0][:3] == ("nothing", "-", "-")
    assert clients.rows[1] == (
        *("aioproducer", "1", "27", "50.0", "50.0..50.0"),
        *("10,000", "9,000..11,000", "2.0", "2.0..2.0"),
    )
    assert packages.rows == (
        ("aioproducer", "zstandard", "24.4"),
        ("aioproducer", "aioproducer", "3.0"),
    )


PRINTED = """\
Reading payloads from: values.txt
1000 records sent, 9900.0 records/sec (0.95 MB/sec), 5.0 ms avg latency, 9.0 ms max latency.
2500 records sent, 24900.0 records/sec (2.38 MB/sec), 5.0 ms avg latency, 9.0 ms max latency.
4000 records sent, 13000.0 records/sec (1.24 MB/sec), 5.0 ms avg latency, 9.0 ms max latency, \
5 ms 50th, 7 ms 95th, 9 ms 99th, 9 ms 99.9th.
"""


def test_the_records_of_each_report_and_the_whole_are_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        progress = list(watch(process.pid, PRINTED.splitlines()))
        process.communicate(b"\n")
    assert [each.records for each in progress] == [1_000, 3_500, 4_000]


def test_costs_are_of_what_came_after_the_warm_up() -> None:
    progress = [
        Progress(100, 1.0, 9.0, 1_000_000),
        Progress(1_200, 2.0, 10.0, 5_000_000),
        Progress(2_000, 4.0, 10.8, 0),
    ]
    found = costs(WORKLOADS["bulk"], 1_000, 1_000, progress)
    assert (found.records, found.warm_up, found.confirmed, found.failed) == (1_000, 1_000, 1_000, 0)
    assert found.numbers == pytest.approx(
        {
            "records_per_second": 400,
            "megabytes_per_second": 0.04,
            "cpu_us_per_record": 1_000,
            "peak_megabytes": 5,
        }
    )


@pytest.mark.parametrize("progress", [[], [Progress(1_500, 1.0, 9.0, 0)]])
def test_what_was_not_acknowledged_is_not_confirmed(progress: list[Progress]) -> None:
    found = costs(WORKLOADS["bulk"], 1_000, 1_000, progress)
    assert found.confirmed < 1_000
    assert found.numbers == {}
