"""What Kafka's own tool prints, read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.producer_performance import Progress, costs, watch
from benchmarks.workloads import WORKLOADS

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
