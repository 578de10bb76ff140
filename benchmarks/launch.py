"""Starts a module in a Python as users have it: ``python -m benchmarks.launch MODULE ARGUMENT…``.

Where hypothesis is installed, kio imports it; users do not have it, and the garbage collector looks
at all that was imported.
"""

from __future__ import annotations

import runpy
import sys


def command(module: str, *arguments: str) -> list[str]:
    """The command line that starts ``module``."""
    return [sys.executable, "-m", "benchmarks.launch", module, *arguments]


if __name__ == "__main__":
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
