"""Text of a peer: read as a JSON object, or made fit for a message.

A message gets a text that is short, printable, and without our secrets.
"""

from __future__ import annotations

import json
from typing import Any, Final

from aioproducer.config.secret import MASK, Secret

__all__ = ["json_object", "masked", "printable"]

_MOST: Final = 300


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in ``text``; None for any other text."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def masked(text: str, *secrets: Secret) -> str:
    """``text`` with a mask in place of each secret that it repeats."""
    for secret in secrets:
        if secret.reveal():
            text = text.replace(secret.reveal(), MASK)
    return text


def printable(text: object, *secrets: Secret) -> str:
    """``text`` in quotes, at most 300 characters of it; a secret that it repeats is masked."""
    shown = masked(str(text), *secrets)
    if len(shown) > _MOST:
        shown = f"{shown[:_MOST]}…"
    return ascii(shown)
