"""Values that do not fit their Avro schema: found before fastavro writes them, or after an error.

fastavro writes an ``int`` of more than 32 bits, which no reader in Java can read, takes any object
for a ``boolean``, and cuts the digits of a float for a ``long``. The *guard* finds such values. It
is generated once for each schema, and only looks at those fields. Within unions fastavro looks at
the values itself, unless a tuple chooses the branch.

The *diagnosis* finds the first field that does not fit, after an encoder failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Number
from operator import index
from typing import Any, Final, TypeAlias

from aioproducer.schema_registry.avro_schema import (
    RECORDS,
    AvroSchema,
    Node,
    branch_name,
    kind_of,
    resolved,
)
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.objects import shown

Suspect: TypeAlias = Callable[[Any], bool]
"""True if the value deserves a diagnosis. An exception means so, too: it has another shape."""


def suspect_function(schema: AvroSchema) -> Suspect | None:
    """The function for ``schema``; None: fastavro itself finds each misfit of it."""
    maker = _Maker(schema.named)
    root = resolved(schema.parsed, schema.named)
    call = maker.test(root, "value")
    if call is None:
        return None
    name = maker.function_of(root)
    if name is None:
        name = "suspect"
        maker.lines.append(f"def suspect(value):\n    return {call}")
    scope: dict[str, Any] = {}
    try:
        exec("\n".join(maker.lines), scope)
    except (SyntaxError, MemoryError, RecursionError):  # more nested arrays than Python can parse
        return _everything
    suspect: Suspect = scope[name]
    return suspect


def _everything(value: Any) -> bool:
    return True


_MOST_NESTING: Final = 10
_INT: Final = "-2147483648 <= {} <= 2147483647"


class _Maker:
    """Writes the functions of the named types, and expressions for the others."""

    def __init__(self, named: Mapping[str, Node]) -> None:
        self._named = named
        self.lines: list[str] = []
        self._functions: dict[str, str | None] = {}
        self._variables = 0
        self._nesting = 0

    def test(self, node: Node, value: str) -> str | None:
        """An expression that is true if ``value`` deserves a diagnosis; None: it never does."""
        node = resolved(node, self._named)
        kind = kind_of(node)
        if kind in RECORDS:
            function = self._function(node)
            return f"{function}({value})" if function else None
        if isinstance(node, dict) and "logicalType" in node:
            # A date is written as its number of days; a number is written as it is.
            outside = f"{value}.__class__ is int and not {_INT.format(value)}"
            return {
                "int": f"({outside} or {value}.__class__ is float)",
                "long": f"({value}.__class__ is float)",
            }.get(kind)
        if kind == "int":
            return f"({value}.__class__ is not int or not {_INT.format(value)})"
        if kind == "long":
            return f"({value}.__class__ is not int and not hasattr({value}, '__index__'))"
        if kind == "boolean":
            return f"({value}.__class__ is not bool)"
        if kind == "union":
            return self._chosen(node, value)
        if kind in ("array", "map"):
            items = value if kind == "array" else f"{value}.values()"
            return self._any(node["items" if kind == "array" else "values"], items)
        return None

    def _any(self, node: Node, items: str) -> str | None:
        """A test of each of ``items``; one that is nested deeply becomes a function.

        The compiler of Python 3.13 crashes on expressions that are nested more deeply.
        """
        self._variables += 1
        item = f"item{self._variables}"
        self._nesting += 1
        test = self.test(node, item)
        self._nesting -= 1
        if test is None:
            return None
        if not self._nesting or self._nesting % _MOST_NESTING:
            return f"any([{test} for {item} in {items}])"
        function = f"any_{item}"
        self.lines.append(f"def {function}(items):\n    return any([{test} for {item} in items])")
        return f"{function}({items})"

    def _chosen(self, branches: Node, value: str) -> str | None:
        """The test of a branch that a tuple of its name and the value chooses."""
        tests = []
        for branch in branches:
            name = branch_name(resolved(branch, self._named))
            if test := self.test(branch, f"{value}[1]"):
                tests.append(f"{value}[0] == {name!r} and {test}")
        return f"({value}.__class__ is tuple and ({' or '.join(tests)}))" if tests else None

    def function_of(self, node: Node) -> str | None:
        """The name of the function that was made for a record."""
        return self._functions.get(node["name"]) if kind_of(node) in RECORDS else None

    def _function(self, record: Node) -> str | None:
        name = record["name"]
        if name in self._functions:
            return self._functions[name]
        function = f"record{len(self._functions)}"
        self._functions[name] = function  # a type that contains itself calls it
        lines = []
        for field in record["fields"]:
            self._variables += 1
            variable = f"field{self._variables}"
            test = self.test(field["type"], variable)
            if test is None:
                continue
            lines.append(f"    {variable} = get({field['name']!r})")
            if "default" in field:
                test = f"{variable} is not None and {test}"
            lines.append(f"    if {test}:\n        return True")
        if not lines:
            self._functions[name] = None
            return None
        head = f"def {function}(value):\n    get = value.get"
        self.lines.append("\n".join((head, *lines, "    return False")))
        return function


_DEEPEST: Final = 200  # levels of nested values
_MOST_CHECKS: Final = 200_000  # of one value: a diagnosis is worth a moment, not more
_INTS: Final = range(-(1 << 31), 1 << 31)
_LONGS: Final = range(-(1 << 63), 1 << 63)


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
        return _is_integer(value, _INTS if kind == "int" else _LONGS)
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
