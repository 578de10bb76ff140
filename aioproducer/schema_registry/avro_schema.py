"""An Avro schema, parsed, and the facts about it that decide how much care its data need."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aioproducer.errors import SerializationError
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.model import Schema

Node: TypeAlias = Any
"""A part of a parsed schema: a name, a union's list, or a dict with ``type``."""

RECORDS: Final = frozenset(("record", "error"))
NAMED: Final = RECORDS | {"enum", "fixed"}
_KINDS_OF_DEFAULTS: Final[Mapping[type, frozenset[str]]] = {
    type(None): frozenset(("null",)),
    bool: frozenset(("boolean",)),
    int: frozenset(("int", "long", "float", "double")),
    float: frozenset(("float", "double")),
    str: frozenset(("string", "bytes", "fixed", "enum")),
    list: frozenset(("array",)),
    dict: RECORDS | {"map"},
}
_BITS: Final = {"int": 32, "long": 64}
_MARKS: Final = ("__fastavro_parsed", "__named_schemas")  # of fastavro, in a parsed schema
_DEEPEST: Final = 100  # levels of a schema
_LONGEST_DECIMAL: Final = 1024  # bytes
_MOST_RECORDS: Final = 10_000  # in a record, without those in its unions, arrays and maps


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema as fastavro has it, with the named types that it consists of."""

    parsed: Node
    named: Mapping[str, Node]
    recursive: bool
    """A type contains itself, so data may be nested as deeply as they are long."""
    decimals: bool
    """Data may have decimals of any length."""
    empty_items: bool
    """An array may have any number of items in no bytes."""
    silent_items: bool
    """fastavro skips items of an array without noticing that the data have ended."""
    name: str | None
    """The full name of the record; None: the schema is a union or a primitive type."""
    mutable_defaults: Mapping[int, Any]
    """Defaults that are lists or dicts, by their identity: fastavro gives them to each reader."""
    hints: Mapping[str, str]
    """The full names of records that stand in a union with others, by their simple names."""

    @property
    def is_bytes(self) -> bool:
        """True if values are only bytes, which are written without Avro's length, as Java does."""
        return kind_of(self.parsed) == "bytes" and "logicalType" not in _as_dict(self.parsed)


def parsed_schema(schema: Schema, named: Mapping[str, Schema], place: str = "") -> AvroSchema:
    """Parse ``schema``; ``named`` has the schemas that it refers to, dependencies first.

    Raises:
        SerializationError: no Avro schema is there, or it is nested too deeply.
    """
    fastavro = needed("fastavro")
    types: dict[str, Node] = {}
    text = ""
    try:
        for referred in (*named.values(), schema):
            text = referred.text
            tree = json.loads(text)
            _check_depth(tree)
            parsed = fastavro.parse_schema(_without_marks(tree), named_schemas=types)
        _refuse_vast_records(types)
        described = _described(_whole(parsed, types), types)
    except SerializationError as error:
        raise SerializationError(f"{place or 'an Avro schema'}: {error}") from error
    except Exception as error:  # fastavro raises whatever a strange schema leads to
        raise SerializationError(
            f"{place or 'an Avro schema'}: fastavro refuses the schema: {type(error).__name__}: "
            f"{error} ({text[:200]!r})"
        ) from error
    return described


def _whole(parsed: Node, types: Mapping[str, Node]) -> Node:
    """``parsed`` with fastavro's marks, by which it is not parsed again and finds its types."""
    if isinstance(parsed, list):
        return [_whole(branch, types) for branch in parsed]
    node = types.get(parsed, parsed) if isinstance(parsed, str) else parsed
    return {**node, _MARKS[0]: True, _MARKS[1]: types} if isinstance(node, dict) else node


