"""The places at which tasks wait, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any


def places(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """A line for each task that is not done: its name, and the calls that wait for each other."""
    return "\n".join(
        f"  {task.get_name()}: {' -> '.join(map(_place, _frames(task.get_coro())))}"
        for task in tasks
        if not task.done()
    )


def _frames(awaited: Any) -> Iterator[tuple[str, FrameType]]:
    """The names and frames of a coroutine, and of whatever it awaits."""
    while awaited is not None:
        for frame, inner in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom")):
            if hasattr(awaited, inner):
                if getattr(awaited, frame) is not None:
                    yield awaited.__qualname__, getattr(awaited, frame)
                awaited = getattr(awaited, inner)
                break
        else:
            return


def _place(named: tuple[str, FrameType]) -> str:
    name, frame = named
    line: int | None = frame.f_lineno  # a compiled coroutine has none
    return f"{name}() in {Path(frame.f_code.co_filename).name}" + (f":{line}" if line else "")
