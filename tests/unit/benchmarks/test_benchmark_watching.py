"""Lateness of the loop, calls that hold it, and memory over time."""

from __future__ import annotations

import asyncio
import time

import pytest

from benchmarks.heartbeat import CallWatch, Heartbeat
from benchmarks.memory import MemoryCurve, at_quarters, peak_bytes, resident_bytes

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


async def test_without_a_beat_nothing_is_said() -> None:
    async with Heartbeat() as heartbeat:
        pass
    assert heartbeat.lateness_ms() == {}


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


async def test_a_watched_call_raises_what_it_raises() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await CallWatch().watch(fail)()


def test_memory_is_known_after_each_quarter() -> None:
    assert at_quarters([(0.0, 7), (1.0, 8), (2.5, 9), (4.0, 10)]) == [8, 8, 9, 10]
    assert at_quarters([(1.0, 7)]) == [7, 7, 7, 7]
    with MemoryCurve() as curve:
        pass
    assert all(0 < size <= 1.1 * peak_bytes() for size in curve.quarters())
    assert resident_bytes() <= 1.1 * peak_bytes()
