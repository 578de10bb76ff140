"""The serializer and the deserializer of JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.model import Header
from aioproducer.serialization.deserializer import Deserializer, T_co
from aioproducer.serialization.json_text import MOST_CLASSES, Default, JsonEncoder, decode_json
from aioproducer.serialization.serializer import RecordHeaders

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_contra = TypeVar("T_contra", contravariant=True, default=Any)
else:
    from typing import TypeVar

    T_contra = TypeVar("T_contra", contravariant=True)

__all__ = ["JsonDeserializer", "JsonSerializer"]


class JsonSerializer(Generic[T_contra]):
    """Serializes objects as JSON in UTF-8, without white space.

    In addition to JSON's own types it accepts dataclasses (without fields whose names begin with an
    underscore), pydantic models and msgspec structs (serialized by their own libraries, if they are
    the whole value), datetimes, dates and times (ISO 8601), UUIDs, enums (their values) and
    Decimals (as text, which keeps all digits). NaN and the infinities become null. ``default`` gets
    all other objects.

    ``JsonSerializer[Order]()`` tells type checkers the type of the values.
    """

    def __init__(self, *, default: Default | None = None) -> None:
        self._user_default = default
        self._json = JsonEncoder(self._form_of)
        self._writers: dict[type, Callable[[Any], bytes] | None] = {}

    def serialize(self, topic: str, data: T_contra, headers: RecordHeaders) -> bytes:
        """Return the JSON of ``data``. Raises TypeError or ValueError, naming the value without a
        JSON form."""
        kind = type(data)
        if kind is not dict:
            write = self._writers[kind] if kind in self._writers else self._writer(kind)
            if write is not None:
                return write(data)
        return self._json.encode(data)

    def _writer(self, kind: type) -> Callable[[Any], bytes] | None:
        """The way in which a class writes itself, kept for its next object; None: it has none."""
        write: Callable[[Any], bytes] | None = None
        if hasattr(kind, "model_dump_json"):
            write = _model_bytes
        elif hasattr(kind, "__struct_fields__"):
            import msgspec

            write = msgspec.json.Encoder(enc_hook=self._json.convert).encode
        if len(self._writers) < MOST_CLASSES:
            self._writers[kind] = write
        return write

    def _form_of(self, kind: type) -> Default:
        if hasattr(kind, "model_dump"):
            return lambda model: model.model_dump(mode="json")
        if hasattr(kind, "__struct_fields__"):
            import msgspec

            return partial(msgspec.to_builtins, enc_hook=self._json.convert)
        if dataclasses.is_dataclass(kind):
            return _public_fields_of(kind)
        if issubclass(kind, Decimal):
            return str
        return self._user_default or _no_form


class JsonDeserializer(Deserializer[T_co]):
    """Reads JSON as dicts and lists, or as objects of a class.

    Args:
        model: a pydantic model or dataclass, a msgspec struct, or a dataclass (read with msgspec).

    Raises:
        ConfigError: the class is of an unsupported kind, or msgspec is not installed.
    """

    def __init__(self, model: type[T_co] | None = None) -> None:
        self._decode = decode_json if model is None else _decoder(model)

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> T_co | None:
        """Return the object in ``data``. Raises SerializationError if it is not JSON, or does not
        fit the class.

        JSON's ``null`` also becomes None.
        """
        if data is None:
            return None
        try:
            made: T_co = self._decode(data)
        except (ValueError, RecursionError, SerializationError) as error:
            raise SerializationError(
                f"{len(data)} bytes are not the expected JSON (topic {topic!r}): {error}"
            ) from error
        return made


def _model_bytes(model: Any) -> bytes:
    text: str = model.model_dump_json()
    return text.encode()


def _no_form(data: Any) -> Any:
    raise SerializationError(f"a {type(data).__name__} has no form in JSON: give a default=")


def _public_fields_of(kind: type) -> Default:
    """The conversion of a dataclass to its fields, and to its other attributes if it has no slots.

    orjson writes these as well.
    """
    fields = [each.name for each in dataclasses.fields(kind)]
    public = [name for name in fields if not name.startswith("_")]

    def in_slots(data: Any) -> dict[str, Any]:
        return {name: getattr(data, name) for name in public}

    def with_attributes(data: Any) -> dict[str, Any]:
        attributes = vars(data)
        if len(attributes) == len(fields):
            return in_slots(data)
        names = dict.fromkeys([*fields, *attributes])
        return {name: getattr(data, name) for name in names if not name.startswith("_")}

    return in_slots if "__slots__" in vars(kind) else with_attributes


def _decoder(model: Any) -> Callable[[bytes], Any]:
    decode: Callable[[bytes], Any]
    if hasattr(model, "model_validate_json"):
        decode = model.model_validate_json
        return decode
    if hasattr(model, "__pydantic_validator__"):  # a dataclass of pydantic, with its aliases
        decode = model.__pydantic_validator__.validate_json
        return decode
    if not hasattr(model, "__struct_fields__") and not dataclasses.is_dataclass(model):
        raise ConfigError(
            f"model={model!r}: it must be a pydantic model, a msgspec struct or a dataclass"
        )
    try:
        import msgspec
    except ImportError as error:
        raise ConfigError(f"model={model!r}: msgspec reads it, and is not installed") from error
    decode = msgspec.json.Decoder(model).decode
    return decode
