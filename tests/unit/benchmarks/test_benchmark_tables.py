"""The tables of workloads, clients, patterns and codecs fit together."""

from __future__ import annotations

import asyncio
import importlib
import json
import zlib
from typing import Any

import pytest

from aioproducer.testing.mock_cluster import MockCluster
from benchmarks import messages
from benchmarks.__main__ import main
from benchmarks.clients import CLIENTS, Choice
from benchmarks.clients.driver import Fates, Flow, count, routes
from benchmarks.shim import program
from benchmarks.shim.__main__ import main as shim_main
from benchmarks.shim.plan import IMPORTS, PARTITIONS, PATTERNS, Pattern
from benchmarks.shim.report import describe, markdown
from benchmarks.summary import Run, summarise
from benchmarks.workloads import WORKLOADS, Load, Shape, Workload


def test_settings_name_workloads_that_exist() -> None:
    for client in CLIENTS.values():
        assert client.tuned.keys() <= WORKLOADS.keys()
        assert client.defaults.keys() <= client.tuned.keys()


@pytest.mark.parametrize("choice", Choice)
def test_every_client_waits_for_all_replicas(choice: Choice) -> None:
    for client in CLIENTS.values():
        if not client.ours:  # ours has it as its default
            assert {options["acks"] for options in client.settings(choice).values()} == {"all"}


def test_defaults_name_only_what_makes_clients_alike() -> None:
    alike = {"acks", "compression_type", "compression.type", "partitioner", "api_version"}
    for client in CLIENTS.values():
        for workload, options in client.defaults.items():
            guarantee = {"enable.idempotence"} if client.name == "confluent-idempotent" else set()
            assert options.keys() <= alike | guarantee, (client.name, workload)


@pytest.mark.parametrize("choice", Choice)
@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_every_client_compresses_as_the_workload_says(workload: Workload, choice: Choice) -> None:
    for client in CLIENTS.values():
        settings = client.settings(choice).get(workload.name, {})
        said = {settings.get("compression_type"), settings.get("compression.type")} - {None}
        assert said == ({workload.compression} - {"none"} if settings else set()), client.name


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("records", [1, 1_000, 12_500])
def test_records_are_the_same_every_time(workload: Workload, records: int) -> None:
    load = workload.load(records)
    assert load == workload.load(records)
    assert len(load.values) == records
    assert len(load.topics) == workload.topics
    assert {len(value) for value in load.values} == {workload.value_bytes}
    assert not any(b"\n" in value for value in load.values)
    assert {len(key) for key in load.keys} == ({workload.key_bytes} - {0})
    assert len(load.keys) in (0, records)


def test_json_values_are_json_and_compress_as_events_do() -> None:
    values = WORKLOADS["lz4"].load(1_000).values
    assert json.loads(values[7])["event"] == "page_view"
    assert 2 < 300_000 / len(zlib.compress(b"".join(values))) < 8


def test_topics_have_their_turn() -> None:
    load = Load(["a", "b"], [b"1", b"2", b"3"])
    assert list(routes(load)) == [("a", None, b"1"), ("b", None, b"2"), ("a", None, b"3")]
    load = Load(["a"], [b"1", b"2"], [b"k", b"l"])
    assert list(routes(load)) == [("a", b"k", b"1"), ("a", b"l", b"2")]


@pytest.mark.filterwarnings(
    "ignore:(read|open)_text is deprecated:DeprecationWarning"
)  # kafka-python
def test_each_shape_has_a_workload_and_a_driver() -> None:
    assert {workload.shape for workload in WORKLOADS.values()} == set(Shape)
    for client in CLIENTS.values():
        if client.program == "benchmarks.client":
            driver = importlib.import_module(f"benchmarks.clients.{client.module}").Driver
            for name in client.tuned:
                assert hasattr(driver, WORKLOADS[name].shape), (client.name, name)


class _Result:
    def __init__(self, offset: int) -> None:
        self.offset = offset


async def test_only_a_future_with_an_offset_is_a_confirmation() -> None:
    loop = asyncio.get_running_loop()
    delivered, nowhere, failed, cancelled, pending = (loop.create_future() for _ in range(5))
    delivered.set_result(_Result(offset=0))
    nowhere.set_result(_Result(offset=-1))
    failed.set_exception(OSError("gone"))
    cancelled.cancel()
    fates = Fates()
    for future in (delivered, pending):
        count(future, fates)
    assert (fates.confirmed, fates.failed) == (1, 0)
    for future in (failed, nowhere, cancelled, delivered):
        count(future, fates)
    assert (fates.confirmed, fates.failed) == (2, 3)
    assert repr(fates.first_error) == "OSError('gone')"


async def test_a_flow_counts_every_future_and_lets_others_run() -> None:
    loop, flow = asyncio.get_running_loop(), Flow()
    ran = 0

    def run() -> None:
        nonlocal ran
        ran += 1

    for values in flow.steps([b""] * 950):
        for _ in values:
            future = loop.create_future()
            loop.call_soon(future.set_result, _Result(offset=0))
            flow.add(future)
        loop.call_soon(run)
        await flow.breathe()
    assert ran == 10
    assert (await flow.end()).confirmed == 950


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workloads", "bulk,nothing"], "'nothing' is none of bulk"),
        (["--clients", "kafkacat"], "'kafkacat' is none of aioproducer"),
        (["--rounds", "0"], "less than 1"),
        (["--settings", "best"], "'best' is none of defaults, tuned"),
        (["--workloads", "memory", "--brokers", "kafka"], "memory needs brokers"),
    ],
)
def test_a_wrong_option_is_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


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
        shim_main(["--patterns", "all"])
    assert "'all' is none of one, tasks, gather, batches" in capsys.readouterr().err


@pytest.mark.parametrize("case", [*messages.cases()], ids=lambda case: case.name)
def test_both_codecs_have_the_same_bytes(case: messages.Case) -> None:
    ours, theirs = messages.codecs(case).values()
    assert ours.encode() == theirs.encode()


def test_the_fastest_time_of_each_call_counts() -> None:
    short, long = messages.best([lambda: sum(range(100)), lambda: sum(range(100_000))], 2)
    assert 0 < short < long


def test_a_large_response_is_read_in_pieces() -> None:
    total, longest = messages.in_steps()
    assert 0 < longest < total
