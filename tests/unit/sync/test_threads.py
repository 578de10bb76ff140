"""Calls of several threads at once, calls that an interrupt ends, and the calling thread."""

from __future__ import annotations

import _thread
import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any

import pytest

from aioproducer import sync
from aioproducer.errors import (
    IllegalStateError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
)
from aioproducer.model import RecordMetadata
from aioproducer.sync import Producer, loop_thread
from aioproducer.sync.inbox import this_thread
from aioproducer.testing import SyncMockProducer
from tests.support.switches import Other, at_switch, in_other_thread
from tests.support.waiting import PATIENCE, wait_until

NOBODY = "127.0.0.1:1"
ROOM = str(Path(sync.__file__).parent)
SOON = 2.0
"""Seconds of a call that waits for nothing, at high load."""


def is_alive(producer: Producer[Any, Any]) -> bool:
    return any(t.name == f"aioproducer-{producer.client_id}" for t in threading.enumerate())


@pytest.fixture
def fresh() -> Producer:
    """A producer that was not started."""
    return Producer(bootstrap_servers=NOBODY)


@pytest.fixture
def mock() -> Iterator[SyncMockProducer]:
    with SyncMockProducer(transactional_id="shop") as producer:
        yield producer


# --- a call at each place of another thread's call -----------------------------------------------


def ends_at_once(producer: Producer[Any, Any]) -> None:
    began = time.monotonic()
    assert producer.close(1) == 0
    assert time.monotonic() - began < SOON
    assert not is_alive(producer)


CALLS: dict[str, Callable[[Producer], object]] = {
    "start": lambda producer: producer.start(),
    "close": lambda producer: producer.close(1),
}


@pytest.mark.parametrize(
    ("outer", "inner"), [("start", "close"), ("close", "start"), ("close", "close")]
)
def test_two_threads_start_and_close(outer: str, inner: str) -> None:
    refusals = (IllegalStateError, ProducerClosedError)
    for number in range(1_000):
        producer = Producer(bootstrap_servers=NOBODY)
        others: list[Other] = []
        began = time.monotonic()
        with at_switch(
            number,
            ROOM,
            lambda: others.append(in_other_thread(lambda: CALLS[inner](producer))),  # noqa: B023
        ) as places:
            try:
                CALLS[outer](producer)
            except refusals:
                assert outer == "start", places
        for other in others:
            assert isinstance(other.ended().error, (*refusals, type(None))), places
        assert time.monotonic() - began < SOON, places
        if not places:
            ends_at_once(producer)
            assert number > 15
            return
        with pytest.raises(ProducerError):
            producer.send("orders", b"late")
        ends_at_once(producer)
    raise AssertionError("there are more places")


# --- starts that fail ----------------------------------------------------------------------------


def has_ended(producer: Producer, cause: str) -> None:
    began = time.monotonic()
    with pytest.raises(ProducerBrokenError, match=f"start .* was interrupted: {cause}"):
        producer.send("orders", b"1")
    with pytest.raises(IllegalStateError, match="can be started once"):
        producer.start()
    assert producer.close() == 0
    assert time.monotonic() - began < SOON
    wait_until(lambda: not is_alive(producer))


