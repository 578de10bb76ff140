"""The command line's text made into a configuration, a record format and headers. Pure but for
reading the properties file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from aioproducer.cli.lines import RecordFormat
from aioproducer.config import ProducerConfig
from aioproducer.config.names import (
    BY_JAVA_NAME,
    WITHOUT_EFFECT,
    unknown_keyword,
    unknown_property,
)
from aioproducer.config.options import OPTIONS, Option
from aioproducer.config.producer_config import read_properties
from aioproducer.config.properties import BUILT_IN, Reference, Settled
from aioproducer.config.reader_options import READER_OPTIONS
from aioproducer.engine.core.arguments import checked_topic
from aioproducer.errors import ConfigError, InvalidTopicError
from aioproducer.model import Header

__all__ = [
    "CLIENT_ID",
    "client_config",
    "given",
    "one_topic",
    "parse_headers",
    "producer_config",
    "record_format",
    "split_properties",
    "split_reader_options",
    "topics_of",
    "unescape",
]

_NAME: Final = re.compile(r"[\w.-]*")

CLIENT_ID: Final = "console-producer"
"""The client id of `produce` unless one is given, as of Kafka's own tool."""

BOOTSTRAP_SERVERS: Final = "BOOTSTRAP_SERVERS"
"""The environment variable that names the brokers, in the examples as well."""

_READER_PROPERTIES: Final = ("parse.key", "key.separator", "ignore.error", "null.marker")
"""Properties of the line reader that Kafka's console producer takes."""

_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def one_topic(command: str, *names: str | None) -> str:
    """The topic, whichever way it was given to ``command``.

    Raises:
        ConfigError: there is none, or more than one, or it is no topic's name.
    """
    given = {name for name in names if name is not None}
    if len(given) != 1:
        raise ConfigError(f"exactly one topic is needed: aioproducer {command} TOPIC -b host:port")
    return topics_of(given)[0]


def topics_of(names: Iterable[str]) -> list[str]:
    """The topics of these names.

    Raises:
        ConfigError: one of them is no topic's name.
    """
    try:
        return [checked_topic(name) for name in names]
    except InvalidTopicError as error:
        raise ConfigError(str(error)) from None


def given(**options: Any) -> dict[str, Any]:
    """The options of the command line that are there."""
    return {name: value for name, value in options.items() if value is not None}


