"""Java's ``.properties`` files, and the placeholders in their values.

The syntax is that of ``java.util.Properties.load``. A placeholder, ``${provider:[path:]key}``, is a
value that stands somewhere else (KIP-297, KIP-421). The three providers are Kafka's:
``EnvVarConfigProvider``, ``FileConfigProvider``, ``DirectoryConfigProvider``. Their sources are an
argument, :data:`THIS_PROCESS` or a test's own.

A text is expanded once: :meth:`Reference.in_value` finds placeholders in the options that a user
wrote, and in nothing else. The values of a configuration are :class:`Settled` if they look like
placeholders, so that none is found in them again, whoever hands them on.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import MASK, Secret, without_frames

__all__ = [
    "decode_properties",
    "parse_properties",
    "AUTOMATIC_CONFIG_PROVIDERS",
    "BUILT_IN",
    "BUILT_IN_PROPERTIES",
    "CONFIG_PROVIDERS",
    "THIS_PROCESS",
    "Provider",
    "Providers",
    "Reference",
    "Settled",
    "Surroundings",
    "UnresolvedError",
    "settled",
]


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


ProviderKind: TypeAlias = Literal["env", "file", "dir"]

CONFIG_PROVIDERS: Final = "config.providers"
AUTOMATIC_CONFIG_PROVIDERS: Final = "AIOPRODUCER_AUTOMATIC_CONFIG_PROVIDERS"
"""The environment variable with the only providers that placeholders may use in this process, as
Kafka's system property ``org.apache.kafka.automatic.config.providers`` (CVE-2024-31141): a list of
class names, or of ``env``, ``file`` and ``dir``; ``none``: no provider. Not set: all of them."""
_PACKAGE: Final = "org.apache.kafka.common.config.provider"
_CLASSES: Final[dict[str, ProviderKind]] = {
    f"{_PACKAGE}.EnvVarConfigProvider": "env",
    f"{_PACKAGE}.FileConfigProvider": "file",
    f"{_PACKAGE}.DirectoryConfigProvider": "dir",
    "io.strimzi.kafka.EnvVarConfigProvider": "env",
}
_PLACEHOLDER: Final = r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}"


class UnresolvedError(ConfigError):
    """A placeholder's variable, file or key is not there, in this process."""


class Settled(str):
    """A text that is used as it is, although it looks like a placeholder."""

    __slots__ = ()


def settled(value: Any) -> Any:
    """An option's final value, marked if it is a text in which a placeholder could be found."""
    if isinstance(value, Secret):
        text = settled(value.reveal())
        return Secret(text) if isinstance(text, Settled) else value
    return Settled(value) if isinstance(value, str) and "${" in value else value


class Surroundings(Protocol):
    """The sources of placeholders."""

    def variable(self, name: str) -> str | None:
        """An environment variable; None if it is not set."""

    def content(self, path: str) -> bytes:
        """A file's content. Raises OSError."""


class Provider(NamedTuple):
    """One of Kafka's providers, with its restrictions."""

    kind: ProviderKind
    allowed_paths: tuple[str, ...] = ()
    """The only files and directories that are read; empty: all may be."""
    allowlist_pattern: str | None = None
    """The pattern of the names of variables that are read; None: all may be."""
    automatic: bool = True
    """False: an option names this file, and no placeholder that a user wrote."""


class Providers(NamedTuple):
    """Providers by the names that placeholders have for them."""

    known: tuple[tuple[str, Provider], ...]
    refused: tuple[tuple[str, str], ...] = ()
    """Names in ``config.providers`` that have no provider here, each with the reason."""

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> Providers | None:
        """The providers that ``config.providers`` names; None if it names none.

        Raises:
            ConfigError: a restriction is malformed.
        """
        text = properties.get(CONFIG_PROVIDERS)
        names = [name.strip() for name in str(text or "").split(",") if name.strip()]
        if not names:
            return None
        known: list[tuple[str, Provider]] = []
        refused: list[tuple[str, str]] = []
        for name in names:
            option = f"{CONFIG_PROVIDERS}.{name}"
            class_name = str(properties.get(f"{option}.class", "")).strip()
            kind = _CLASSES.get(class_name)
            if kind is not None:
                known.append((name, _provider(kind, f"{option}.param.", properties)))
            elif not class_name:
                refused.append((name, f"{option}.class is not set"))
            else:
                refused.append(
                    (name, f"{option}.class={class_name!r} is a Java class that cannot be loaded")
                )
        return cls(tuple(known), tuple(refused))

    def names_one_of(self, text: str) -> bool:
        """True if ``text`` holds a placeholder for one of the providers."""
        if "${" not in text:
            return False
        names = {name for name, _ in (*self.known, *self.refused)}
        return any(match[1] in names for match in re.finditer(_PLACEHOLDER, text))