def test_a_thread_that_can_not_start(fresh: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            fresh.start()
    has_ended(fresh, "RuntimeError")


def test_an_interrupt_as_the_thread_begins(
    fresh: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread gets its number before it counts as started."""

    def interrupted(thread: threading.Thread) -> None:
        thread._ident = 2**62  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fresh.start()
    has_ended(fresh, "KeyboardInterrupt")


def test_an_event_loop_that_can_not_be_made(
    fresh: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            fresh.start()
    has_ended(fresh, "OSError")


def test_an_interrupt_in_start_ends_the_thread(
    fresh: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = fresh._thread.ask

    def interrupted(*arguments: Any) -> None:
        ask(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fresh._thread, "ask", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fresh.start()
    wait_until(lambda: not is_alive(fresh))
    has_ended(fresh, "KeyboardInterrupt")


def test_a_start_that_fails_at_once_leaves_nothing_for_the_exit(
    fresh: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AtExit:
        cancelled = False

        def __init__(self, _: object) -> None:
            if is_alive(fresh):
                fresh._thread.join()

        def cancel(self) -> None:
            AtExit.cancelled = True

    async def fail() -> None:
        raise ProducerBrokenError("it can't start")

    monkeypatch.setattr(loop_thread, "AtExit", AtExit)
    monkeypatch.setattr(fresh._thread, "_start_core", fail)
    with pytest.raises(ProducerBrokenError, match="it can't start"):
        fresh.start()
    assert AtExit.cancelled


def test_close_ends_a_start_that_waits(fresh: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()

    async def start() -> None:
        waits.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(fresh._thread, "_start_core", start)
    starting = Other(fresh.start)
    starting.start()
    assert waits.wait(5)
    ends_at_once(fresh)
    assert isinstance(starting.ended().error, ProducerClosedError)


# --- ends ----------------------------------------------------------------------------------------


def test_a_thread_with_the_number_of_the_ended_one(
    fresh: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh.start()
    fresh.close()
    monkeypatch.setattr(loop_thread, "get_ident", lambda: fresh._thread._thread.ident)
    assert fresh.close() == 0
    with pytest.raises(ProducerClosedError):
        fresh.flush()


def test_callbacks_that_exit_do_not_lose_the_records_after_theirs(fresh: Producer) -> None:
    held, released = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        released.wait(5)

    fresh.start()
    fresh._thread.call_soon(hold)
    assert held.wait(5)
    fresh._thread.call_soon(fresh._core.part_died, ValueError("a part has died"))
    futures = [fresh.send("orders", b"1") for _ in range(3)]
    for future in futures:
        future.add_done_callback(lambda _: sys.exit())
    released.set()
    for future in futures:
        assert isinstance(future.exception(5), ProducerBrokenError)
    fresh.close()


# --- interrupts ----------------------------------------------------------------------------------


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch, mock: SyncMockProducer) -> Callable[[], None]:
    """Let Ctrl-C come when the next question of a call was answered, before the call goes on."""

    def interrupted(_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    return lambda: monkeypatch.setattr(loop_thread._Question, "answer", property(interrupted))


def test_an_interrupt_as_a_transaction_begins(
    mock: SyncMockProducer, interrupt: Callable[[], None]
) -> None:
    interrupt()
    with pytest.raises(KeyboardInterrupt) as kept, mock.transaction():
        raise AssertionError("not reached")
    with mock.transaction():
        mock.send("orders", b"1")
    assert [record.value for record in mock.history] == [b"1"]
    assert kept.tb  # as a notebook keeps the last traceback, with all that its frames hold


def test_an_interrupt_as_send_many_begins(
    mock: SyncMockProducer, interrupt: Callable[[], None]
) -> None:
    mock.begin_transaction()
    interrupt()
    with pytest.raises(KeyboardInterrupt) as kept:
        mock.send_many("orders", iter([b"1"]))
    mock.send("orders", b"2")
    mock.commit_transaction()
    assert [record.value for record in mock.history] == [b"2"]
    assert kept.tb


@pytest.mark.parametrize("change", ["result", "error", "running"])
def test_an_outcome_that_the_application_sets_ends_no_producer(change: str) -> None:
    with SyncMockProducer() as producer:
        held, go = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            go.wait(5)

        assert producer._thread.call_soon(hold)
        held.wait(5)
        future = producer.send("orders", b"1")
        if change == "result":
            future.set_result(RecordMetadata("orders", 0, 7, 0, 0, 1))
        elif change == "error":
            future.set_exception(ValueError("mine"))
        else:
            future.set_running_or_notify_cancel()
        go.set()
        assert producer.send("orders", b"2").result(5)
        values = [each.value for each in producer.sent("orders")]
        assert values == ([b"1", b"2"] if change == "running" else [b"2"])
        assert change != "running" or future.result(5).topic == "orders"


def both() -> tuple[Thread, Thread, Thread]:
    return this_thread(), this_thread(), current_thread()


def test_each_thread_gets_its_own() -> None:
    first, again, known = both()
    assert first is again is known
    seen: list[tuple[Thread, ...]] = []
    for _ in range(3):  # the system gives the number of an ended thread to the next one
        thread = Thread(target=lambda: seen.append(both()))
        thread.start()
        thread.join(PATIENCE)
        assert set(seen.pop()) == {thread}


def test_a_thread_that_the_standard_library_did_not_start() -> None:
    told: SimpleQueue[Any] = SimpleQueue()
    _thread.start_new_thread(lambda: told.put(both()), ())
    assert len(set(told.get(timeout=PATIENCE))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system can't fork")
def test_a_forked_child_keeps_the_object_of_the_thread_that_forked() -> None:
    parent = this_thread()
    child = os.fork()
    if not child:
        os._exit(0 if set(both()) == {parent} else 1)
    assert os.waitpid(child, 0)[1] == 0
