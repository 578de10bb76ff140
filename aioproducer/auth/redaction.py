"""Text of a peer, made fit for a message: short, printable, and without our secrets."""

from __future__ import annotations

from typing import Final

from aioproducer.config.secret import MASK, Secret

__all__ = ["masked", "printable"]

_MOST: Final = 300


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
