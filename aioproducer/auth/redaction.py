"""Text of a peer, made fit for a message: short, printable, and without our secrets."""

from __future__ import annotations

from typing import Final

from aioproducer.config.secret import MASK, Secret

__all__ = ["printable"]

_MOST: Final = 300


def printable(text: object, *secrets: Secret) -> str:
    """``text`` in quotes, at most 300 characters of it; a secret that it repeats is masked."""
    shown = str(text)
    for secret in secrets:
        if secret.reveal():
            shown = shown.replace(secret.reveal(), MASK)
    if len(shown) > _MOST:
        shown = f"{shown[:_MOST]}…"
    return ascii(shown)
