"""Another thread's call at a place where the interpreter may switch to it.

CPython switches threads, and calls signal handlers, at the start of a function, after a call, and
at the end of a loop's round. Up to Python 3.11 it runs finalizers as it makes a container, too.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from tests.support.waiting import PATIENCE

_SWITCHES: Final = frozenset(
    dis.opmap[name]
    for name in ("RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
    if name in dis.opmap
)
_PLAIN: Final = frozenset(
    number
    for name, number in dis.opmap.items()
    if name.startswith(("LOAD_FAST", "STORE_FAST", "LOAD_CONST"))
    or name in ("BINARY_OP", "COPY", "POP_TOP", "STORE_ATTR", "SWAP")
)
"""They make no container and call nothing, as the room uses them: ``+=`` extends a list."""
_A_MOMENT: Final = 0.1
"""Seconds for the other thread; it may have to wait for the one that is interrupted."""


class Other(threading.Thread):
    """Runs ``call`` in a thread, and keeps its result or error."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.result: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error

    def ended(self) -> Other:
        """Wait for the end."""
        self.join(PATIENCE)
        assert not self.is_alive(), "the call hangs"
        return self


def in_other_thread(call: Callable[[], object]) -> Other:
    """Run ``call`` in another thread to its end, or as far as it comes without this one."""
    other = Other(call)
    other.start()
    other.join(_A_MOMENT)
    return other


@contextmanager
def at_switch(
    number: int, files: str, call: Callable[[], object], *, finalizers: bool = False
) -> Iterator[list[str]]:
    """Run ``call`` at the place ``number`` where this thread may be switched, in ``files``.

    ``files``: the beginning of their paths. ``finalizers``: each bytecode is a place that may make
    a container. Yields a list, which gets the place; it stays empty if there are fewer places.
    """
    left, places = number, list[str]()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if places or not frame.f_code.co_filename.startswith(files):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            before = last.get(frame)
            last[frame] = code = frame.f_code.co_code[frame.f_lasti]
            if before is None or before in _SWITCHES or (finalizers and code not in _PLAIN):
                left -= 1
            if left < 0:
                places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
                call()
        elif event == "return":
            last.pop(frame, None)
        return trace

    former = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # else Python 3.12 leaves out the first calls
    sys.settrace(trace)
    try:
        yield places
    finally:
        sys.settrace(former)
