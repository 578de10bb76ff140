"""Run programs on the faster event loop, uvloop, if it is installed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aioproducer.errors import IllegalStateError

__all__ = ["run"]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` like ``asyncio.run``, on uvloop if it is installed (``aioproducer[uvloop]``).

    The producer works on both. uvloop needs less time per record and acknowledges sooner.

    Raises:
        IllegalStateError: an event loop is already running in this thread, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        if asyncio.iscoroutine(main):
            main.close()
        raise IllegalStateError(
            "an event loop runs in this thread already, as in a notebook: use `await main()` there "
            "instead of loops.run(main())"
        )
    with asyncio.Runner(loop_factory=_uvloop()) as runner:
        return runner.run(main)


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    open_standard_descriptors()
    return uvloop.new_event_loop


def open_standard_descriptors() -> None:
    """Open the null device in place of closed standard input, output and error.

    Else the next sockets and files get their numbers. uvloop aborts the process when it closes such
    a socket, and another library may write its text into one. ``sys.stdout`` and the others stay as
    they are: None, if they were closed at the start of the process.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # the lowest free number is the one that is missing
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
