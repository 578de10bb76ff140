"""Calls that a signal handler or a finalizer makes in the midst of other calls.

A signal handler runs after calls of the main thread, and a finalizer at any allocation of any
thread. The tests enter before each bytecode of the room that may be such a place.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from aioproducer import sync
from aioproducer.errors import ProducerClosedError
from aioproducer.foundation import compiled
from aioproducer.testing import SyncMockProducer
from tests.support.switches import at_switch

ROOM = str(Path(sync.__file__).parent)
FEWEST = 5 if compiled.in_use() else 50
"""The bytecodes that each call has at least: a compiled part has none."""


def entered_before(number: int, call: Callable[[], object]) -> AbstractContextManager[list[str]]:
    """Run ``call`` before the bytecode ``number`` that this thread runs in the room.

    Yields a list, which gets the place of the bytecode.
    """
    return at_switch(number, ROOM, call, finalizers=True)


@pytest.fixture
def producer() -> Iterator[SyncMockProducer]:
    with SyncMockProducer(buffer_memory=200_000) as producer:
        yield producer


CALLS: dict[str, Callable[[SyncMockProducer], object]] = {
    "send": lambda producer: producer.send("outer", b"1"),
    "result": lambda producer: producer.send("outer", b"1").result(10),
    "callback": lambda producer: producer.send("outer", b"1").add_done_callback(id),
    "cancel": lambda producer: producer.send("outer", b"1").cancel(),
    "flush": lambda producer: producer.flush(),
    "send_many": lambda producer: producer.send_many("outer", iter([b"1"])),
}
INNER: dict[str, Callable[[SyncMockProducer], object]] = {
    "send": lambda producer: producer.send("inner", b"2"),
    "result": lambda producer: producer.send("inner", b"2").result(10),
    "flush": lambda producer: producer.flush(),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", CALLS)
def test_a_call_in_the_midst_of_another(
    producer: SyncMockProducer, caplog: pytest.LogCaptureFixture, outer: str, inner: str
) -> None:
    futures = []
    for number in range(100_000):
        with entered_before(number, lambda: futures.append(INNER[inner](producer))) as entered:
            CALLS[outer](producer)
        if not entered:
            break
    producer.flush(10)
    assert number > FEWEST
    # Clients of other tests may end in their own threads.
    assert not [each for each in caplog.records if f"[{producer.client_id}]" in each.getMessage()]
    assert len(producer.sent("inner")) == (0 if inner == "flush" else number)
    if outer != "cancel":  # a record that is taken back is not sent
        assert len(producer.sent("outer")) == (0 if outer == "flush" else number + 1)


@pytest.mark.parametrize("outer", ["send", "flush"])
def test_a_close_in_the_midst_of_a_call(outer: str) -> None:
    for number in range(100_000):
        with SyncMockProducer() as producer:
            before = producer.send("before", b"0")
            outcome: Any = None
            with entered_before(number, producer.close) as entered:
                try:
                    outcome = CALLS[outer](producer)
                except ProducerClosedError:
                    assert entered
            assert before.result(10)
            if outer == "send" and outcome is not None:
                producer.flush(10) if not entered else producer.close()
                assert outcome.result(10), entered
            if not entered:
                break
    assert number > FEWEST


def test_a_record_of_a_finalizer_in_the_producers_thread(producer: SyncMockProducer) -> None:
    for number in range(100_000):
        first = producer.send("outer", b"1")
        entered = producer._thread.ask(lambda number=number: loop_turn(producer, number))  # type: ignore[misc]
        assert first.result(10)
        if not entered:
            break
    producer.flush(10)
    assert number > FEWEST
    assert len(producer.sent("outer")) == 2 * (number + 1)
    assert len(producer.sent("inner")) == number


async def loop_turn(producer: SyncMockProducer, number: int) -> list[str]:
    """One turn of the pump, with a record that comes before a bytecode of it."""
    with entered_before(number, lambda: producer.send("inner", b"2")) as entered:
        producer.send("outer", b"1")
        await producer._thread.catch_up()
    return entered


HANDLERS = """
import faulthandler, gc, signal, sys
from aioproducer.errors import ProducerClosedError
from aioproducer.testing import SyncMockProducer

faulthandler.dump_traceback_later(100, exit=True)
within = closed = False
sent = 0

def send_again(*_):
    global within, sent
    if within or closed:
        return
    within = True
    try:
        producer.send("inner", b"2")
        sent += 1
        if sent % 20 == 0:
            producer.flush()
    finally:
        within = False

class Garbage:
    def __init__(self):
        self.me = self

    def __del__(self):
        send_again()

with SyncMockProducer() as producer:
    if sys.argv[1] == "signals":
        signal.signal(signal.SIGALRM, send_again)
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    else:
        gc.set_threshold(50)
    for number in range(3_000):
        future = producer.send("outer", b"%d" % number)
        if sys.argv[1] == "finalizers":
            Garbage()
        if number % 100 == 0:
            producer.flush()
        if number % 30 == 0:
            future.result()
    closed = True
    signal.setitimer(signal.ITIMER_REAL, 0)
    producer.close()
    assert [each.value for each in producer.sent("outer")] == [b"%d" % n for n in range(3_000)]
    assert 0 < len(producer.sent("inner")) == sent
"""


@pytest.mark.parametrize("by", ["signals", "finalizers"])
def test_handlers_send_and_flush_while_the_main_thread_does(by: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANDLERS, by],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
