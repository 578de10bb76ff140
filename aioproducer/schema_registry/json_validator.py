"""JSON Schema: validators, and JSON as registries' serializers write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from aioproducer.errors import SerializationError
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.model import Schema
from aioproducer.schema_registry.objects import shown

_DEEPEST: Final = 200  # levels of a schema

_NO_BASE: Final = "json-schema:///"  # the address of a schema that has no $id


class JsonValidator:
    """Checks values by one schema. References are found among ``named``, never fetched."""

    def __init__(self, schema: Schema, named: Mapping[str, Schema], place: str) -> None:
        library = needed("jsonschema_rs")
        tree = json_tree(schema.text, place)
        base = tree.get("$id") if isinstance(tree, dict) else None
        self._base = base if isinstance(base, str) and urlsplit(base).scheme else _NO_BASE
        self._named = {
            name: json_tree(each.text, f"{place}, reference {name!r}")
            for name, each in named.items()
        }
        try:
            self._validator = library.validator_for(
                tree, retriever=self._retrieved, base_uri=None if base else self._base
            )
        except Exception as error:
            raise SerializationError(
                f"{place}: jsonschema-rs refuses the schema: {_first_line(error)}"
            ) from error
        self.is_valid: Callable[[Any], bool] = self._validator.is_valid

    def _retrieved(self, address: str) -> Any:
        """The referred schema at ``address``: by its name, or by its name from the base."""
        for name, tree in self._named.items():
            if address in (name, urljoin(self._base, name)):
                return tree
        last = urlsplit(address).path.rpartition("/")[2]
        found = [tree for name, tree in self._named.items() if name.rpartition("/")[2] == last]
        if len(found) == 1:
            return found[0]
        raise SerializationError(f"the schema has no reference with the name {address!r}")

    def misfit(self, value: Any, name: str) -> str | None:
        """The first part of ``value`` that does not fit, with its path; None: none is found."""
        with suppress(StopIteration):
            error = next(iter(self._validator.iter_errors(value)))
            found = value
            for step in error.instance_path:
                found = found[step]
            keyword = str(error.schema_path[-1]) if error.schema_path else "schema"
            return (
                f"{_path(name, error.instance_path)}: {_shortened(error.message)} ({keyword}), "
                + (f"found {shown(found)}")
            )
        return None


def json_tree(text: str, place: str) -> Any:
    """The JSON of a schema."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SerializationError(
            f"{place}: the schema is not JSON: {_first_line(error)}"
        ) from error
    level = [tree]
    for _ in range(_DEEPEST):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return tree
    raise SerializationError(f"{place}: the schema is nested more than {_DEEPEST} levels deep")


def title_of(schema: Schema) -> str | None:
    """The title of a schema, which is its record's name."""
    tree = json_tree(schema.text, "a JSON schema")
    title = tree.get("title") if isinstance(tree, dict) else None
    return title if isinstance(title, str) else None


def as_text(value: Any) -> Any:
    """Dates, times, UUIDs and decimals as text."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ in ("UUID", "Decimal"):
        return str(value)
    raise SerializationError(f"JSON can't represent {shown(value)}")


def as_text_but_decimals(value: Any) -> Any:
    """Dates, times and UUIDs as text. Decimals are refused: a validator takes them for numbers."""
    if isinstance(value, Decimal):
        raise SerializationError("a decimal is written as text, and validated as such")
    return as_text(value)


def _path(name: str, steps: list[Any]) -> str:
    path = name
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path[:300]


def _shortened(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:80]} … {text[-75:]}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]
