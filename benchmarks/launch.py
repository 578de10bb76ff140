"""Starts a module in a Python of its own."""

from __future__ import annotations

import os
import sys


def command(module: str, *arguments: str) -> list[str]:
    """The command line that starts ``module``."""
    return [sys.executable, "-m", module, *arguments]


def environment(bytecode: str) -> dict[str, str]:
    """For a process whose start is measured: the second one finds all modules compiled.

    ``bytecode`` is a directory for them. An installed package has them, a checkout need not.
    """
    return {**without_bytecode_rules(), "PYTHONPYCACHEPREFIX": bytecode}


def without_bytecode_rules() -> dict[str, str]:
    """Our variables, without the one that forbids compiled modules."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
