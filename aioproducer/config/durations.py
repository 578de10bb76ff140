"""Durations as ``auto_offset_reset`` has them (KIP-1106). No I/O."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_PREFIX: Final = "by_duration:"
_ISO: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)


def by_duration(text: str) -> timedelta | None:
    """The duration in ``by_duration:P1DT12H``; None: it is no such text.

    Source: Java's ``Duration.parse()``, without negative parts.
    """
    if not text.lower().startswith(_PREFIX):
        return None
    found = _ISO.fullmatch(text[len(_PREFIX) :])
    if found is None:
        return None
    parts = {unit: float(number) for unit, number in found.groupdict().items() if number}
    try:
        return timedelta(**parts) if parts else None
    except OverflowError:
        return None
