"""From the objects of an application to dicts, lists and plain values.

Dataclasses, attrs classes and msgspec structs get a function of their own, generated once for each
class; pydantic models are dumped by pydantic, other objects by a method ``to_dict``. The nesting of
values is bounded, because compiled encoders crash where Python raises. :func:`shown` is the text of
a value in error messages.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias
from uuid import UUID

from aioproducer.errors import SerializationError

_LONGEST: Final = 80

_repr = Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 60
_repr.maxlevel = 2
_repr.maxdict = _repr.maxlist = _repr.maxtuple = 4


def shown(value: Any) -> str:
    """The type of ``value`` and its beginning."""
    if value is None:
        return "None"
    try:
        text = _repr.repr(value)
    except Exception:  # an object whose repr() fails is still to be named
        text = ""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "…"
    return f"{type(value).__name__} {text}".rstrip()


DEEPEST: Final = 200
"""Levels of nested dicts, lists and tuples."""


def refuse_deep_nesting(value: Any, place: str) -> None:
    """Raise SerializationError if ``value`` is nested too deeply, or contains itself."""
    level = [value]
    for _ in range(DEEPEST):
        below: dict[int, Any] = {}  # an object that stands in two places counts once
        for each in level:
            if isinstance(each, Mapping):
                inner = each.values()
            elif isinstance(each, list | tuple):
                inner = each  # type: ignore[assignment]
            else:
                continue
            for item in inner:
                if isinstance(item, Mapping | list | tuple):
                    below[id(item)] = item
        if not below:
            return
        level = list(below.values())
    raise SerializationError(
        f"{place}: the value is nested more than {DEEPEST} levels deep, or contains itself"
    )


Convert: TypeAlias = Callable[[Any], Any]

_PLAIN: Final = frozenset(
    (NoneType, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID)
)


class Objects:
    """Converts objects. ``hints`` has the union branch for objects of a class, by the class's name:
    their dicts get it as ``-type``, as fastavro wants it. ``dump`` has arguments for pydantic's
    ``model_dump()``."""

    def __init__(self, hints: Mapping[str, str] | None = None, **dump: Any) -> None:
        self._hints = hints or {}
        self._dump = dump
        self._converts: dict[type, Convert | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_converts": {}}

    def converter(self, kind: type) -> Convert | None:
        """The function that converts objects of ``kind``; None: they are plain as they are."""
        try:
            return self._converts[kind]
        except KeyError:
            convert = self._converts[kind] = self._made(kind)
            return convert

    def converted(self, value: Any) -> Any:
        """``value``, with every object within it converted.

        Raises:
            RecursionError: the value is nested as deeply as Python's calls may be, or contains
                itself.
        """
        kind = value.__class__
        if kind in _PLAIN:
            return value
        if kind is list:
            return [self.converted(each) for each in value]
        if kind is dict:
            return {_key(key): self.converted(each) for key, each in value.items()}
        convert = self.converter(kind)
        return value if convert is None else convert(value)

    def _made(self, kind: type) -> Convert | None:
        if callable(getattr(kind, "to_dict", None)):
            return lambda value: self.converted(value.to_dict())
        if (names := field_names(kind)) is not None:
            return self._of_fields(kind, names)
        if callable(getattr(kind, "model_dump", None)):
            return self._of_model
        if callable(getattr(kind, "unicode_string", None)):  # a URL of pydantic
            return str
        if issubclass(kind, Enum):
            return lambda value: value.value if isinstance(value.value, str | int) else value.name
        if issubclass(kind, tuple):
            return lambda value: tuple(self.converted(each) for each in value)
        if issubclass(kind, list | set | frozenset):
            return lambda value: [self.converted(each) for each in value]
        if issubclass(kind, Mapping):
            return lambda value: {_key(key): self.converted(each) for key, each in value.items()}
        return None

    def _of_model(self, value: Any) -> Any:
        """A pydantic model's dump, which converts the models and dataclasses within it."""
        dumped = self.converted(value.model_dump(**self._dump))
        if self._hints:
            self._add_hints(value, dumped)
        return dumped

    def _add_hints(self, value: Any, dumped: Any) -> None:
        """Add the hints for the objects within ``value`` to its dump."""
        if isinstance(dumped, dict):
            of_map = isinstance(value, Mapping)
            for name, each in dumped.items():
                member = value.get(name) if of_map else getattr(value, name, None)
                self._add_hints(member, each)
            hint = self._hints.get(type(value).__name__)
            if hint is not None:
                dumped["-type"] = hint
        elif isinstance(dumped, list) and isinstance(value, list | tuple):
            for member, each in zip(value, dumped, strict=False):
                self._add_hints(member, each)

    def _of_fields(self, kind: type, names: Mapping[str, str]) -> Convert:
        """A function that was compiled for the fields of a class."""
        plain = _plain_fields(kind)
        parts = [
            f"{name!r}: value.{attribute}"
            if attribute in plain
            else f"{name!r}: converted(value.{attribute})"
            for name, attribute in names.items()
        ]
        hint = self._hints.get(kind.__name__)
        if hint is not None:
            parts.insert(0, f"'-type': {hint!r}")
        scope: dict[str, Any] = {"converted": self.converted}
        exec(f"def convert(value):\n    return {{{', '.join(parts)}}}", scope)
        convert: Convert = scope["convert"]
        return convert


def field_names(kind: type) -> Mapping[str, str] | None:
    """The fields of a class and the attributes that have them; None: it has no declared fields."""
    if dataclasses.is_dataclass(kind):
        return {each.name: each.name for each in dataclasses.fields(kind)}
    encoded = getattr(kind, "__struct_encode_fields__", None)
    if encoded is not None:  # a struct of msgspec
        return dict(zip(encoded, kind.__struct_fields__, strict=True))  # type: ignore[attr-defined]
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return {each.name: each.name for each in attributes}
    return None


def _plain_fields(kind: type) -> frozenset[str]:
    """The attributes whose annotations promise values that need no conversion."""
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # a name that can't be resolved; every value is looked at then
        return frozenset()
    return frozenset(name for name, hint in hints.items() if _is_plain(hint))


def _is_plain(hint: Any) -> bool:
    if hint in _PLAIN:
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, UnionType):
        return all(_is_plain(each) for each in arguments)
    if origin is typing.Annotated:
        return _is_plain(arguments[0])
    if origin is typing.Literal:
        return all(type(each) in _PLAIN for each in arguments)
    if origin is list:
        return _is_plain(arguments[0])
    if origin is dict:
        return arguments[0] is str and _is_plain(arguments[1])
    return False


def _key(key: Any) -> Any:
    """The key of a map: an enum's value."""
    return key.value if isinstance(key, Enum) else key
