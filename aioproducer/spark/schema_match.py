"""The names and types of a column, compared with an Avro schema or a JSON Schema. No I/O.

Names of columns and of an Avro schema's fields may only differ in case. Source:
``AvroSchemaHelper`` of Spark, which matches names as ``spark.sql.caseSensitive`` says. Here a name
of the same case goes first, so both settings are served. Values are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from aioproducer.errors import ColumnError, ConfigError


def with_names_of(kind: pa.DataType, text: str) -> str:
    """The schema ``text`` with the column's names. The encoding has no names, so it is the same.

    A schema that can't be read stays as it is.

    Raises:
        ConfigError: two fields only differ in case, and the column has the name of neither; or a
            default of the schema names a field that has the column's name in another case.
    """
    try:
        schema = json.loads(text)
        renamed = _Renaming(_names_in_defaults(schema)).renamed(schema, kind)
    except (json.JSONDecodeError, RecursionError):
        return text  # the encoder refuses it
    return text if renamed == schema else json.dumps(renamed)


def _names_in_defaults(schema: Any, inside: bool = False) -> frozenset[str]:
    """The names of the fields for which a default of a record has a value."""
    names = frozenset[str]()
    if isinstance(schema, list):
        return names.union(*(_names_in_defaults(each, inside) for each in schema))
    if not isinstance(schema, Mapping):
        return names
    return (names | schema.keys() if inside else names).union(
        *(_names_in_defaults(each, inside or name == "default") for name, each in schema.items())
    )


class _Renaming:
    def __init__(self, in_defaults: frozenset[str]) -> None:
        self._in_defaults = in_defaults

    def renamed(self, schema: Any, kind: pa.DataType) -> Any:
        if isinstance(schema, list):
            return [self.renamed(branch, kind) for branch in schema]
        if not isinstance(schema, Mapping):
            return schema
        if isinstance(schema.get("type"), list | Mapping):
            return {**schema, "type": self.renamed(schema["type"], kind)}
        if pa.types.is_list(kind) and "items" in schema:
            return {**schema, "items": self.renamed(schema["items"], kind.value_type)}
        if pa.types.is_map(kind) and "values" in schema:
            return {**schema, "values": self.renamed(schema["values"], kind.item_type)}
        if pa.types.is_struct(kind) and isinstance(schema.get("fields"), list):
            names = self._names(schema, kind)
            return {
                **schema,
                "fields": [self._field(each, names, kind) for each in schema["fields"]],
            }
        return schema

    def _names(self, schema: Mapping[str, Any], kind: pa.StructType) -> Mapping[str, str]:
        """The column's name for each field of the schema that has another name."""
        fields = [
            each["name"]
            for each in schema["fields"]
            if isinstance(each, Mapping) and isinstance(each.get("name"), str)
        ]
        names: dict[str, str] = {}
        for column in (each.name for each in kind if each.name not in fields):
            alike = [name for name in fields if name.lower() == column.lower()]
            if len(alike) > 1:
                raise ConfigError(
                    f"the column {column!r} matches several of the schema's fields, "
                    f"{', '.join(alike)}: rename it to one of them"
                )
            if alike and kind.get_field_index(alike[0]) < 0:
                if alike[0] in self._in_defaults:
                    raise ConfigError(
                        f"the schema's field {alike[0]!r} is in a default of the schema: give the"
                        f" column {column!r} exactly this name"
                    )
                names[alike[0]] = column
        return names

    def _field(self, field: Any, names: Mapping[str, str], kind: pa.StructType) -> Any:
        if not isinstance(field, Mapping) or not isinstance(name := field.get("name"), str):
            return field
        name = names.get(name, name)
        place = kind.get_field_index(name)
        if place < 0 or "type" not in field:
            return field
        return {**field, "name": name, "type": self.renamed(field["type"], kind.field(place).type)}


_MOST_STEPS: Final = 100
"""References that are followed one after the other, and levels."""

