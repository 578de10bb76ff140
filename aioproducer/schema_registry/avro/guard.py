"""A function that finds values which fastavro writes although they do not fit.

fastavro writes an ``int`` of more than 32 bits, which no reader in Java can read, takes any object
for a ``boolean``, and cuts the digits of a float for a ``long``. The function is generated once for
each schema, and only looks at those fields. Within unions fastavro looks at the values itself,
unless a tuple chooses the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aioproducer.schema_registry.avro.schema import (
    RECORDS,
    AvroSchema,
    Node,
    branch_name,
    kind_of,
    resolved,
)

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
