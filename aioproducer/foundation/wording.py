"""Durations and counts in texts for people: errors, log lines, the output of commands."""

from __future__ import annotations

from typing import Final

__all__ = ["counted", "duration"]

_TO_THE_SECOND: Final = 100.0
_SIBILANTS: Final = ("ch", "s", "x")


def duration(seconds: float) -> str:
    """``seconds`` with three digits at most, and to the second from 100 on: ``0.25 s``, ``2 s``."""
    if abs(seconds) < _TO_THE_SECOND:
        return f"{round(seconds, 3):.3g} s"
    return f"{seconds:.0f} s"


def counted(number: int, noun: str, form: str = "") -> str:
    """``1 record``, ``2 records``. ``form``: of the number, ``,`` for one with separators."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:{form}} {noun}{'es' if noun.endswith(_SIBILANTS) else 's'}"
