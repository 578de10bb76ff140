"""Places in a partition, as they are written on the command line. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, Literal

from aioproducer.errors import ConfigError
from aioproducer.reader.positions import Position

__all__ = ["position"]

_WORDS: Final[dict[str, Literal["beginning", "end"]]] = {
    "beginning": "beginning",
    "earliest": "beginning",
    "end": "end",
    "latest": "end",
}
_NUMBER: Final = re.compile(r"-?\d{1,18}")


def position(option: str, text: str) -> Position:
    """The place that ``text`` means; a time without a zone is local.

    Raises:
        ConfigError: it is none.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return int(text)
    try:
        if text.startswith("@"):
            return datetime.fromtimestamp(float(text[1:]), UTC)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"{option} {text!r}: write beginning, end, an offset, -N for the last N records, "
            "a time such as 2026-01-31T12:00:00, or @ and seconds since 1970"
        ) from None
