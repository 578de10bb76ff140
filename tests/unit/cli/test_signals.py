"""The signals that end a command: the first asks, the second gives up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aioproducer.cli.early_ends import EndSignals


@pytest.fixture(autouse=True)
def _default_sigterm() -> Iterator[None]:
    """Whatever other tests of this process have set: an event loop sets the default again."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


async def both_arrive(seen: list[str]) -> Callable[..., Any] | int | None:
    """The handler behind the second signal."""
    arrived = asyncio.Event()

    def note(name: str) -> Callable[[signal.Signals], None]:
        def noted(number: signal.Signals) -> None:
            seen.append(f"{name} {number.name}")
            arrived.set()

        return noted

    with EndSignals(note("first"), note("second")):
        for _ in range(2):
            arrived.clear()
            signal.raise_signal(signal.SIGTERM)
            await arrived.wait()
        return signal.getsignal(signal.SIGTERM)


async def test_the_first_and_the_second_signal() -> None:
    seen: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    assert await both_arrive(seen) == before
    assert seen == ["first SIGTERM", "second SIGTERM"]


async def test_a_loop_without_signal_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops of Windows have none."""

    def missing(*_: object) -> None:
        raise NotImplementedError

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(type(loop), "add_signal_handler", missing, raising=False)
    seen: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    assert await both_arrive(seen) == before
    assert seen == ["first SIGTERM", "second SIGTERM"]
    with EndSignals(lambda _: None, lambda _: None):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
