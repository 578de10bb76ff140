"""The checks that user names and passwords pass before a mechanism takes them, and SASLprep.

SASLprep is RFC 4013, a profile of RFC 3454, with the tables and the normalization of Unicode 3.2.
Strings are prepared as queries: code points that Unicode 3.2 does not know pass.

No function here raises while it holds a revealed secret: a traceback keeps the variables of its
frames, and some tools print them.
"""

from __future__ import annotations

import stringprep
from collections.abc import Callable
from typing import Final
from unicodedata import ucd_3_2_0

from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

__all__ = [
    "prohibition",
    "saslprep",
    "prepared",
    "sendable",
]


_PROHIBITED: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    ("a space other than U+0020", stringprep.in_table_c12),
    ("a control character", stringprep.in_table_c21_c22),
    ("a character for private use", stringprep.in_table_c3),
    ("a code point without a character", stringprep.in_table_c4),
    ("a surrogate", stringprep.in_table_c5),
    ("a character that is inappropriate for plain text", stringprep.in_table_c6),
    ("a character that is inappropriate for canonical representation", stringprep.in_table_c7),
    ("a character that changes how others are displayed", stringprep.in_table_c8),
    ("a tagging character", stringprep.in_table_c9),
)


def saslprep(text: str) -> str:
    """``text``, mapped and normalized; :func:`prohibition` says whether it may be used then."""
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    return ucd_3_2_0.normalize("NFKC", mapped)


def prohibition(prepared: str) -> str | None:
    """The reason why a prepared string may not be used, without a piece of it; None if it may."""
    for position, character in enumerate(prepared, 1):
        for reason, contains in _PROHIBITED:
            if contains(character):
                return f"character {position} is {reason}"
    return _mixed_directions(prepared)


def _mixed_directions(prepared: str) -> str | None:
    """Section 6 of RFC 3454."""
    right_to_left = [stringprep.in_table_d1(character) for character in prepared]
    if not any(right_to_left):
        return None
    if any(map(stringprep.in_table_d2, prepared)):
        return "it mixes right-to-left characters with others"
    if not (right_to_left[0] and right_to_left[-1]):
        return "it contains right-to-left characters, but does not begin and end with one"
    return None


def sendable(what: str, text: Secret) -> Secret:
    """``text`` as it is, if it can be sent.

    Raises:
        ConfigError: it is empty, has a NUL, or can't be written as UTF-8.
    """
    if problem := _problem(text.reveal()):
        raise ConfigError(f"{what} {problem}; it is not shown")
    return text


def prepared(what: str, text: Secret) -> Secret:
    """``text`` after SASLprep.

    Raises:
        ConfigError: as :func:`sendable`, or SASLprep prohibits it.
    """
    sendable(what, text)
    after = Secret(saslprep(text.reveal()))
    if problem := prohibition(after.reveal()):
        raise ConfigError(
            f"{what} can't be used: after SASLprep (RFC 4013) {problem}; it is not shown"
        )
    return sendable(f"after SASLprep (RFC 4013), {what}", after)


def _problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if "\0" in text:
        return "contains a NUL character (U+0000), which no server accepts"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "contains a surrogate, which UTF-8 can't encode"
    return None
