"""``run()`` with handlers that fail, and with handlers that are none."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest

from aioproducer.consumer.consumer import Consumer
from aioproducer.errors import ConfigError, IllegalStateError
from aioproducer.model import ConsumerRecord
from aioproducer.observability.otel import instrument
from aioproducer.testing import SimulatedWorld
from tests.support.otel import InMemorySdk
from tests.support.simulated_world import consumer, fill, live
from tests.support.waiting import until


async def handle(record: ConsumerRecord) -> None:
    """A handler."""


async def in_small_batches(world: SimulatedWorld, batches: int) -> None:
    for _ in range(batches):
        await fill(world, 3, 1)


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_no_record_begins_after_a_failure(order: Any) -> None:
    begun: list[int] = []

    async def fails(record: ConsumerRecord) -> None:
        begun.append(record.offset)
        raise ZeroDivisionError

    async def life(world: SimulatedWorld) -> None:
        await in_small_batches(world, 30)
        async with consumer(world) as reader:
            await asyncio.sleep(5)
            with pytest.raises(ZeroDivisionError):
                await reader.run(fails, order=order)

    live(life)
    assert begun == [0]


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_no_record_begins_after_run_was_cancelled(order: Any) -> None:
    """Also if handlers return in spite of their cancellation."""
    begun: list[int] = []
    has_begun = asyncio.Event()

    async def goes_on(record: ConsumerRecord) -> None:
        begun.append(record.offset)
        has_begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 1)
        async with consumer(world) as reader:
            running = asyncio.create_task(reader.run(goes_on, concurrency=2, order=order))
            await has_begun.wait()
            before = [*begun]
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert begun == before

    live(life)


def test_later_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(record: ConsumerRecord) -> None:
        try:
            await asyncio.sleep(1)
        finally:
            raise ZeroDivisionError(record.offset)

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world) as reader:
            with pytest.raises(ZeroDivisionError, match="0"):
                await reader.run(fails, order="none")
        gc.collect()

    live(life)
    assert "never retrieved" not in caplog.text
    assert "another handler failed, too: ZeroDivisionError(1)" in caplog.text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "a handler is a coroutine function (async def), not None"),
        ("handle", "a handler is a coroutine function (async def), not 'handle'"),
    ],
)
def test_a_handler_is_a_function(given: Any, says: str) -> None:
    refused(lambda reader: reader.run(given), says)


@pytest.mark.filterwarnings("error")
def test_a_handler_is_not_called_by_the_application() -> None:
    record: Any = None
    refused(
        lambda reader: reader.run(handle(record)),
        "run() calls the handler, so do not call it: run(handle)",
    )
    gc.collect()


@pytest.mark.parametrize("traced", [False, True])
def test_a_handler_is_a_coroutine_function(traced: bool) -> None:
    def plain(record: ConsumerRecord) -> None:
        """Returns None, so there is nothing to wait for."""

    def run(reader: Consumer) -> Any:
        if traced:
            instrument(reader, **InMemorySdk().providers)
        return reader.run(plain)  # type: ignore[arg-type]

    refused(run, "a handler is a coroutine function (async def), and <function")


def refused(run: Any, says: str) -> None:
    """``run`` raises a ConfigError that ``says`` so."""
    errors: list[str] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        async with consumer(world) as reader:
            with pytest.raises(ConfigError) as raised:
                await run(reader)
            errors.append(str(raised.value))

    live(life)
    assert errors[0].startswith(says)


def test_a_foreign_cancellation_is_an_error_after_a_swallowed_one() -> None:
    """A handler of a lost partition swallows its cancellation, and a later one meets another."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 60, 2)
        done: list[int] = []
        hangs = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            if record.partition == 0 and record.offset == 5 and not hangs.is_set():
                hangs.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(1_000)
                await asyncio.sleep(15)
            elif record.partition == 0 and record.offset == 6 and hangs.is_set():
                other = asyncio.ensure_future(asyncio.sleep(10))
                other.cancel()
                await other
            else:
                await asyncio.sleep(0.5)
                done.append(record.offset)

        async with consumer(world) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=2))
            await hangs.wait()
            world.freeze(15)
            with pytest.raises(IllegalStateError, match="orders-0 at offset 6 was cancelled"):
                await running

    live(life, 2)


def test_a_run_that_is_cancelled_again_waits_for_its_handlers() -> None:
    """Else the next one would handle the same records beside them."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 1)
        at_work: list[int] = []

        async def handle(record: ConsumerRecord) -> None:
            assert record.offset not in at_work
            at_work.append(record.offset)
            try:
                await asyncio.sleep(5)
            finally:
                await asyncio.sleep(3)
                at_work.remove(record.offset)

        async with consumer(world) as reader:
            for _ in range(2):
                running = asyncio.create_task(reader.run(handle, concurrency=4, order="none"))
                await until(lambda: len(at_work) == 4)
                for _ in range(3):
                    running.cancel()
                    await asyncio.sleep(0.1)
                with pytest.raises(asyncio.CancelledError):
                    await running
                assert not at_work

    live(life)