def _check_depth(tree: Any) -> None:
    """Refuse a schema whose text is nested too deeply for those who walk it."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > _DEEPEST * 3:  # a record's field is two levels of the text below the record
            raise SerializationError(f"the schema is nested more than {_DEEPEST} levels deep")
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]


def _refuse_vast_records(types: Mapping[str, Node]) -> None:
    """Refuse records that hold each other twice at each level: values of no bytes take years."""
    known: dict[str, int] = {}

    def records(node: Node) -> int:
        node = resolved(node, types)
        if kind_of(node) not in RECORDS:
            return 0
        name = node["name"]
        if name not in known:
            known[name] = 0  # a record that is its own field has no values
            known[name] = 1 + sum(records(field["type"]) for field in node["fields"])
        if known[name] > _MOST_RECORDS:
            raise SerializationError(f"a value of {name} has more than {_MOST_RECORDS} records")
        return known[name]

    for node in types.values():
        records(node)


def _without_marks(tree: Any) -> Any:
    """The schema without fastavro's own marks: a registry's text may not claim to be parsed."""
    if isinstance(tree, dict):
        return {name: _without_marks(each) for name, each in tree.items() if name not in _MARKS}
    if isinstance(tree, list):
        return [_without_marks(each) for each in tree]
    return tree


def _as_dict(node: Node) -> Mapping[str, Any]:
    return node if isinstance(node, dict) else {}


def kind_of(node: Node) -> str:
    """The type of a node: ``union``, ``record``, ``int``, … or the name of a named type."""
    if isinstance(node, list):
        return "union"
    if isinstance(node, dict):
        return kind_of(node["type"])
    return str(node)


def branch_name(node: Node) -> str:
    """The name by which a tuple chooses a union's branch."""
    return str(node["name"]) if isinstance(node, dict) and "name" in node else kind_of(node)


def resolved(node: Node, named: Mapping[str, Node]) -> Node:
    """``node``, or the named type that it names."""
    while True:
        if isinstance(node, dict) and isinstance(node["type"], dict | list):
            node = node["type"]
        elif isinstance(node, str) and node in named:
            node = named[node]
        elif isinstance(node, dict) and node["type"] in named:
            node = named[node["type"]]
        else:
            return node


def children(node: Node) -> Iterator[Node]:
    """The types that a resolved node consists of."""
    kind = kind_of(node)
    if kind == "union":
        yield from node
    elif kind in RECORDS:
        for field in node["fields"]:
            yield field["type"]
    elif kind == "array":
        yield node["items"]
    elif kind == "map":
        yield node["values"]


def _described(parsed: Node, types: Mapping[str, Node]) -> AvroSchema:
    walk = _Walk(types)
    walk.visit(parsed, ())
    root = resolved(parsed, types)
    name = root["name"] if kind_of(root) in NAMED else None
    hints: dict[str, str] = {}
    for full_name in walk.ambiguous:
        simple = full_name.rpartition(".")[2]
        hints[simple] = "" if simple in hints else full_name
    hints = {simple: full_name for simple, full_name in hints.items() if full_name}
    return AvroSchema(
        parsed=parsed,
        named=dict(types),
        recursive=walk.recursive,
        decimals=walk.decimals,
        empty_items=walk.empty_items,
        silent_items=walk.silent_items,
        name=name,
        mutable_defaults=walk.mutable_defaults,
        hints=hints,
    )


def default_value(node: Node, default: Any, named: Mapping[str, Node]) -> Any:
    """A field's default as a value: bytes are text in a schema, and a date is a number.

    fastavro takes defaults as the schema has them, and can't write them.
    """
    node = resolved(node, named)
    kind = kind_of(node)
    if kind == "union":
        taking = (each for each in node if _takes(each, default, named))
        branch = next(taking, None)
        return default if branch is None else default_value(branch, default, named)
    if kind in ("bytes", "fixed") and isinstance(default, str):
        default = default.encode("iso-8859-1")
    elif kind == "array" and isinstance(default, list):
        return [default_value(node["items"], each, named) for each in default]
    elif kind == "map" and isinstance(default, dict):
        return {key: default_value(node["values"], each, named) for key, each in default.items()}
    elif kind in RECORDS and isinstance(default, dict):
        types = {field["name"]: field["type"] for field in node["fields"]}
        return {key: default_value(types[key], each, named) for key, each in default.items()}
    if isinstance(node, dict) and "logicalType" in node and default is not None:
        readers = needed("fastavro.read").LOGICAL_READERS
        read = readers.get(f"{kind}-{node['logicalType']}")
        return default if read is None else read(default, node, node)
    return default


