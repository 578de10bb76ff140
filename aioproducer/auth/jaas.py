"""The line of ``sasl.jaas.config``: ``<login module> <control flag> (<name>=<value>)* ;``

:class:`LoginSources` reads a setting of a login from its keyword or from this line.

Kafka reads it with a ``java.io.StreamTokenizer`` (``org.apache.kafka.common.security.JaasConfig``):
values stand in single or double quotes with backslash escapes, or are bare words. No error shows a
piece of the line, because a misplaced quote turns a password into a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from aioproducer.auth.mechanism import Options
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret, without_frames

__all__ = ["JaasEntry", "LoginSources", "mechanisms_of_module", "parse_jaas", "plain_class_name"]

_CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = r"""
    (?P<blank> \s+ | //[^\n\r]* | /\*.*?\*/ )
  | "(?P<double> (?: [^"\\\n\r] | \\[^\n\r] )* )"
  | '(?P<single> (?: [^'\\\n\r] | \\[^\n\r] )* )'
  | (?P<sign> [=;] )
  | (?P<word> [\w$.+-]+ )
    """
_ESCAPE: Final = r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)"
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_KAFKA: Final = "org.apache.kafka.common.security"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES: Final[dict[str, tuple[str, ...]]] = {
    f"{_KAFKA}.plain.PlainLoginModule": ("PLAIN",),
    f"{_KAFKA}.scram.ScramLoginModule": _SCRAM,
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
    "com.ibm.security.auth.module.Krb5LoginModule": ("GSSAPI",),
    "software.amazon.msk.auth.iam.IAMLoginModule": ("AWS_MSK_IAM",),
}
_SHADED: Final = r"\w+\.(?=org\.apache\.kafka\.|software\.amazon\.msk\.)"
"""Distributions of Spark carry these classes under a package of their own (``kafkashaded.…``)."""
_CLASS_NAME: Final = r"(?:[A-Za-z_]\w*\.)+[A-Z]\w*Module"
_TRUE: Final = "true"


class JaasEntry(NamedTuple):
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
    line = line if isinstance(line, Secret) else Secret(line)
    return without_frames(_entry, line)


def _entry(line: Secret) -> JaasEntry:
    tokens = _tokens(line.reveal())
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
    token = re.compile(_TOKEN, re.VERBOSE | re.DOTALL)
    while position < len(text):
        match = token.match(text, position)
        if match is None:
            raise _error(position, "an unclosed quote, or a character that must be in quotes")
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield _Token("quoted", re.sub(_ESCAPE, _unescape, match[kind]), position)
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
        ' username="…" password="…";\' (the line is not shown because it may contain a password)'
    )


def plain_class_name(name: str) -> str:
    """The class's own name, without the package that a distribution has put before it."""
    name = name.strip()
    prefix = re.match(_SHADED, name)
    return name[prefix.end() :] if prefix else name


def mechanisms_of_module(login_module: str) -> tuple[str, ...]:
    """The mechanisms that a login module is for.

    Raises:
        ConfigError: the module is not known here.
    """
    found = _MODULES.get(plain_class_name(login_module))
    if found is not None:
        return found
    # A misplaced quote makes a word of a password: only a word like a class name is shown.
    named = f" {login_module}" if re.fullmatch(_CLASS_NAME, login_module, re.ASCII) else ""
    known = (name.rpartition(".")[2] for name in _MODULES if ".ibm." not in name)
    raise ConfigError(
        f"sasl_jaas_config: the login module{named} is not supported; use one of {', '.join(known)}"
        " of Kafka, Java and aws-msk-iam-auth"
    )


class LoginSources:
    """The settings of a login in ``config``, from keywords and JAAS line together."""

    def __init__(self, config: Options) -> None:
        self.config = config
        line = config.sasl_jaas_config
        self.jaas: JaasEntry | None = None if line is None else parse_jaas(line)

    def secret(self, keyword: str | None, jaas_name: str | None) -> Secret | None:
        """The text of either place; None if neither has it.

        Raises:
            ConfigError: both have it, and differ.
        """
        given = None if keyword is None else getattr(self.config, keyword)
        there = None if self.jaas is None or jaas_name is None else self.jaas.get(jaas_name)
        if given is None:
            return there
        given = given if isinstance(given, Secret) else Secret(given)
        if there is not None and there != given:
            raise ConfigError(
                f"{keyword} and {jaas_name} of sasl_jaas_config differ: set one of "
                "them, or both to the same value"
            )
        return given

    def text(self, keyword: str | None, jaas_name: str | None) -> str | None:
        """Like :meth:`secret`, for a text that may be shown; an empty string is none."""
        found = self.secret(keyword, jaas_name)
        return (found.reveal() or None) if found is not None else None

    def flag(self, jaas_name: str) -> bool:
        """True if the JAAS line says ``true``."""
        found = None if self.jaas is None else self.jaas.get(jaas_name)
        return found is not None and found.reveal().strip().lower() == _TRUE

    def beginning_with(self, prefix: str) -> dict[str, str]:
        """The JAAS line's options whose names begin so, by the rest of their names."""
        options = () if self.jaas is None else self.jaas.options
        return {
            name.removeprefix(prefix): value.reveal()
            for name, value in options
            if name.startswith(prefix)
        }