def split_properties(properties: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """``name=value`` each: the producer's options by Python name, the line reader's properties.

    Java options without effect keep their names: :func:`producer_config` warns of them.

    Raises:
        ConfigError: no ``=``, an unknown name, or a value that the option does not take.
    """
    options: dict[str, Any] = {}
    reader: dict[str, str] = {}
    for text in properties:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            shown = _NAME.match(text)  # what follows may be a password
            raise ConfigError(f"--property {shown[0] if shown else ''}…: write name=value")
        if name in _READER_PROPERTIES:
            reader[name] = value
            continue
        option = OPTIONS.get(name) or BY_JAVA_NAME.get(name)
        if option is None and name in WITHOUT_EFFECT:
            options[name] = value
            continue
        if option is None:
            raise unknown_property(name) if "." in name else unknown_keyword(name)
        refers = Reference.in_value(value, BUILT_IN) is not None  # read with the others
        options[option.name] = value if refers else option.accept_property(value)
    return options, reader


def split_reader_options(
    properties: Iterable[str], further: Mapping[str, Option] | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Properties of connections, and a Reader's own options, by Python name.

    ``further``: options that count as a Reader's own.

    Raises:
        ConfigError: a value that the option does not take.
    """
    own = {**READER_OPTIONS, **(further or {})}
    by_java_name = {option.java_name: option for option in own.values()}
    others: list[str] = []
    options: dict[str, Any] = {}
    for text in properties:
        name, _, value = text.partition("=")
        option = own.get(name) or by_java_name.get(name)
        if option is None:
            others.append(text)
        else:
            options[option.name] = option.accept_property(value)
    return others, options


def client_config(
    client_id: str,
    bootstrap_servers: str | None,
    properties: Iterable[str] | None,
    path: Path | None,
    **options: Any,
) -> ProducerConfig:
    """The configuration of a command that reads no lines; ``client_id``: unless one is given.

    Raises:
        ConfigError: as of :func:`split_properties` and :func:`producer_config`.
    """
    named, reader = split_properties(properties or ())
    for name in reader:
        raise ConfigError(f"--property {name}: only `aioproducer produce` has it; leave it out")
    named |= given(bootstrap_servers=bootstrap_servers, **options)
    return producer_config(path, named, client_id)


def producer_config(
    path: Path | None, options: Mapping[str, Any], client_id: str = CLIENT_ID
) -> ProducerConfig:
    """The properties file's configuration, with ``options`` counting instead of its own.

    If neither has the bootstrap servers, those of the environment count.

    Raises:
        ConfigError: it cannot be read, an option is wrong, or nobody named the bootstrap servers.
    """
    properties = {} if path is None else dict(read_properties(path))
    properties |= {name: value for name, value in options.items() if name in WITHOUT_EFFECT}
    options = {name: value for name, value in options.items() if name not in WITHOUT_EFFECT}
    if not options.get("client_id", properties.get("client.id")):
        options = {**options, "client_id": client_id}
    if not options.get("bootstrap_servers", properties.get("bootstrap.servers")):
        servers = os.environ.get(BOOTSTRAP_SERVERS)
        if not servers:
            raise ConfigError(
                "no brokers are given: use -b host:port, bootstrap.servers in --command-config, or "
                f"the environment variable {BOOTSTRAP_SERVERS}. `aioproducer mock` starts a mock "
                "cluster at localhost:9092"
            )
        options = {**options, "bootstrap_servers": Settled(servers)}
    return ProducerConfig.from_properties(properties, **options)


def record_format(
    *,
    key_separator: str | None,
    null_marker: str | None,
    ignore_error: bool,
    reader: Mapping[str, str],
) -> RecordFormat:
    """The format of lines: by the options, else by the reader's properties.

    Raises:
        ConfigError: an empty separator, or a property that is neither true nor false.
    """
    if key_separator is None and _flag(reader, "parse.key"):
        key_separator = reader.get("key.separator", "\t")
    if null_marker is None:
        null_marker = reader.get("null.marker")
    if key_separator == "":
        raise ConfigError("the key separator is empty")
    return RecordFormat(
        None if key_separator is None else os.fsencode(unescape(key_separator)),
        None if null_marker is None else os.fsencode(null_marker),
        ignore_error or _flag(reader, "ignore.error"),
    )


def parse_headers(headers: Iterable[str]) -> list[Header]:
    """``name=value`` each; ``name`` alone is a null value, as of kcat.

    Raises:
        ConfigError: no name, or one that is not UTF-8.
    """
    pairs: list[Header] = []
    for text in headers:
        name, equals, value = text.partition("=")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"--header {text!r}: the name is not UTF-8") from None
        if not name:
            raise ConfigError(f"--header {text!r}: write name=value")
        pairs.append((name, os.fsencode(value) if equals else None))
    return pairs


def _flag(reader: Mapping[str, str], name: str) -> bool:
    value = reader.get(name, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"{name}={value!r}: expected true or false")
    return value == "true"


def unescape(text: str) -> str:
    r"""``\t``, ``\n``, ``\r``, ``\0``, ``\\`` and ``\xNN``, which a shell does not make easy."""

    def character(found: re.Match[str]) -> str:
        code = found[1]
        if code.startswith("x") and len(code) == 3:
            return os.fsdecode(bytes([int(code[1:], 16)]))
        return _ESCAPED.get(code, found[0])

    return _ESCAPE.sub(character, text)
