"""The serializer and the deserializer of JSON, and JSON text by orjson or by the standard library.

Both libraries give the same values. orjson, where it is installed, is faster, and differs in some
values. It reads integers of more than 64 bits as floats, drops the seconds of a time zone's offset,
and does not see what a subclass has overridden. Those values take the standard library's way.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias
from uuid import UUID

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.model import Header
from aioproducer.serialization.primitives import Deserializer, T_co
from aioproducer.serialization.serializer import RecordHeaders

__all__ = [
    "Default",
    "JsonEncoder",
    "decode_json",
    "JsonDeserializer",
    "JsonSerializer",
]


try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]


Default: TypeAlias = Callable[[Any], Any]
"""Returns an object that JSON has a form for, in place of one that it has none for."""

_ATOMS: Final = frozenset({str, int, bool, type(None)})
_ONE_DIGIT: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER: Final = b"0" * 19
"""The digits of the smallest integer that may have more than 64 bits, in that form."""
_FORMS: Final[dict[type, Default]] = {
    Enum: lambda member: member.value,
    dict: lambda mapping: dict(mapping.items()),
    list: list,
    tuple: list,
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    date: lambda moment: moment.isoformat(),  # a datetime is a date
    time: lambda moment: moment.isoformat(),
    UUID: str,
}
"""The conversion of objects that are no JSON, by the first of these classes that is theirs."""
MOST_CLASSES: Final = 1_000
"""Classes made anew for each object are not kept."""
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class JsonEncoder:
    """Encodes values in UTF-8, without white space.

    ``form_of`` returns, for a class of other objects than JSON's types, their subclasses, enums,
    dates, times and UUIDs, the function that converts them. ``refuse_nan``: NaN and the infinities
    are errors; else they become null.
    """

    def __init__(self, form_of: Callable[[type], Default], *, refuse_nan: bool = False) -> None:
        self._form_of = form_of
        self._refuse_nan = refuse_nan
        self._forms: dict[type, Default] = {}
        self._encode = json.JSONEncoder(
            separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode

    def encode(self, value: Any) -> bytes:
        """The JSON of ``value``. Raises TypeError or ValueError, which name what has no JSON."""
        if orjson is not None:
            options = (
                orjson.OPT_PASSTHROUGH_SUBCLASS
                | orjson.OPT_PASSTHROUGH_DATACLASS
                | orjson.OPT_PASSTHROUGH_DATETIME
            )
            try:
                encoded: bytes = orjson.dumps(value, self.convert, options)
            except TypeError:
                pass  # large integers and keys that are no text: the standard library takes them
            else:
                if self._refuse_nan and b"null" in encoded:  # orjson writes null for NaN
                    self._look_for_nan(value)
                return encoded
        try:
            return self._encode(self._plain(value)).encode()
        except RecursionError as error:
            raise SerializationError("the value is nested too deep, or contains itself") from error

    def convert(self, value: Any) -> Any:
        """An object that is closer to JSON, for one of another type."""
        kind = type(value)
        form = self._forms.get(kind) or self._find_form(kind)
        converted = form(value)
        if self._refuse_nan:
            self._look_for_nan(converted)
        return converted

    def _find_form(self, kind: type) -> Default:
        """The conversion of objects of ``kind``, kept for the next one."""
        found = next((form for base, form in _FORMS.items() if issubclass(kind, base)), None)
        form = found or self._form_of(kind)
        if len(self._forms) < MOST_CLASSES:
            self._forms[kind] = form
        return form

    def _plain(self, value: Any) -> Any:
        """``value`` in those types that the standard library writes by itself."""
        kind = type(value)
        if kind in _ATOMS:
            return value
        if kind is dict:
            return {
                name: each if type(each) in _ATOMS else self._plain(each)
                for name, each in value.items()
            }
        if kind is list or kind is tuple:
            return [each if type(each) in _ATOMS else self._plain(each) for each in value]
        if kind is not float:
            return self._plain(self.convert(value))
        if isfinite(value):
            return value
        if self._refuse_nan:
            raise SerializationError(f"JSON has no number {value}")
        return None

    def _look_for_nan(self, value: Any) -> None:
        """Raise SerializationError for a number that JSON does not have, in JSON's types."""
        level = [value]
        while level:
            below: list[Any] = []
            for each in level:
                if isinstance(each, Enum):
                    below.append(each.value)
                elif isinstance(each, float) and not isfinite(each):
                    raise SerializationError(f"JSON has no number {each}")
                elif isinstance(each, dict):
                    below.extend(each.values())
                elif isinstance(each, list | tuple):
                    below.extend(each)
            level = below


def decode_json(data: bytes) -> Any:
    """The value of JSON text in UTF-8, as RFC 8259 has it; integers of any size stay exact.

    Raises ValueError or SerializationError for what is no JSON, for a float beyond the largest one,
    and for half of a surrogate pair, which is no text. Raises RecursionError for what is nested too
    deeply.
    """
    data = bytes(data)
    if orjson is not None and _LONG_NUMBER not in data.translate(_ONE_DIGIT):
        return orjson.loads(data)
    text = data.decode()
    value = _DECODER.decode(text)
    if _SURROGATE.search(text):
        json.dumps(_WITH_REPEATED_NAMES.decode(text), ensure_ascii=False).encode()
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise SerializationError(f"{digits:.40} is beyond the largest float")
    return number


def _refused(constant: str) -> None:
    raise SerializationError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)
_WITH_REPEATED_NAMES: Final = json.JSONDecoder(object_pairs_hook=list)


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_contra = TypeVar("T_contra", contravariant=True, default=Any)
else:
    from typing import TypeVar

    T_contra = TypeVar("T_contra", contravariant=True)


class JsonSerializer(Generic[T_contra]):
    """Serializes objects as JSON in UTF-8, without whitespace.

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
        """Return the JSON of ``data``. Raises TypeError or ValueError, naming the value that JSON
        can't represent."""
        kind = type(data)
        try:
            if kind is not dict:
                write = self._writers[kind] if kind in self._writers else self._writer(kind)
                if write is not None:
                    return write(data)
            return self._json.encode(data)
        except SerializationError as error:
            raise SerializationError(
                f"JsonSerializer failed on a {kind.__name__} for topic {topic!r}: {error}"
            ) from error

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
    raise SerializationError(
        f"JSON can't represent a {type(data).__name__}: convert it before you send it, or pass the "
        "serializer a default=, a function that converts it"
    )


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
