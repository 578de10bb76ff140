"""Places in a partition, as they are written on the command line. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from aioproducer.errors import ConfigError
from aioproducer.reader.positions import Position

__all__ = ["moment", "position"]

_WORDS: Final[dict[str, Literal["beginning", "end"]]] = {
    "beginning": "beginning",
    "earliest": "beginning",
    "end": "end",
    "latest": "end",
}
_NUMBER: Final = re.compile(r"-?\d{1,18}")
_DURATION: Final = re.compile(r"(?=\d)" + "".join(rf"(?:(\d{{1,9}}){unit})?" for unit in "wdhms"))
"""Such as ``1h`` or ``1d12h``: weeks, days, hours, minutes and seconds."""
_TIMES: Final = "2026-01-31T12:00:00, @ and seconds since 1970, or a duration such as 1h (ago)"


def position(option: str, text: str, now: datetime) -> Position:
    """The place that ``text`` means; a time without a zone is local.

    Raises:
        ConfigError: it is none.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return int(text)
    found = _moment(text, now)
    if found is None:
        raise ConfigError(
            f"{option} {text!r}: write beginning, end, an offset, -N for the last N records, "
            f"or a time: {_TIMES}"
        )
    return found


def moment(option: str, text: str, now: datetime) -> datetime:
    """The time that ``text`` means; one without a zone is local, a duration ends ``now``.

    Raises:
        ConfigError: it is none.
    """
    found = _moment(text, now)
    if found is None:
        raise ConfigError(f"{option} {text!r}: write a time: {_TIMES}")
    return found


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        if ago := _DURATION.fullmatch(text):
            weeks, days, hours, minutes, seconds = (int(each or 0) for each in ago.groups())
            return now - timedelta(
                weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds
            )
        if text.startswith("@"):
            return datetime.fromtimestamp(float(text[1:]), UTC)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
