"""The interpreters that this package runs on: CPython 3.11 and newer, with the GIL.

The fast path and the compiled loops rely on the GIL: importing this module in a free-threaded build
raises ImportError, unless it runs with the GIL.
"""

from __future__ import annotations

import sys

__all__: list[str] = []

_is_gil_enabled = getattr(sys, "_is_gil_enabled", None)  # since Python 3.13

if _is_gil_enabled is not None and not _is_gil_enabled():
    raise ImportError(
        "aioproducer needs the GIL, and this Python runs without it: set PYTHON_GIL=1 in the "
        "environment, or use a build of Python that is not free-threaded"
    )
