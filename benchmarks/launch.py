"""Starts a module in a Python as users have it: ``python -m benchmarks.launch MODULE ARGUMENT…``.

Where hypothesis is installed, kio imports it; users do not have it, and the garbage collector looks
at all that was imported.
"""

from __future__ import annotations

import os
import runpy
import sys


def command(module: str, *arguments: str) -> list[str]:
    """The command line that starts ``module``."""
    return [sys.executable, "-m", "benchmarks.launch", module, *arguments]


def environment(bytecode: str) -> dict[str, str]:
    """For a process whose start is measured: the second one finds all modules compiled.

    ``bytecode`` is a directory for them. An installed package has them, a checkout need not.
    """
    ours = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**ours, "PYTHONPYCACHEPREFIX": bytecode}


if __name__ == "__main__":
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
