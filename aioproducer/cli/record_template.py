"""Records as text: kcat's format string, or a JSON object each. Pure."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from aioproducer.errors import ConfigError
from aioproducer.errors.client import is_plain, shown
from aioproducer.model import ConsumerRecord

__all__ = ["Render", "as_json", "template"]

Render: TypeAlias = Callable[[ConsumerRecord], bytes]
"""The bytes that show a record."""

_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_SIZE: Final = struct.Struct(">i")


def template(text: str, null: str = "", *, for_people: bool = False) -> Render:
    r"""kcat's format: ``%t`` topic, ``%p`` partition, ``%o`` offset, ``%k`` key, ``%s`` value,
    ``%T`` timestamp in milliseconds, ``%h`` headers, ``%K`` and ``%S`` sizes, ``%R`` the value's
    size as four bytes; ``\n``, ``\t``, ``\r``, ``\0``, ``\xNN``. ``null`` stands for a null.
    ``for_people``: what a terminal would obey in a record is escaped.

    Raises:
        ConfigError: an unknown token, or none that shows a part of the record.
    """
    none = _encoded(null)
    fields = _fields(none)
    if for_people:
        fields |= {letter: _for_people(fields[letter]) for letter in "tksh"}
    parts: list[bytes | Render] = []
    for token in _TOKEN.finditer(text):
        letter, escape = token[1], token[2]
        if letter == "%":
            parts.append(b"%")
        elif letter is not None:
            if letter not in fields:
                raise ConfigError(f"the format has %{letter}: write one of {_names(fields)}, or %%")
            parts.append(fields[letter])
        elif escape is not None:
            parts.append(_character(escape))
        else:
            parts.append(_encoded(token[0]))
    return _joined(parts)


def as_json(record: ConsumerRecord) -> bytes:
    """A line with one JSON object; keys and values that are no UTF-8 are in base64."""
    found: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
        **_text("key", record.key),
        **_text("value", record.value),
        "headers": [{"key": key, **_text("value", value)} for key, value in record.headers],
    }
    line = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    if not line.isprintable():
        line = "".join([each if is_plain(each) else json.dumps(each)[1:-1] for each in line])
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _for_people(render: Render) -> Render:
    def shown_to_people(record: ConsumerRecord) -> bytes:
        return shown(render(record).decode("utf-8", "backslashreplace"), kept="\n\t").encode()

    return shown_to_people


def _text(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {name: b64encode(value).decode("ascii"), f"{name}_encoding": "base64"}


def _fields(none: bytes) -> dict[str, Render]:
    def size(value: bytes | None) -> int:
        return -1 if value is None else len(value)

    def headers(record: ConsumerRecord) -> bytes:
        return b",".join(
            _encoded(key) + b"=" + (none if value is None else value)
            for key, value in record.headers
        )

    return {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "k": lambda record: none if record.key is None else record.key,
        "s": lambda record: none if record.value is None else record.value,
        "h": headers,
        "T": lambda record: b"%d" % record.timestamp_ms,
        "K": lambda record: b"%d" % size(record.key),
        "S": lambda record: b"%d" % size(record.value),
        "R": lambda record: _SIZE.pack(size(record.value)),
    }


def _joined(parts: list[bytes | Render]) -> Render:
    def render(record: ConsumerRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return render


def _character(escape: str) -> bytes:
    if len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    return _ESCAPED.get(escape, _encoded("\\" + escape))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _names(fields: Iterable[str]) -> str:
    return ", ".join(f"%{name}" for name in fields)
