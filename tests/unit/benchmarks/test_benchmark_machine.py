"""What is said about the machine, its neighbours, its loops and its memory over time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from benchmarks.heartbeat import CallWatch, Heartbeat
from benchmarks.machine import Neighbours
from benchmarks.memory import MemoryCurve, at_quarters, peak_bytes, resident_bytes

BURNT = 0.3
BURN = [
    *(sys.executable, "-c"),
    f"import time\nwhile time.process_time() < {BURNT}: pass\nprint(flush=True); input()",
]


@pytest.fixture
def machine_seconds(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The CPU seconds of the whole machine, which stand still unless the test moves them."""
    seconds = SimpleNamespace(user=1_000.0, system=0.0)
    monkeypatch.setattr("psutil.cpu_times", lambda: seconds)
    return seconds


def test_what_own_children_use_is_not_the_neighbours(machine_seconds: SimpleNamespace) -> None:
    neighbours = Neighbours()
    with subprocess.Popen(BURN, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        machine_seconds.user += BURNT
        assert neighbours.cores_used() < 0.1
        running.communicate(b"\n")
    assert neighbours.cores_used() < 0.1


def test_what_nobody_of_us_used_is_the_neighbours(machine_seconds: SimpleNamespace) -> None:
    neighbours = Neighbours()
    machine_seconds.user += 3_600.0
    assert neighbours.cores_used() > 1.0


STALL = 0.05


async def test_a_stall_makes_all_beats_late_that_were_due_in_it() -> None:
    async with Heartbeat() as heartbeat:
        await asyncio.sleep(0.01)
        time.sleep(STALL)
        await asyncio.sleep(0.01)
    late = heartbeat.lateness_ms()
    assert late["late_max_ms"] > 0.9 * STALL * 1000
    assert late["late_p50_ms"] > 0.2 * STALL * 1000
    assert late["late_p50_ms"] <= late["late_p99_ms"] <= late["late_p999_ms"] <= late["late_max_ms"]


async def test_a_call_is_watched_for_as_long_as_it_holds_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0
    monkeypatch.setattr("benchmarks.heartbeat.perf_counter_ns", lambda: now)

    def pass_time(ns: int) -> None:
        nonlocal now
        now += ns

    async def wait() -> str:
        asyncio.get_running_loop().call_soon(pass_time, 50)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert now == 50
        pass_time(10)
        return "done"

    calls = CallWatch()
    assert await calls.watch(wait)() == "done"
    assert calls.longest_ns == 10
    calls.watch(pass_time)(50)
    assert calls.longest_ns == 50


def test_memory_is_known_after_each_quarter() -> None:
    assert at_quarters([(0.0, 7), (1.0, 8), (2.5, 9), (4.0, 10)]) == [8, 8, 9, 10]
    assert at_quarters([(1.0, 7)]) == [7, 7, 7, 7]
    with MemoryCurve() as curve:
        pass
    assert all(0 < size <= 1.1 * peak_bytes() for size in curve.quarters())
    assert resident_bytes() <= 1.1 * peak_bytes()
