"""The first field of a value that does not fit its Avro schema, found after an encoder failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Number
from operator import index
from typing import Any, Final

from aioproducer.schema_registry.avro.schema import RECORDS, Node, branch_name, kind_of, resolved
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.found import shown

_DEEPEST: Final = 200  # levels of nested values
_MOST_CHECKS: Final = 200_000  # of one value: a diagnosis is worth a moment, not more
_INT: Final = range(-(1 << 31), 1 << 31)
_LONG: Final = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A part of a value that does not fit."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


class AvroDiagnosis:
    """Walks over a value and its schema side by side."""

    def __init__(
        self,
        parsed: Node,
        named: Mapping[str, Node],
        *,
        strict: bool = False,
        name: str = "value",
    ) -> None:
        self._parsed = parsed
        self._named = named
        self._strict = strict
        self._name = name
        self._checks = 0
        self._skips_unions = False

    def misfit(self, value: Any) -> Misfit | None:
        """The first part of ``value`` that does not fit; None: none was found.

        Branches of unions make the checks many. A value of too many checks is looked at again
        without its unions, whose values fastavro checks itself.
        """
        self._checks = 0
        self._skips_unions = False
        misfit = self._first(value)
        if misfit is None and self._checks > _MOST_CHECKS:
            self._skips_unions = True
            misfit = self._first(value)
        return misfit

    def _first(self, value: Any) -> Misfit | None:
        root = resolved(self._parsed, self._named)
        name = root["name"].rpartition(".")[2] if kind_of(root) in RECORDS else self._name
        return self._check(root, value, name, 0)

    def _check(self, node: Node, value: Any, path: str, depth: int) -> Misfit | None:
        node = resolved(node, self._named)
        kind = kind_of(node)
        self._checks += 1
        if self._checks > _MOST_CHECKS and not self._skips_unions:
            return None
        if depth > _DEEPEST:
            return Misfit(path, f"at most {_DEEPEST} nested values", "more")
        if kind == "union":
            return self._union(node, value, path, depth)
        logical = node.get("logicalType") if isinstance(node, dict) else None
        if logical is not None:
            try:
                value = _prepared(node, value)
            except Exception as error:
                return Misfit(path, f"{logical} ({_reason(error)})", shown(value))
        if kind in RECORDS:
            return self._record(node, value, path, depth)
        if kind == "array":
            return self._array(node, value, path, depth)
        if kind == "map":
            return self._map(node, value, path, depth)
        if _fits(kind, node, value):
            return None
        return Misfit(path, _name(node, logical), shown(value))

    def _record(self, node: Node, value: Any, path: str, depth: int) -> Misfit | None:
        if not isinstance(value, Mapping):
            return Misfit(path, _name(node, None), shown(value))
        for field in node["fields"]:
            name = field["name"]
            where = f"{path}.{name}"
            if name not in value:
                if not self._may_be_missing(field, depth):
                    wanted = _name(resolved(field["type"], self._named), None)
                    return Misfit(where, wanted, "no value, and the schema has no default")
                continue
            misfit = self._check(field["type"], value[name], where, depth + 1)
            if misfit is not None:
                return misfit
        extra = [name for name in value if name not in {each["name"] for each in node["fields"]}]
        if self._strict and extra:
            return Misfit(path, "no field that the schema lacks", ", ".join(map(repr, extra[:5])))
        return None

    def _may_be_missing(self, field: Mapping[str, Any], depth: int) -> bool:
        if "default" in field:
            return True
        return not self._strict and self._check(field["type"], None, "", depth + 1) is None

    def _array(self, node: Node, value: Any, path: str, depth: int) -> Misfit | None:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            return Misfit(path, _name(node, None), shown(value))
        for place, item in enumerate(value):
            misfit = self._check(node["items"], item, f"{path}[{place}]", depth + 1)
            if misfit is not None:
                return misfit
        return None

    def _map(self, node: Node, value: Any, path: str, depth: int) -> Misfit | None:
        if not isinstance(value, Mapping):
            return Misfit(path, _name(node, None), shown(value))
        for key, item in value.items():
            if not isinstance(key, str):
                return Misfit(f"{path} (a key)", "string", shown(key))
            misfit = self._check(node["values"], item, f"{path}[{key[:50]!r}]", depth + 1)
            if misfit is not None:
                return misfit
        return None

    def _union(self, branches: Node, value: Any, path: str, depth: int) -> Misfit | None:
        nodes = [resolved(branch, self._named) for branch in branches]
        names = [_name(node, None) for node in nodes]
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            chosen = [each for each in nodes if branch_name(each) == value[0]]
            if not chosen:
                return Misfit(path, f"a branch of {' | '.join(names)}", shown(value[0]))
            return self._check(chosen[0], value[1], path, depth + 1)
        if self._skips_unions:
            return None
        misfits = [self._check(node, value, path, depth + 1) for node in nodes]
        if None in misfits:
            return None
        # The branch that the value gets into deepest is the one that was meant.
        deepest = max((each for each in misfits if each), key=lambda each: len(each.path))
        if len(deepest.path) > len(path):
            return deepest
        others = [name for name in names if name != "null"]
        expected = " | ".join(names) if len(names) > 1 else (others or names)[0]
        return Misfit(path, expected, shown(value))


def _fits(kind: str, node: Node, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("int", "long"):
        return _is_integer(value, _INT if kind == "int" else _LONG)
    if kind in ("float", "double"):
        return _is_float(value)
    if kind == "string":
        return isinstance(value, str) and _is_text(value)
    if kind == "bytes":
        return isinstance(value, bytes | bytearray)
    if kind == "fixed":
        return isinstance(value, bytes | bytearray) and len(value) == node["size"]
    if kind == "enum":
        return isinstance(value, str) and value in node["symbols"]
    return True


def _is_integer(value: Any, numbers: range) -> bool:
    try:
        return index(value) in numbers  # a range is searched for an object that is no int itself
    except Exception:  # whatever the object's own method raises
        return False


def _is_float(value: Any) -> bool:
    if not isinstance(value, Number | str):
        return False
    try:
        float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _prepared(node: Mapping[str, Any], value: Any) -> Any:
    """The value as fastavro writes it: a date becomes its number of days, for example."""
    writers = needed("fastavro.write").LOGICAL_WRITERS
    prepare = writers.get(f"{node['type']}-{node['logicalType']}")
    return value if prepare is None else prepare(value, node)


def _name(node: Node, logical: str | None) -> str:
    """The type in the words of the schema."""
    kind = kind_of(node)
    if kind == "union":
        return " | ".join(branch_name(each) for each in node)
    if kind in RECORDS:
        return f"record {node['name']}"
    if kind == "enum":
        symbols = ", ".join(node["symbols"][:10]) + (", …" if len(node["symbols"]) > 10 else "")
        return f"enum {node['name']} ({symbols})"
    if kind == "fixed":
        return f"fixed {node['name']} of {node['size']} bytes"
    return f"{kind} ({logical})" if logical else kind


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:100]}"
