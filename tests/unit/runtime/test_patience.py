from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aioproducer.foundation.runtime.patience import PatientTimeout, sockets_read
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.testing.simulation.loop import SimulatedLoop


def run(main: Callable[[SimulatedLoop], Coroutine[Any, Any, None]]) -> None:
    loop = SimulatedLoop()
    loop.run(main(loop))
    assert loop.timers == []


def test_it_expires_after_its_time() -> None:
    async def main(loop: SimulatedLoop) -> None:
        began = loop.time()
        bound = PatientTimeout(30.0)
        with pytest.raises(TimeoutError):
            async with bound:
                await asyncio.sleep(31.0)
        assert bound.expired()
        assert loop.time() - began == pytest.approx(30.0)

    run(main)


@pytest.mark.parametrize("seconds", [None, 30.0])
def test_a_body_that_ends_in_time_leaves_no_timer(seconds: float | None) -> None:
    async def main(loop: SimulatedLoop) -> None:
        bound = PatientTimeout(seconds)
        async with bound:
            await asyncio.sleep(29.0)
        assert not bound.expired()

    run(main)


def test_a_timeout_of_the_body_is_not_its_own() -> None:
    async def main(loop: SimulatedLoop) -> None:
        bound = PatientTimeout(30.0)
        with pytest.raises(TimeoutError, match="the body's"):
            async with bound:
                raise TimeoutError("the body's")
        assert not bound.expired()

    run(main)


@pytest.mark.parametrize("held", [1.0, 60.0, 900.0])
def test_time_in_which_the_loop_is_held_does_not_count(held: float) -> None:
    async def main(loop: SimulatedLoop) -> None:
        async with PatientTimeout(30.0):
            await asyncio.sleep(5.0)
            loop.pass_time(held)
            await asyncio.sleep(15.0)

    run(main)


def test_where_stops_count_the_time_is_that_of_the_loop() -> None:
    async def main(loop: SimulatedLoop) -> None:
        async def wait() -> None:
            async with PatientTimeout(30.0, stops_count=True):
                await asyncio.sleep(5.0)
                loop.pass_time(60.0)
                await asyncio.sleep(1.0)

        with pytest.raises(TimeoutError):
            await wait()

    run(main)


@pytest.mark.parametrize("stops_count", [True, False])
def test_what_has_arrived_comes_before_the_end(stops_count: bool) -> None:
    async def main(loop: SimulatedLoop) -> None:
        response = loop.create_future()
        loop.call_soon(loop.pass_time, 60.0)
        # the callback of a socket, in the turn after the one of the timer
        loop.call_at(loop.time() + 30.0, loop.call_soon, response.set_result, "read")
        async with PatientTimeout(30.0, stops_count=stops_count):
            assert await response == "read"

    run(main)


def test_the_sockets_are_read_until_nothing_comes() -> None:
    async def main(loop: SimulatedLoop) -> None:
        received = 0

        def arrive(pieces: int) -> None:
            nonlocal received
            received += 1
            if pieces > 1:
                loop.call_soon(arrive, pieces - 1)

        loop.call_soon(arrive, 50)
        await sockets_read(lambda: received)
        assert received == 50

    run(main)


def test_a_peer_that_never_stops_sending_does_not_keep_it_for_ever() -> None:
    async def main(loop: SimulatedLoop) -> None:
        received = 0

        def more() -> int:
            nonlocal received
            received += 1
            return received

        await sockets_read(more)
        assert received > 50

    run(main)


@pytest.mark.parametrize(("held", "lost"), [(0.2, 0.0), (60.0, 239.0)])
def test_turns_of_a_busy_loop_count_and_stops_do_not(held: float, lost: float) -> None:
    async def main(loop: SimulatedLoop) -> None:
        clock = RunningClock(loop.time)
        clock.limit = loop.time() + 0.1
        turns = 0

        def hold() -> None:
            nonlocal turns
            loop.pass_time(held)
            turns += 1
            if turns < 4:
                loop.call_soon(hold)

        loop.call_soon(hold)
        await sockets_read(lambda: 0, clock.turned)
        assert turns == 4
        assert clock.lost == pytest.approx(lost, abs=0.01)

    run(main)


def test_a_bound_may_get_more_time_when_it_is_over() -> None:
    async def main(loop: SimulatedLoop) -> None:
        added = [3.0, 0.5, 0.0]
        bound = PatientTimeout(1.0, more=lambda: added.pop(0))
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with bound:
                await asyncio.sleep(60.0)
        assert bound.expired()
        assert added == []
        assert loop.time() - began == pytest.approx(4.5, abs=0.1)

    run(main)