BUILT_IN: Final = Providers(
    (("env", Provider("env")), ("file", Provider("file")), ("dir", Provider("dir")))
)
"""The providers that keywords may refer to."""

BUILT_IN_PROPERTIES: Final[Mapping[str, str]] = {
    CONFIG_PROVIDERS: "env,file,dir",
    f"{CONFIG_PROVIDERS}.env.class": f"{_PACKAGE}.EnvVarConfigProvider",
    f"{CONFIG_PROVIDERS}.file.class": f"{_PACKAGE}.FileConfigProvider",
    f"{CONFIG_PROVIDERS}.dir.class": f"{_PACKAGE}.DirectoryConfigProvider",
}
"""The providers of :data:`BUILT_IN` as properties."""


class Reference(NamedTuple):
    """A text with placeholders, as it was written; it pickles without their values."""

    text: Secret
    """Secret, because a placeholder may stand beside a password."""
    providers: Providers

    @classmethod
    def in_value(cls, value: object, providers: Providers | None) -> Reference | None:
        """The reference that an option's value is; None if it holds no placeholder, or is a
        configuration's value already."""
        text = value.reveal() if isinstance(value, Secret) else value
        if providers is None or not isinstance(text, str) or isinstance(text, Settled):
            return None
        if not providers.names_one_of(text):
            return None
        return cls(Secret(text), providers)

    def resolve(self, option: str, surroundings: Surroundings) -> Secret:
        """The text with all placeholders replaced, once, as Kafka does.

        Raises:
            UnresolvedError: a variable, a file or a key is not there.
            ConfigError: it must not be read, or the placeholder is malformed. A message names
                ``option`` and the variable, file or key, never the content.
        """
        known, refused = dict(self.providers.known), dict(self.providers.refused)

        def replaced(match: re.Match[str]) -> str:
            name, path, key = match[1], match[2], match[3]
            if name in refused:
                raise ConfigError(
                    f"{option} refers to the provider {name!r}: {refused[name]}; there are Kafka's"
                    f" EnvVar-, File- and DirectoryConfigProvider, or pass {option} as a keyword"
                )
            if name not in known:
                return match[0]
            _check_allowed(known[name], option, surroundings)
            return _read(known[name], option, (path, key), surroundings).reveal()

        return Secret(re.sub(_PLACEHOLDER, replaced, self.text.reveal()))

    def with_placeholders_as(self, word: str) -> Secret:
        """The text with ``word`` instead of each placeholder that is read."""
        known = dict(self.providers.known)
        return Secret(
            re.sub(
                _PLACEHOLDER,
                lambda match: word if match[1] in known else match[0],
                self.text.reveal(),
            )
        )

    def shown(self, *, secret: bool) -> str:
        """The text for people; of a secret, only the placeholders."""
        text = self.text.reveal()
        if not secret:
            return text
        shown, end = "", 0
        for match in re.finditer(_PLACEHOLDER, text):
            shown += (MASK if match.start() > end else "") + match[0]
            end = match.end()
        return shown + (MASK if end < len(text) else "")


def _provider(kind: ProviderKind, prefix: str, properties: Mapping[str, Any]) -> Provider:
    if kind == "env":
        pattern = properties.get(f"{prefix}allowlist.pattern")
        if pattern is not None:
            try:
                re.compile(str(pattern))
            except re.error as error:
                raise ConfigError(f"{prefix}allowlist.pattern={pattern!r}: {error}") from None
        return Provider(kind, allowlist_pattern=None if pattern is None else str(pattern))
    text = str(properties.get(f"{prefix}allowed.paths") or "")
    paths = tuple(posixpath.normpath(path) for path in text.split(",") if path)
    for path in paths:
        if not posixpath.isabs(path):
            raise ConfigError(f"{prefix}allowed.paths: {path!r} is not an absolute path")
    return Provider(kind, allowed_paths=paths)


