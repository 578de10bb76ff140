"""Event loops whose tasks run at once, up to their first wait, as ``asyncio.eager_task_factory``.

``AIOPRODUCER_EAGER_TASKS=1 python -m pytest`` runs the tests on such loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def make_all_loops_eager() -> None:
    """Give each event loop of asyncio that is made from now on a factory of eager tasks."""
    base: Any = asyncio.BaseEventLoop
    make = base.__init__

    def make_eager(loop: Any) -> None:
        make(loop)
        loop.set_task_factory(eager_task_factory)

    base.__init__ = make_eager


def _eager(loop: Any, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    """A task that has run up to its first wait, on a Python without eager tasks."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    if loop.is_running():
        first_step = loop._ready.pop()
        creator = asyncio.tasks._current_tasks.pop(loop, None)  # type: ignore[attr-defined]
        try:
            first_step._run()
        finally:
            if creator is not None:
                asyncio.tasks._current_tasks[loop] = creator  # type: ignore[attr-defined]
    return task


eager_task_factory: Any = getattr(asyncio, "eager_task_factory", _eager)