JsonSchema = Mapping[str, Any]


def check_json_schema(own: JsonSchema, text: str, path: str) -> None:
    """Compare ``own``, the derived schema of the column ``path``, with the schema ``text``.

    References to other documents are not followed. The numbers of JSON Schema's drafts make no
    difference here.

    Raises:
        ColumnError: no value of a part of the column can fit, or a required property is missing.
        ConfigError: the text is no JSON Schema.
    """
    try:
        root = json.loads(text)
        _Comparison(root).check(own, root, path, 0)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"the JSON Schema can't be read: {error}") from error


class _Comparison:
    def __init__(self, root: Any) -> None:
        self._root = root

    def check(self, own: JsonSchema, theirs: Any, path: str, level: int) -> None:
        if level > _MOST_STEPS:
            raise ConfigError(f"the JSON Schema has more than {_MOST_STEPS} levels or references")
        if theirs is False:
            raise ColumnError(f"the schema accepts no value for the column {path!r}")
        if not isinstance(theirs, Mapping):
            if theirs is not True:
                raise ConfigError(f"the JSON Schema has {type(theirs).__name__} for {path!r}")
            return
        own = own["oneOf"][1] if "oneOf" in own else own  # a null is left out
        if isinstance(reference := theirs.get("$ref"), str) and reference.startswith("#"):
            self.check(own, self._referred(reference), path, level + 1)
        for branch in _list(theirs, "allOf"):
            self.check(own, branch, path, level + 1)
        for choice in ("anyOf", "oneOf"):
            if branches := _list(theirs, choice):
                self._check_any(own, branches, path, level)
        _check_type(own, theirs, path)
        if own["type"] == "object":
            self._check_object(own, theirs, path, level)
        elif own["type"] == "array" and isinstance(theirs.get("items"), Mapping):
            self.check(own["items"], theirs["items"], f"{path}[]", level + 1)

    def _check_any(self, own: JsonSchema, branches: list[Any], path: str, level: int) -> None:
        errors = []
        for branch in branches:
            try:
                self.check(own, branch, path, level + 1)
            except ColumnError as error:
                errors.append(error)
            else:
                return
        raise max(errors, key=lambda error: f"{path}." in str(error) or f"{path}[" in str(error))

    def _check_object(self, own: JsonSchema, theirs: JsonSchema, path: str, level: int) -> None:
        named = theirs.get("properties")
        named = named if isinstance(named, Mapping) else {}
        others = True if theirs.get("patternProperties") else theirs.get("additionalProperties")
        if "properties" not in own:  # a map
            if isinstance(others, Mapping):
                self.check(own["additionalProperties"], others, f"{path}.value", level + 1)
            return
        for name, each in own["properties"].items():
            if name in named:
                self.check(each, named[name], f"{path}.{name}", level + 1)
            elif others is False:
                has = ", ".join(sorted(named)) or "none"
                raise ColumnError(
                    f"the schema has no property for the column '{path}.{name}'; it has {has}"
                )
            elif isinstance(others, Mapping):
                self.check(each, others, f"{path}.{name}", level + 1)
        for name in _list(theirs, "required"):
            if name not in own["properties"]:
                raise ColumnError(
                    f"the schema requires the property {name!r}; the column {path!r} lacks it"
                )

    def _referred(self, reference: str) -> Any:
        found = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise ConfigError(f"the JSON Schema refers to {reference!r}, which does not exist")
            found = found[name]
        return found


def _check_type(own: JsonSchema, theirs: JsonSchema, path: str) -> None:
    taken = theirs.get("type")
    if taken is None:
        return
    kinds = taken if isinstance(taken, list) else [taken]
    kind = own["type"]
    if kind in kinds or (kind == "integer" and "number" in kinds):
        return
    wanted = " or ".join(map(str, kinds))
    raise ColumnError(f"the column {path!r} is of the JSON type {kind}, the schema's {wanted}")


def _list(schema: JsonSchema, keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []
