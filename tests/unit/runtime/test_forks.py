"""Forked children: locks are free, and objects of the parent leave everything to it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.threads import free_lock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork()"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def in_child(call: Callable[[], bool]) -> bool:
    """The result of ``call`` in a forked child."""
    child = os.fork()
    if child == 0:
        answer = False
        try:
            answer = call()
        finally:
            os._exit(0 if answer else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Account:
    """An object of one process."""

    def __init__(self) -> None:
        self.disowned = 0

    def disown(self) -> None:
        self.disowned += 1


def test_a_child_disowns_what_lives() -> None:
    account = Account()
    forks.owned(account)
    assert in_child(lambda: account.disowned == 1)
    assert account.disowned == 0


def test_a_lock_that_another_thread_holds_is_free_in_a_child() -> None:
    lock = free_lock()
    held, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            ends.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    try:
        assert in_child(lambda: lock.acquire(timeout=5))
        assert not lock.acquire(blocking=False)
    finally:
        ends.set()
        holder.join()


def test_a_system_without_fork_calls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork")
    forks.in_child(lambda: pytest.fail("it is never called"))
