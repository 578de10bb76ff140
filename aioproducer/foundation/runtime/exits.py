"""Calls at the exit of a process, a worker of multiprocessing included."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Any


class AtExit:
    """A call at the exit of this process, unless it is cancelled before."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._in_worker: Any = None
        atexit.register(call)
        # A worker that multiprocessing has forked ends without atexit.
        if (package := sys.modules.get("multiprocessing")) and package.parent_process():
            self._in_worker = package.util.Finalize(None, call, exitpriority=0)

    def cancel(self) -> None:
        """Don't call."""
        atexit.unregister(self._call)
        if self._in_worker is not None:
            self._in_worker.cancel()
