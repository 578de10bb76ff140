"""The patterns, the tables and the program of `python -m benchmarks.shim`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.shim import program
from benchmarks.shim.__main__ import main
from benchmarks.shim.plan import IMPORTS, PARTITIONS, PATTERNS, Pattern
from benchmarks.shim.report import describe, markdown
from benchmarks.summary import Run, summarise


def run(client: str, rate: float, void: str | None = None) -> Run:
    numbers = {"records_per_second": rate, "cpu_us_per_record": 1e6 / rate, "p99_ms": 2.0}
    return Run(client, "one", 1, 0.1, void, {} if void else numbers)


def test_a_section_and_the_rows_of_the_page() -> None:
    summaries = summarise([run("shim", 200_000), run("aiokafka", 100_000)])
    section = describe(PATTERNS["one"], summaries, 5_000)
    assert section.title.startswith("one: await send_and_wait(), one record after another; 5,000")
    assert [row[0] for row in section.rows] == ["shim", "aiokafka"]
    assert section.ratios == ("shim / aiokafka: 2.00 x records/s, 0.50 x CPU, 1.00 x p99",)
    assert list(markdown("mock", summaries)) == [
        "| mock | `one` | 200,000 (100,000) | 2.00 | 5.00 (10.00) | 0.50 |  | 2.000 (2.000) |"
    ]


def test_a_void_run_has_no_row() -> None:
    summaries = summarise([run("shim", 1, "it failed"), run("aiokafka", 100_000)])
    assert describe(PATTERNS["one"], summaries, 9).voids == ("VOID shim, round 1: it failed",)
    assert list(markdown("mock", summaries)) == []


def test_every_pattern_has_its_function() -> None:
    assert set(program.SENDS) == set(PATTERNS)


@pytest.mark.mock_cluster
@pytest.mark.parametrize("name", IMPORTS)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_the_program_confirms_every_record(pattern: Pattern, name: str) -> None:
    topics: dict[str, Any] = dict.fromkeys(pattern.workload().topic_names(), PARTITIONS)
    with MockCluster(brokers=1, topics=topics) as cluster:
        costs = asyncio.run(program.run(IMPORTS[name], pattern, 1_500, cluster.bootstrap_servers))
    assert (costs.confirmed, costs.failed, costs.first_error) == (1_500, 0, None)
    assert ("p99_ms" in costs.numbers) == (pattern.name != "gather")


def test_an_unknown_pattern_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--patterns", "all"])
    assert "'all' is none of one, tasks, gather, batches" in capsys.readouterr().err