def _check_allowed(provider: Provider, option: str, surroundings: Surroundings) -> None:
    allowed = surroundings.variable(AUTOMATIC_CONFIG_PROVIDERS) if provider.automatic else None
    if allowed is not None and not any(
        provider.kind in (name.strip(), _CLASSES.get(name.strip())) for name in allowed.split(",")
    ):
        raise ConfigError(
            f"{option} refers to a provider of the kind {provider.kind!r}, which the environment "
            f"variable {AUTOMATIC_CONFIG_PROVIDERS} does not allow in this process"
        )


def _read(
    provider: Provider, option: str, place: tuple[str | None, str], surroundings: Surroundings
) -> Secret:
    path, key = place
    if provider.kind == "env":
        if path is not None:
            raise ConfigError(f"{option}: a placeholder for a variable has the form ${{env:NAME}}")
        return _variable(provider, option, key, surroundings)
    if not path or not key:
        form = "file:/path/of.properties:key" if provider.kind == "file" else "dir:/directory:file"
        hint = (
            "; a file's whole content is ${dir:/directory:file}" if provider.kind == "file" else ""
        )
        raise ConfigError(f"{option}: a placeholder for a file has the form ${{{form}}}{hint}")
    if provider.kind == "file":
        return _property(provider, option, (path, key), surroundings)
    if key in (".", "..") or "/" in key:
        raise ConfigError(f"{option}: {key!r} is not the name of a file in {path!r}")
    path = posixpath.join(path, key)
    text = _text(_content(provider, option, path, surroundings))
    if text is None:
        raise ConfigError(f"{option} refers to {path}, which is not UTF-8")
    return text


def _variable(provider: Provider, option: str, name: str, surroundings: Surroundings) -> Secret:
    pattern = provider.allowlist_pattern
    if pattern is not None and not re.fullmatch(pattern, name):
        raise ConfigError(
            f"{option} refers to the environment variable {name}, which allowlist.pattern of its"
            " provider does not allow"
        )
    found = surroundings.variable(name)
    if found is None:
        raise UnresolvedError(
            f"{option} refers to the environment variable {name}, which is not set in this process"
        )
    return Secret(found)


def _property(
    provider: Provider, option: str, place: tuple[str, str], surroundings: Surroundings
) -> Secret:
    path, key = place
    text = decode_properties(_content(provider, option, path, surroundings))
    try:
        pairs = parse_properties(text, origin=path)
    except ConfigError as error:
        raise ConfigError(f"{option} refers to {error}") from None
    found = Secret(pairs[key]) if key in pairs else None
    del pairs  # a traceback shows the values of this frame
    if found is None:
        raise UnresolvedError(f"{option} refers to the key {key!r} of {path}, which is not there")
    return found


def _text(content: bytes) -> Secret | None:
    """The text in ``content``; None if it is none, for an error of the codec would show it."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return Secret(text.removesuffix("\n").removesuffix("\r"))


def _content(provider: Provider, option: str, path: str, surroundings: Surroundings) -> bytes:
    if provider.allowed_paths:
        path = posixpath.normpath(path)
        from pathlib import PurePosixPath

        if not any(PurePosixPath(path).is_relative_to(each) for each in provider.allowed_paths):
            raise ConfigError(
                f"{option} refers to {path}, which is outside allowed.paths of its provider"
            )
    try:
        return surroundings.content(path)
    except OSError as error:
        raise UnresolvedError(
            f"{option} refers to {path}, which cannot be read in this process:"
            f" {error.strerror or type(error).__name__}"
        ) from None


class ThisProcess:
    """The environment and the files of this process: this package looks outside nowhere else."""

    def variable(self, name: str) -> str | None:
        """An environment variable; None if it is not set."""
        return os.environ.get(name)

    def content(self, path: str) -> bytes:
        """A file's content. Raises OSError if it can't be read."""
        with open(path, "rb") as file:
            return file.read()


THIS_PROCESS: Final = ThisProcess()
