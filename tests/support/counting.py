"""Work that is counted, for tests of how costs grow: they may not depend on the machine's speed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import aioproducer

_ROOT = str(Path(aioproducer.__file__).parent)


class Lines:
    """The executed lines of this project's own code; each pass of a loop counts."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            return self.trace if frame.f_code.co_filename.startswith(_ROOT) else None
        self.count += event == "line"
        return self.trace


@contextmanager
def counted_lines() -> Iterator[Lines]:
    """Count the lines that are executed in the context, in this thread."""
    lines, before = Lines(), sys.gettrace()
    sys.settrace(lines.trace)
    try:
        yield lines
    finally:
        sys.settrace(before)