def _takes(branch: Node, default: Any, named: Mapping[str, Node]) -> bool:
    """True if ``branch`` of a union takes ``default``; Avro 1.12 chooses the first that does.

    Of records, the names of the fields are compared, not their types.
    """
    branch = resolved(branch, named)
    kind = kind_of(branch)
    if kind not in _KINDS_OF_DEFAULTS.get(type(default), ()):
        return False
    if kind in _BITS and isinstance(default, int):
        largest = (1 << (_BITS[kind] - 1)) - 1
        return -largest - 1 <= default <= largest
    if kind == "enum":
        return default in branch["symbols"]
    if kind in ("bytes", "fixed"):
        is_bytes = all(ord(each) < 256 for each in default)
        return is_bytes and (kind == "bytes" or len(default) == branch["size"])
    if kind in RECORDS:
        return all(each["name"] in default or "default" in each for each in branch["fields"])
    return True


def smallest_size(
    node: Node, named: Mapping[str, Node], known: dict[str, int] | None = None
) -> int:
    """The fewest bytes that a value takes; ``known`` has those of records looked at already."""
    node = resolved(node, named)
    kind = kind_of(node)
    if kind == "null":
        return 0
    if kind == "fixed":
        return int(node["size"])
    if kind not in RECORDS:
        return {"float": 4, "double": 8}.get(kind, 1)
    known = {} if known is None else known
    if node["name"] not in known:
        known[node["name"]] = 0  # a record that is its own field has no values
        size = sum(smallest_size(field["type"], named, known) for field in node["fields"])
        known[node["name"]] = size
    return known[node["name"]]


def is_silent(node: Node, named: Mapping[str, Node], known: dict[str, bool] | None = None) -> bool:
    """True if values have one size, so that fastavro skips them without a look at them."""
    node = resolved(node, named)
    kind = kind_of(node)
    if kind not in RECORDS:
        return kind in ("null", "boolean", "float", "double", "fixed")
    known = {} if known is None else known
    if node["name"] not in known:
        known[node["name"]] = False
        silent = all(is_silent(field["type"], named, known) for field in node["fields"])
        known[node["name"]] = silent
    return known[node["name"]]


class _Walk:
    """Visits each type of a schema once."""

    def __init__(self, types: Mapping[str, Node]) -> None:
        self._types = types
        self._visited: set[str] = set()
        self.recursive = False
        self.decimals = False
        self.empty_items = False
        self.silent_items = False
        self.ambiguous: dict[str, None] = {}
        self.mutable_defaults: dict[int, Any] = {}

    def visit(self, node: Node, above: tuple[str, ...]) -> None:
        node = resolved(node, self._types)
        kind = kind_of(node)
        if kind in RECORDS:
            name = node["name"]
            if name in above:
                self.recursive = True
            if name in self._visited:
                return
            self._visited.add(name)
            for field in node["fields"]:
                if "default" in field:
                    default = default_value(field["type"], field["default"], self._types)
                    field["default"] = default
                    if isinstance(default, list | dict):
                        self.mutable_defaults[id(default)] = default
            above = (*above, name)
        elif kind == "union":
            records = [
                each["name"]
                for each in (resolved(branch, self._types) for branch in node)
                if kind_of(each) in RECORDS
            ]
            if len(records) > 1:
                self.ambiguous.update(dict.fromkeys(records))
        elif kind == "array":
            self.empty_items = self.empty_items or not smallest_size(node["items"], self._types)
            self.silent_items = self.silent_items or is_silent(node["items"], self._types)
        elif _as_dict(node).get("logicalType") == "decimal":
            self.decimals = self.decimals or node.get("size", _LONGEST_DECIMAL + 1) > (
                _LONGEST_DECIMAL
            )
        for child in children(node):
            self.visit(child, above)
