"""The states of a producer, and the error of each call that they refuse."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from aioproducer.engine.core.lifecycle import Lifecycle
from aioproducer.errors import (
    IllegalStateError,
    ProducerBrokenError,
    ProducerClosedError,
    WrongLoopError,
)


def new() -> Lifecycle:
    return Lifecycle("payments")


def running() -> Lifecycle:
    lifecycle = new()
    lifecycle.start()
    return lifecycle


def failed_to_start() -> Lifecycle:
    lifecycle = running()
    lifecycle.start_failed()
    return lifecycle


def closing() -> Lifecycle:
    async def close() -> int:
        return 0

    lifecycle = running()
    lifecycle.begin_closing(close())
    return lifecycle


def closed_before_its_start() -> Lifecycle:
    lifecycle = new()
    lifecycle.close_unstarted()
    return lifecycle


def broken() -> Lifecycle:
    lifecycle = running()
    lifecycle.break_with(ProducerBrokenError("the sender died"))
    return lifecycle


def broken_and_closed() -> Lifecycle:
    lifecycle = closing()
    lifecycle.break_with(ProducerBrokenError("the sender died"))
    return lifecycle


STATES: list[tuple[Callable[[], Lifecycle], str, type[Exception]]] = [
    (new, "not started", IllegalStateError),
    (running, "started", WrongLoopError),
    (failed_to_start, "closed", ProducerClosedError),
    (closing, "closing", ProducerClosedError),
    (closed_before_its_start, "closed", ProducerClosedError),
    (broken, "broken", ProducerBrokenError),
    (broken_and_closed, "broken", ProducerBrokenError),
]
IDS = [make.__name__ for make, *_ in STATES]


@pytest.mark.parametrize(("make", "name", "error"), STATES, ids=IDS)
async def test_each_state_has_its_name_and_its_refusal(
    make: Callable[[], Lifecycle], name: str, error: type[Exception]
) -> None:
    """A producer that is running refuses nothing but other loops."""
    lifecycle = make()
    assert str(lifecycle) == name
    with pytest.raises(error) as caught:
        lifecycle.refuse()
    assert type(caught.value) is error
    assert caught.value is not lifecycle.broken, "each caller gets an error of its own"


async def test_a_close_that_has_ended_is_closed() -> None:
    lifecycle = closing()
    assert lifecycle.closing is not None
    await lifecycle.closing
    assert str(lifecycle) == "closed"


@pytest.mark.parametrize("make", [make for make, *_ in STATES[1:]], ids=IDS[1:])
async def test_a_producer_starts_once(make: Callable[[], Lifecycle]) -> None:
    lifecycle = make()
    with pytest.raises(IllegalStateError, match=f"'payments' is {lifecycle}"):
        lifecycle.start()


STARTED = [make for make, *_ in STATES if make not in (new, closed_before_its_start)]


@pytest.mark.parametrize("make", STARTED)
async def test_another_process_is_refused_in_every_state_after_the_start(
    make: Callable[[], Lifecycle], monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = make()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (lifecycle.refuse, lifecycle.check_same_place):
        with pytest.raises(WrongLoopError, match="another process"):
            call()


@pytest.mark.parametrize("make", [new, closed_before_its_start])
def test_another_process_sees_the_state_of_what_was_not_started(
    make: Callable[[], Lifecycle], monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = make()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not lifecycle.forked
    with pytest.raises((IllegalStateError, ProducerClosedError), match="payments"):
        lifecycle.refuse()


async def test_a_producer_made_before_a_fork_belongs_to_the_process_that_starts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lifecycle = new()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    lifecycle.start()
    lifecycle.check_same_place()


def test_another_loop_is_refused() -> None:
    lifecycle = new()

    async def start() -> None:
        lifecycle.start()
        lifecycle.check_same_place()

    async def use() -> None:
        lifecycle.check_same_place()

    asyncio.run(start())
    with pytest.raises(WrongLoopError, match="event loop"):
        asyncio.run(use())
