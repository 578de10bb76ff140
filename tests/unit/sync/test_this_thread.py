"""The object of the calling thread is the standard library's."""

from __future__ import annotations

import _thread
import os
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any

import pytest

from aioproducer.sync.inbox import this_thread
from tests.support.waiting import PATIENCE


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
