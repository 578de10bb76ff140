"""Names of columns and of an Avro schema's fields that only differ in case. No I/O.

Source: ``AvroSchemaHelper`` of Spark, which matches names as ``spark.sql.caseSensitive`` says. Here
a name of the same case goes first, so both settings are served.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aioproducer.errors import ConfigError


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
