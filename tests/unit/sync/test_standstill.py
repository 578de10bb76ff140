"""The threads of blocking producers stand still during a fork."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.sync import Producer, loop_thread
from tests.support.switches import at_switch

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork()"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@pytest.fixture
def producer() -> Iterator[Producer]:
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:
        yield producer
        producer.close(0)


def exit_code_of_child(module: str) -> int:
    """The exit code of a forked child that imports ``module``."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        code = 1
        try:
            importlib.import_module(module)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_may_import_the_module_that_a_producer_imports(
    producer: Producer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of the module was held for ever, and the child hung."""
    name = "imported_at_a_fork"
    begun = tmp_path / "begun"
    (tmp_path / f"{name}.py").write_text(
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(0.3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert producer._thread.post(lambda: importlib.import_module(name))
    while not begun.exists():
        time.sleep(0.001)
    assert exit_code_of_child(name) == 0
    producer.flush()  # the thread goes on


def test_a_busy_thread_delays_a_fork_for_a_bounded_time(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_thread, "_LONGEST", 0.1)
    busy, ends = threading.Event(), threading.Event()

    def stay() -> None:
        busy.set()
        ends.wait(30)

    assert producer._thread.post(stay)
    busy.wait(30)
    began = time.monotonic()
    assert exit_code_of_child("os") == 0
    assert 0.1 <= time.monotonic() - began < 5
    ends.set()


def test_a_fork_in_the_thread_itself_does_not_wait(producer: Producer) -> None:
    codes: list[int] = []
    forked = threading.Event()

    def fork() -> None:
        assert not producer._thread.post(forked.set)
        codes.append(exit_code_of_child("os"))
        forked.set()

    assert producer._thread.post(fork)
    assert forked.wait(30)
    assert codes == [0]


def test_a_closed_producer_stops_nothing(producer: Producer) -> None:
    producer.close(0)
    assert not producer._thread.post(lambda: None)


class Thread:
    """A thread that has nothing to stop."""

    def post(self, _: object) -> bool:
        return False


def test_producers_that_start_during_a_fork() -> None:
    stopped = Thread()
    loop_thread.stops_at_forks(stopped)
    more: list[Thread] = []

    def start() -> None:
        more.append(Thread())
        loop_thread.stops_at_forks(more[-1])

    for number in range(100):
        with at_switch(number, str(Path(weakref.__file__).parent), start) as places:
            loop_thread._before()
        loop_thread._after()
        if not places:
            return
    raise AssertionError("there are more places")
