"""The line of ``sasl.jaas.config``: ``<login module> <control flag> (<name>=<value>)* ;``

Kafka reads it with a ``java.io.StreamTokenizer`` (``org.apache.kafka.common.security.JaasConfig``):
values stand in single or double quotes with backslash escapes, or are bare words. No error shows a
piece of the line, because a misplaced quote turns a password into a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

__all__ = ["JaasEntry", "parse_jaas"]

_CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n\r]* | /\*.*?\*/ )
  | "(?P<double> (?: [^"\\\n\r] | \\[^\n\r] )* )"
  | '(?P<single> (?: [^'\\\n\r] | \\[^\n\r] )* )'
  | (?P<sign> [=;] )
  | (?P<word> [\w$.+-]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)")
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module and its options, all of which count as secret."""

    login_module: str
    control_flag: str
    options: tuple[tuple[str, Secret], ...]

    def get(self, name: str) -> Secret | None:
        """The option's value (of a repeated one the last), or None."""
        return dict(self.options).get(name)


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_jaas(line: str | Secret) -> JaasEntry:
    """Read a line with exactly one login module.

    Raises:
        ConfigError: the line is malformed; the message gives the position (in characters from 1)
            and the missing part, never a piece of the line.
    """
    text = line.reveal() if isinstance(line, Secret) else line
    tokens = _tokens(text)
    module = _expect(tokens, "word", "the login module's class name")
    flag = _expect(tokens, "word", "the control flag")
    if flag.text.lower() not in _CONTROL_FLAGS:
        raise _error(flag.position, f"the control flag must be one of {', '.join(_CONTROL_FLAGS)}")
    options = tuple(_options(tokens))
    extra = next(tokens)
    if extra.kind != "end":
        raise _error(extra.position, "exactly one login module, but more follows the ';'")
    return JaasEntry(module.text, flag.text.lower(), options)


def _options(tokens: Iterator[_Token]) -> Iterator[tuple[str, Secret]]:
    while (name := next(tokens)).text != ";" or name.kind != "sign":
        if name.kind == "end":
            raise _error(name.position, "the closing ';' is missing")
        if name.kind != "word":
            raise _error(name.position, "an option's name was expected")
        equals = next(tokens)
        if equals.kind != "sign" or equals.text != "=":
            raise _error(equals.position, "'=' was expected after an option's name")
        value = next(tokens)
        if value.kind not in ("word", "quoted"):
            raise _error(value.position, "a value was expected after '='")
        yield name.text, Secret(value.text)


def _expect(tokens: Iterator[_Token], kind: str, what: str) -> _Token:
    token = next(tokens)
    if token.kind != kind:
        raise _error(token.position, f"{what} was expected")
    return token


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _error(position, "an unclosed quote, or a character that must be in quotes")
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield _Token("quoted", _ESCAPE.sub(_unescape, match[kind]), position)
        elif kind is not None and kind != "blank":
            yield _Token(kind, match[kind], position)
        position = match.end()
    while True:
        yield _Token("end", "", position)


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)


def _error(position: int, problem: str) -> ConfigError:
    return ConfigError(
        f"sasl_jaas_config: at character {position + 1}: {problem}; the form is"
        " 'org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="…" password="…";\' (the given line is not shown, it may hold a password)'
    )
