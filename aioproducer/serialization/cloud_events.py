"""CloudEvents in binary and structured mode, with the package cloudevents.

Source: the Kafka protocol binding of CloudEvents 1.0.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from aioproducer.errors import ConfigError, MissingExtraError, SerializationError
from aioproducer.model import Header
from aioproducer.serialization.json_documents import Default, JsonSerializer
from aioproducer.serialization.primitives import Deserializer
from aioproducer.serialization.serializer import Field, RecordHeaders

if TYPE_CHECKING:
    from cloudevents.core.base import BaseCloudEvent
    from cloudevents.core.formats.json import JSONFormat

__all__ = ["CloudEventDeserializer", "CloudEventMode", "CloudEventSerializer"]

CloudEventMode: TypeAlias = Literal["binary", "structured"]
"""``binary``: attributes become headers, and the value is the data. ``structured``: the value
contains everything, as JSON."""

_PREFIX: Final = "ce_"
_CONTENT_TYPE: Final = "content-type"
_STRUCTURED: Final = b"application/cloudevents"
_STRUCTURED_JSON: Final = b"application/cloudevents+json; charset=UTF-8"
_JSON_TYPE: Final = re.compile(r"(application|text)/([a-zA-Z0-9.\-]+\+)?json\s*(;.*)?", re.I)


class CloudEventSerializer:
    """Serializes CloudEvents (``cloudevents.core``) as values.

    Headers of an earlier event, ``ce_*`` and ``content-type``, are replaced. In binary mode an
    event without data becomes a null value, which is a tombstone in a compacted topic. Data that is
    neither bytes nor text is written with :class:`JsonSerializer`. You choose the key of the
    record: to use the extension ``partitionkey``, pass ``key=event.get_extension("partitionkey")``.

    Args:
        mode: ``"binary"`` or ``"structured"``.
        default: see :class:`JsonSerializer`.

    Raises:
        ConfigError: ``mode`` has another value.
        MissingExtraError: ``cloudevents`` is not installed.
    """

    def __init__(self, mode: CloudEventMode = "binary", *, default: Default | None = None) -> None:
        if mode not in get_args(CloudEventMode):
            raise ConfigError(f"mode={mode!r} must be 'binary' or 'structured'")
        self.mode: CloudEventMode = mode
        _json_format()
        self._json = JsonSerializer[Any](default=default)

    def for_field(self, field: Field) -> CloudEventSerializer:
        """Refuse keys: an event is a value."""
        if field == "key":
            raise ConfigError("CloudEventSerializer serializes values; pass it as value_serializer")
        return self

    def serialize(self, topic: str, data: BaseCloudEvent, headers: RecordHeaders) -> bytes | None:
        """Return the value for ``data``; in binary mode its attributes become headers.

        Raises:
            SerializationError: ``data`` is not an event.
        """
        if not hasattr(data, "get_attributes") or not hasattr(data, "get_datacontenttype"):
            raise SerializationError(
                f"CloudEventSerializer takes an event of cloudevents.core, not a "
                f"{type(data).__name__} (topic {topic!r})"
            )
        if headers:
            headers[:] = [pair for pair in headers if not _of_event(pair[0])]
        if self.mode == "structured":
            headers.append((_CONTENT_TYPE, _STRUCTURED_JSON))
            return self._json.serialize(topic, _document(data, topic), headers)
        for name, value in data.get_attributes().items():
            if value is not None:
                name = _CONTENT_TYPE if name == "datacontenttype" else _PREFIX + name
                headers.append((name, str(_canonical(value)).encode()))
        content = data.get_data()
        if content is None or isinstance(content, bytes):
            return content
        if isinstance(content, str):
            return content.encode()
        if isinstance(content, bytearray | memoryview):
            return bytes(content)
        _check_json(data, topic)
        return self._json.serialize(topic, content, headers)


class CloudEventDeserializer(Deserializer["BaseCloudEvent"]):
    """Reads CloudEvents from values and headers, in both modes and in the versions 0.3 and 1.0.

    Without headers, as in aiokafka, it reads only structured mode.

    Raises:
        MissingExtraError: ``cloudevents`` is not installed.
    """

    def __init__(self) -> None:
        self._format = _json_format()

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> BaseCloudEvent | None:
        """Return the event; None for a null value without event headers.

        Raises:
            SerializationError: value and headers are not an event.
        """
        from cloudevents.core.bindings.kafka import KafkaMessage, from_binary, from_structured

        given = {name.lower(): value for name, value in headers if value is not None}
        binary = any(name.startswith(_PREFIX) for name in given)
        if data is None and not binary:
            return None
        structured = given.get(_CONTENT_TYPE, b"").lower().startswith(_STRUCTURED)
        message = KafkaMessage(given, None, b"" if data is None else bytes(data))
        try:
            if structured or not binary:
                return from_structured(message, self._format)
            return from_binary(message, self._format)
        except Exception as error:  # of any kind: the bytes are a stranger's
            raise SerializationError(
                f"a record of topic {topic!r} is not a CloudEvent: {type(error).__name__}: {error}"
            ) from error


def _of_event(name: str) -> bool:
    name = name.lower()
    return name.startswith(_PREFIX) or name == _CONTENT_TYPE


def _canonical(value: Any) -> str | int:
    """The canonical form of an attribute. Booleans are text, for headers."""
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.isoformat()
        return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value if isinstance(value, int) else str(value)


def _document(event: BaseCloudEvent, topic: str) -> dict[str, Any]:
    """The event in the JSON event format."""
    document: dict[str, Any] = {
        name: value if isinstance(value, bool) else _canonical(value)
        for name, value in event.get_attributes().items()
        if value is not None
    }
    content = event.get_data()
    if isinstance(content, bytes | bytearray | memoryview):
        text = b64encode(content).decode()
        if event.get_specversion() == "0.3":
            document["datacontentencoding"], document["data"] = "base64", text
        else:
            document["data_base64"] = text
    elif content is not None:
        if not isinstance(content, str):
            _check_json(event, topic)
        document["data"] = content
    return document


def _check_json(event: BaseCloudEvent, topic: str) -> None:
    """Raise SerializationError if the content type of the data is not JSON."""
    content_type = event.get_datacontenttype()
    if content_type is not None and not _JSON_TYPE.fullmatch(content_type):
        raise SerializationError(
            f"the data of an event is a {type(event.get_data()).__name__} with the content type "
            f"{content_type!r} (topic {topic!r}): give bytes or text"
        )


def _json_format() -> JSONFormat:
    try:
        from cloudevents.core.formats.json import JSONFormat
    except ImportError as error:
        raise MissingExtraError(
            "CloudEvents need the package cloudevents: pip install 'aioproducer[cloudevents]'"
        ) from error
    return JSONFormat()
