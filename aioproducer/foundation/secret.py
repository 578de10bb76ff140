"""A string that is never shown, the trace of a value that was no string, and a peer's text.

A message gets a peer's text short, printable, and without our secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, final

__all__ = [
    "MASK",
    "Hidden",
    "Secret",
    "hidden",
    "masked",
    "printable",
    "type_name_of",
    "without_frames",
]

_Read = TypeVar("_Read")

MASK: Final = "********"


@final
class Secret:
    """A password, or a line holding one; ``str``, ``repr`` and ``format`` give a fixed mask.

    Not a ``str`` on purpose: concatenation, ``json.dumps`` and ``"".join`` fail, they do not leak.
    """

    __slots__ = ("_text",)
    __module__ = "aioproducer.config"  # the public name, which a pickle has

    _text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        """The text itself, for the one place that puts it on the wire."""
        return self._text

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Secret is immutable")

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, format_spec: str) -> str:
        return format(MASK, format_spec)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, (self._text,))


@final
class Hidden:
    """Stands for a value that no option accepts and nobody may see; its type's name remains."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"Hidden({self.type_name!r})"


def hidden(value: object) -> Secret | Hidden | None:
    """``value`` as a text that is not shown; of another type than ``str``, only its type."""
    if value is None or isinstance(value, (Secret, Hidden)):
        return value
    return Secret(value) if isinstance(value, str) else Hidden(type(value).__name__)


def without_frames(read: Callable[[Secret], _Read], text: Secret) -> _Read:
    """``read(text)``. Its error has no frame of ``read()``, as these have pieces of the text, which
    Sentry, rich and ``pytest --showlocals`` would show."""
    try:
        return read(text)
    except Exception as error:
        failed = error.with_traceback(None)
    failed.__cause__ = failed.__context__ = None
    try:
        raise failed
    finally:
        del failed


def type_name_of(value: object) -> str:
    """The name of the type that a value has, or had before it was hidden."""
    if isinstance(value, Hidden):
        return value.type_name
    return str.__name__ if isinstance(value, Secret) else type(value).__name__


_SHOWN: Final = 300


def masked(text: str, *secrets: Secret) -> str:
    """``text`` with a mask in place of each secret that it repeats."""
    for secret in secrets:
        if secret.reveal():
            text = text.replace(secret.reveal(), MASK)
    return text


def printable(text: object, *secrets: Secret) -> str:
    """``text`` in quotes, at most 300 characters of it; a secret that it repeats is masked."""
    shown = masked(str(text), *secrets)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}…"
    return ascii(shown)
