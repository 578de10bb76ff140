"""The warning of a process that runs the Python source in place of the compiled modules."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from aioproducer.foundation import compiled

__all__ = ["new_warning"]

_PACKAGE: Final = Path(__file__).parents[2]
_given = False


def new_warning() -> str | None:
    """The text to log; None: this process has logged it, or the environment chooses the source."""
    global _given
    if _given or compiled.is_source_wanted():
        return None
    _given = True
    return (
        "aioproducer runs without its compiled modules, so a record costs up to seven times as "
        f"much CPU. It was imported from {_PACKAGE}; {_advice()}. AIOPRODUCER_PURE_PYTHON=1 in the "
        "environment chooses this, and ends the warning"
    )


def _advice() -> str:
    other = _other_copy()
    if other is not None:
        return f"another copy is installed in {other}, which programs outside of this folder import"
    if compiled.is_checkout():
        return "it is a source folder, which pip install -e compiles if there is a C compiler"
    return "install a wheel, or have a C compiler when you install it"


def _other_copy() -> Path | None:
    """The package of an installation that is not the one that runs."""
    for each in distributions(name="aioproducer"):
        found = Path(str(each.locate_file(_PACKAGE.name))).resolve()
        if (found / "__init__.py").exists() and found != _PACKAGE.resolve():
            return found
    return None
