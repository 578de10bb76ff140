"""What the benchmarks count, and what their tables say of it."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.clients import CLIENTS, Choice
from benchmarks.clients.driver import Fates, Flow, count
from benchmarks.shim.plan import PATTERNS
from benchmarks.shim.report import describe
from benchmarks.summary import Run, summarise
from benchmarks.workloads import WORKLOADS, Workload


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


def run(client: str, rate: float, void: str | None = None) -> Run:
    numbers = {"records_per_second": rate, "cpu_us_per_record": 1e6 / rate, "p99_ms": 2.0}
    return Run(client, "one", 1, 0.1, void, {} if void else numbers)


def test_a_section_of_a_pattern() -> None:
    summaries = summarise([run("shim", 200_000), run("aiokafka", 100_000)])
    section = describe(PATTERNS["one"], summaries, 5_000)
    assert section.title.startswith("one: await send_and_wait(), one record after another; 5,000")
    assert [row[0] for row in section.rows] == ["shim", "aiokafka"]
    assert section.ratios == ("shim / aiokafka: 2.00 x records/s, 0.50 x CPU, 1.00 x p99",)


def test_a_void_run_is_told() -> None:
    summaries = summarise([run("shim", 1, "it failed"), run("aiokafka", 100_000)])
    assert describe(PATTERNS["one"], summaries, 9).voids == ("VOID shim, round 1: it failed",)
