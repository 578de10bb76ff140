"""Threads that begin when they are needed, are never too many, and keep nobody waiting."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from aioproducer.errors import ProducerTimeoutError
from aioproducer.foundation.runtime.threads import DaemonThreads, ThreadForEach, load

PATIENCE = 60.0


def alive() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if each.name.startswith("mine-"))


@pytest.fixture
def threads() -> Iterator[DaemonThreads]:
    threads = DaemonThreads("mine", 2)
    yield threads
    threads.shutdown()


def test_as_many_as_are_needed_and_no_more(threads: DaemonThreads) -> None:
    assert alive() == []
    gate, begun = threading.Event(), threading.Semaphore(0)

    def job() -> str:
        begun.release()
        assert gate.wait(PATIENCE)
        return threading.current_thread().name

    futures: list[Future[str]] = []
    for expected in (["mine-0"], ["mine-0", "mine-1"], ["mine-0", "mine-1"]):
        futures.append(threads.submit(job))
        assert alive() == expected
    for _ in range(2):
        assert begun.acquire(timeout=PATIENCE)
    assert not futures[2].running()
    gate.set()
    assert {future.result(PATIENCE) for future in futures} == {"mine-0", "mine-1"}
    assert threads.submit(lambda: 7).result(PATIENCE) == 7


def test_what_a_call_raises_is_its_futures(threads: DaemonThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(PATIENCE)
    assert threads.submit(divmod, 7, 4).result(PATIENCE) == (1, 3)


def test_the_end_waits_for_nobody_and_drops_what_has_not_begun() -> None:
    threads = DaemonThreads("mine", 1)
    gate, begun = threading.Event(), threading.Event()

    def run() -> bool:
        begun.set()
        return gate.wait(PATIENCE)

    running = threads.submit(run)
    waiting = threads.submit(lambda: "never")
    assert begun.wait(PATIENCE)
    (thread,) = threads._begun
    threads.shutdown(cancel_futures=True)
    threads.shutdown(cancel_futures=True)
    assert waiting.cancelled()
    assert not running.done()
    with pytest.raises(RuntimeError, match="ended"):
        threads.submit(lambda: None)
    gate.set()
    assert running.result(PATIENCE) is True
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_without_a_thread_calls_are_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads = DaemonThreads("mine", 2)
    names = {threads.submit(lambda: threading.current_thread().name).result(0) for _ in range(3)}
    assert names == {threading.current_thread().name}


def test_one_that_hangs_holds_up_no_other() -> None:
    lookups, gate = ThreadForEach("mine"), threading.Event()
    hanging = [lookups.submit(gate.wait, PATIENCE) for _ in range(100)]
    assert lookups.submit(lambda: 7).result(PATIENCE) == 7
    gate.set()
    assert not wait(hanging, PATIENCE).not_done


def test_calls_that_hang_take_a_bounded_number_of_threads() -> None:
    calls, gate = ThreadForEach("mine", most=3), threading.Event()
    hanging = [calls.submit(gate.wait, PATIENCE) for _ in range(3)]
    for _ in range(2):
        with pytest.raises(ProducerTimeoutError, match=r"^3 calls of the same kind have not ret"):
            calls.submit(lambda: 7)
    gate.set()
    assert not wait(hanging, PATIENCE).not_done
    for _ in range(9):
        assert calls.submit(lambda: 7).result(PATIENCE) == 7


def test_the_interpreters_exit_waits_for_none() -> None:
    script = """
        import threading
        from aioproducer.foundation.runtime.threads import DaemonThreads, ThreadForEach, load

        for threads in (DaemonThreads("mine", 1), ThreadForEach("mine")):
            begun = threading.Event()
            threads.submit(lambda: begun.set() or threading.Event().wait())
            assert begun.wait(60)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=PATIENCE)


async def test_modules_are_loaded_once_and_beside_the_event_loop() -> None:
    threads = []

    def first() -> None:
        threads.append(threading.current_thread())

    def second() -> None:
        threads.append(threading.current_thread())

    await load([first])
    await load([first, second])
    await load([second, first])
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_a_load_that_fails_is_tried_again() -> None:
    attempts: list[int] = []

    def fail_once() -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise OSError(24, "Too many open files")

    with pytest.raises(OSError, match="Too many"):
        await load([fail_once])
    await load([fail_once])
    await load([fail_once])
    assert attempts == [0, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork()")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_waits_for_modules_that_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, begun = "loaded_at_a_fork", tmp_path / "begun"
    (tmp_path / f"{name}.py").write_text(
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(0.3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def slow() -> None:
        importlib.import_module(name)

    loading = threading.Thread(target=asyncio.run, args=[load([slow])])
    loading.start()
    while not begun.exists():
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        importlib.import_module(name)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loading.join()
