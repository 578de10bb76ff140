"""JSON, by orjson where it is installed; the standard library's module writes the same."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias
from uuid import UUID

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.model import Header
from aioproducer.serialization.deserializer import Deserializer, T_co
from aioproducer.serialization.serializer import RecordHeaders

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_contra = TypeVar("T_contra", contravariant=True, default=Any)
else:
    from typing import TypeVar

    T_contra = TypeVar("T_contra", contravariant=True)

__all__ = ["JsonDeserializer", "JsonSerializer"]

_MOST_CLASSES: Final = 1_000
"""Classes made anew for each object are not kept."""


Default: TypeAlias = Callable[[Any], Any]
"""Returns an object that JSON has a form for, in place of one that it has none for."""


class JsonSerializer(Generic[T_contra]):
    """Objects as JSON in UTF-8, without white space.

    Beside the types of JSON: dataclasses (without fields whose name begins with an underscore),
    pydantic models and msgspec structs (each by its own library, if it is the whole value),
    datetimes, dates and times (ISO 8601), UUIDs, enums (their value), Decimals (as text, which
    keeps all digits). NaN and the infinities become null. ``default`` gets every other object.

    ``JsonSerializer[Order]()`` tells type checkers the type of the values.
    """

    def __init__(self, *, default: Default | None = None) -> None:
        self._user_default = default
        self._encode = json.JSONEncoder(
            separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=self._default
        ).encode
        self._encode_nan = json.JSONEncoder(ensure_ascii=False, default=self._default).encode
        self._writers: dict[type, Callable[[Any], bytes] | None] = {}

    def serialize(self, topic: str, data: T_contra, headers: RecordHeaders) -> bytes:
        """The JSON of ``data``. Raises TypeError or ValueError, which name what has no JSON."""
        kind = type(data)
        if kind is not dict:
            write = self._writers[kind] if kind in self._writers else self._writer(kind)
            if write is not None:
                return write(data)
        if orjson is not None:
            try:
                return orjson.dumps(data, default=self._default)
            except TypeError:
                pass  # large ints and keys that are no text: the standard library takes them
        return self._by_standard_library(data)

    def _by_standard_library(self, data: Any) -> bytes:
        try:
            return self._encode(data).encode()
        except ValueError:
            without_nan = json.loads(self._encode_nan(data), parse_constant=_null)
            return self._encode(without_nan).encode()

    def _writer(self, kind: type) -> Callable[[Any], bytes] | None:
        """The way in which a class writes itself, kept for its next object; None: it has none."""
        write: Callable[[Any], bytes] | None = None
        if hasattr(kind, "model_dump_json"):
            write = _model_bytes
        elif hasattr(kind, "__struct_fields__"):
            import msgspec

            write = msgspec.json.Encoder(enc_hook=self._default).encode
        elif _is_partly_in_slots(kind):  # orjson leaves out the fields that are in slots
            write = self._by_standard_library
        if len(self._writers) < _MOST_CLASSES:
            self._writers[kind] = write
        return write

    def _default(self, data: Any) -> Any:
        if hasattr(type(data), "model_dump"):
            return data.model_dump(mode="json")
        if hasattr(type(data), "__struct_fields__"):
            import msgspec

            return msgspec.to_builtins(data, enc_hook=self._default)
        if dataclasses.is_dataclass(data) and not isinstance(data, type):
            return _public_fields(data)
        if isinstance(data, date | time):  # a datetime is a date
            return data.isoformat()
        if isinstance(data, UUID | Decimal):
            return str(data)
        if isinstance(data, Enum):
            return data.value
        if self._user_default is not None:
            return self._user_default(data)
        raise SerializationError(f"a {type(data).__name__} has no form in JSON: give a default=")


class JsonDeserializer(Deserializer[T_co]):
    """JSON as objects: of dicts and lists, or of a class.

    Args:
        model: a model or dataclass of pydantic, or a msgspec struct or dataclass (which msgspec
            reads).

    Raises:
        ConfigError: the class is of another kind, or msgspec is not installed.
    """

    def __init__(self, model: type[T_co] | None = None) -> None:
        self._decode = _loads if model is None else _decoder(model)

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> T_co | None:
        """The object of ``data``. Raises SerializationError if it is no JSON, or of no such object.

        ``null`` in JSON is None, too.
        """
        if data is None:
            return None
        try:
            made: T_co = self._decode(data)
        except (ValueError, RecursionError) as error:
            raise SerializationError(
                f"{len(data)} bytes are not the expected JSON (topic {topic!r}): {error}"
            ) from error
        return made


def _model_bytes(model: Any) -> bytes:
    text: str = model.model_dump_json()
    return text.encode()


def _is_partly_in_slots(kind: type) -> bool:
    """True for a dataclass without slots whose base has some."""
    return (
        dataclasses.is_dataclass(kind)
        and "__slots__" not in vars(kind)
        and any(
            vars(base).get("__slots__") for base in kind.__mro__ if dataclasses.is_dataclass(base)
        )
    )


def _public_fields(data: Any) -> dict[str, Any]:
    """The fields of a dataclass, and its other attributes if it has no slots, as orjson."""
    names = dict.fromkeys(each.name for each in dataclasses.fields(data))
    if "__slots__" not in vars(type(data)):
        names |= dict.fromkeys(getattr(data, "__dict__", ()))
    return {name: getattr(data, name) for name in names if not name.startswith("_")}


def _null(constant: str) -> None:
    """NaN and the infinities as JSON has them."""


def _no_constant(constant: str) -> None:
    raise SerializationError(f"{constant} is no JSON")


def _loads(data: bytes) -> Any:
    if orjson is not None:
        return orjson.loads(data)
    try:
        return json.loads(bytes(data).decode(), parse_constant=_no_constant)
    except SerializationError as error:
        raise json.JSONDecodeError(str(error), "", 0) from None


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
