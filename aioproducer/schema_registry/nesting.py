"""A bound for the nesting of values: compiled encoders crash where Python raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aioproducer.errors import SerializationError

DEEPEST: Final = 200
"""Levels of nested dicts, lists and tuples."""


def refuse_deep_nesting(value: Any, place: str) -> None:
    """Raise SerializationError if ``value`` is nested too deeply, or contains itself."""
    level = [value]
    for _ in range(DEEPEST):
        below: dict[int, Any] = {}  # an object that stands in two places counts once
        for each in level:
            if isinstance(each, Mapping):
                inner = each.values()
            elif isinstance(each, list | tuple):
                inner = each  # type: ignore[assignment]
            else:
                continue
            for item in inner:
                if isinstance(item, Mapping | list | tuple):
                    below[id(item)] = item
        if not below:
            return
        level = list(below.values())
    raise SerializationError(
        f"{place}: the value is nested more than {DEEPEST} levels deep, or contains itself"
    )
