"""Java's ``.properties`` syntax, as ``java.util.Properties.load`` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aioproducer.config.secret import Secret, without_frames
from aioproducer.errors import ConfigError

__all__ = ["decode_properties", "parse_properties"]

_BLANKS: Final = " \t\f"
_LINE_END: Final = r"\r\n|\n|\r"
_PAIR: Final = r"(?s)((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)"
_ESCAPE: Final = r"(?s)\\(u[0-9a-fA-F]{4}|.)"
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def decode_properties(data: bytes) -> Secret:
    """The file's text: UTF-8 (a byte order mark is dropped), else Latin-1 as old Java wrote."""
    try:
        return Secret(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Secret(data.decode("latin-1"))


def parse_properties(text: Secret, *, origin: str) -> dict[str, str]:
    """Keys and values in their order; of a repeated key the last value.

    Raises:
        ConfigError: a malformed ``\\u`` escape. The message names origin and line, not the value.
    """
    return without_frames(lambda text: _pairs(text.reveal(), origin), text)


def _pairs(text: str, origin: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, line in _logical_lines(text):
        pair = re.fullmatch(_PAIR, line)
        assert pair is not None  # a line never ends in an odd number of backslashes
        try:
            pairs[_unescape(pair[1])] = _unescape(pair[2])
        except ValueError:
            raise ConfigError(
                f"{origin}, line {number}: malformed \\u escape; it takes four hexadecimal digits"
            ) from None
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones, continuations joined, each with its number from 1."""
    natural = enumerate(re.split(_LINE_END, text), start=1)
    for number, first in natural:
        line = first.lstrip(_BLANKS)
        if line in ("", "\\") or line.startswith(("#", "!")):
            continue
        while _is_continued(line):
            _, following = next(natural, (0, ""))
            line = line[:-1] + following.lstrip(_BLANKS)
        yield number, line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    return _join_surrogates(re.sub(_ESCAPE, _unescaped, text))


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped == "u":
        raise ValueError
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _ESCAPED.get(escaped, escaped)


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
