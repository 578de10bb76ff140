"""The C types of modules that are compiled from their Python source, read from its annotations.

A class becomes an extension type if it derives from no other class, or from one of these. It is
final if no class of the package or of the tests derives from it, which makes its calls cheaper. Its
attributes are those of its ``__slots__`` and those that its methods assign to ``self``; without
``__slots__`` it can be weakly referenced, as in Python. A type follows from the annotation of an
attribute, a parameter, a result or a local variable:

- ``bool``, ``int`` (64 bits) and ``float`` become numbers of C, which can't be None; an int that
  may be larger has the type ``BigInt``;
- ``list``, ``dict``, ``set`` and ``bytearray`` refuse their subclasses;
- another of these classes is itself, unless it is imported for type checkers only;
- every other annotation means any object.

A method is called in C if one of the modules calls it on a value of a known class, or if it
annotates a local variable. Generators, closures, decorated methods and keywords keep Python's form.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

NUMBERS = {"bool": "bint", "int": "long long", "float": "double"}
ON_ERROR = {"bint": " except -1", "long long": f" except? {2**63 - 1}", "double": " except? -1"}
BASES = re.compile(r"^ *class \w+\(([^)]*)\)", re.MULTILINE)
CONTAINERS = {"list", "dict", "set", "bytearray"}
ANY = "object"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Home(NamedTuple):
    """The module that defines a class, and the class's name there."""

    module: str
    name: str


class Module:
    """The parts of one module: classes, functions, and the names that it imports."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
        self.classes = {
            each.name: each
            for each in tree.body
            if isinstance(each, ast.ClassDef) and not each.decorator_list and not each.keywords
        }
        self.imported = dict(_imported(tree.body))
        calls = [each.func for each in ast.walk(tree) if isinstance(each, ast.Call)]
        self.called = {each.id for each in calls if isinstance(each, ast.Name)}


class Types:
    """The types of ``modules``, which know each other's classes, below the folder ``root``."""

    def __init__(self, root: Path, modules: Iterable[str]) -> None:
        self._root = root
        self._parsed: dict[str, Module | None] = {}
        self.modules = {name: found for name in modules if (found := self._module(name))}
        while any(self._has_lost_a_class(each) for each in self.modules.values()):
            pass
        self.bases = {
            name
            for folder in {*(name.partition(".")[0] for name in modules), "tests"}
            for path in root.joinpath(folder).rglob("*.py")
            for bases in BASES.findall(path.read_text("utf-8"))
            for name in re.findall(r"\w+", bases)
        }
        """The unqualified names of all base classes."""
        self._called = {each for module in self.modules.values() for each in self._calls(module)}

    def write(self, folder: Path) -> bool:
        """Write a ``.pxd`` file for each module. Returns True if one has changed."""
        has_changed = False
        for name in self.modules:
            path, text = folder.joinpath(*name.split(".")).with_suffix(".pxd"), self.pxd(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            for package in path.relative_to(folder).parents[:-1]:
                (folder / package / "__init__.pxd").touch()
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8")
                has_changed = True
        return has_changed

    def pxd(self, name: str) -> str:
        """The declarations of one module."""
        return "\n".join(Declarations(self, self.modules[name]).lines()) + "\n"

    def home(self, module: str, name: str) -> Home | None:
        """The home of a class that ``module`` defines or imports; None: it is none of these."""
        if module in self.modules and name in self.modules[module].classes:
            return Home(module, name)
        there = self._module(module)
        if there is None:
            return None
        found = there.imported.get(name)
        return found and self.home(*found)

    def is_called(self, home: Home, method: str) -> bool:
        """True if one of the modules calls the method, and knows the class of its value."""
        return (home, method) in self._called

    def attributes(self, home: Home) -> dict[str, str]:
        """The attributes of a class that its bases lack, and the type of each."""
        module = self.modules[home.module]
        return Declarations(self, module).attributes(module.classes[home.name])

    def home_of_attribute(self, home: Home, name: str) -> Home | None:
        """The home of the class of an attribute's values."""
        module = self.modules[home.module]
        declared = Declarations(self, module)
        return declared.homes.get(declared.attributes(module.classes[home.name]).get(name, ANY))

    def _module(self, name: str) -> Module | None:
        if name not in self._parsed:
            path = self._root.joinpath(*name.split("."))
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            text = path.read_text("utf-8") if path.exists() else None
            self._parsed[name] = None if text is None else Module(name, ast.parse(text))
        return self._parsed[name]

    def _has_lost_a_class(self, module: Module) -> bool:
        """Take out the classes that derive from any other class than these."""
        foreign = [
            name
            for name, each in module.classes.items()
            if not all(
                isinstance(base, ast.Name) and self.home(module.name, base.id)
                for base in each.bases
            )
        ]
        for name in foreign:
            del module.classes[name]
        return bool(foreign)

    def _calls(self, module: Module) -> Iterator[tuple[Home, str]]:
        values = Values(self, module)
        for of in module.classes.values():
            for method in of.body:
                if isinstance(method, Function):
                    yield from values.calls(method, Home(module.name, of.name))
        for function in module.functions:
            yield from values.calls(function, None)


class Values:
    """The classes of the values in a module's functions, as far as annotations say them."""

    def __init__(self, types: Types, module: Module) -> None:
        self._types = types
        self._module = module

    def calls(self, function: Function, of: Home | None) -> Iterator[tuple[Home, str]]:
        """The methods that the function calls on values of a known class. ``of``: self's class."""
        arguments = function.args.args
        known = {each.arg: self._annotated(each.annotation) for each in arguments}
        if of and arguments:
            known[arguments[0].arg] = of
        nodes = [*ast.walk(function)]
        for node in nodes:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                known[node.target.id] = self._annotated(node.annotation)
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known.setdefault(node.targets[0].id, self._class_of(node.value, known))
        for node in nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and (home := self._class_of(node.func.value, known))
            ):
                yield home, node.func.attr

    def _annotated(self, annotation: ast.expr | None) -> Home | None:
        match annotation:
            case ast.Name(id=name):
                return self._types.home(self._module.name, name)
            case ast.BinOp(left=left, right=ast.Constant(value=None)):
                return self._annotated(left)
        return None

    def _class_of(self, value: ast.expr, known: dict[str, Home | None]) -> Home | None:
        match value:
            case ast.Name(id=name):
                return known.get(name)
            case ast.Attribute(value=inner, attr=attribute):
                home = self._class_of(inner, known)
                return home and self._types.home_of_attribute(home, attribute)
            case ast.Call(func=ast.Name(id=name)):
                return self._types.home(self._module.name, name)
        return None


class Declarations:
    """The ``.pxd`` file of one module."""

    def __init__(self, types: Types, module: Module) -> None:
        self._types = types
        self._module = module
        self._names = {name: name for name in module.classes}
        self.homes = {name: Home(module.name, name) for name in module.classes}
        """The homes of the classes that this file names, by their names in it."""
        self._imports: list[str] = []
        for name, (there, _) in module.imported.items():
            if home := types.home(module.name, name):
                # A name has one meaning in a module, which may import the class from a package.
                self._names[name] = name if home.module == there else f"C{name}"
                self.homes[self._names[name]] = home
                self._imports.append(
                    f"from {home.module} cimport {home.name} as {self._names[name]}"
                )

    def lines(self) -> Iterator[str]:
        """The file."""
        yield "cimport cython"
        yield from sorted(self._imports)
        yield from (f"cdef class {name}" for name in self._module.classes)
        for each in self._module.classes.values():
            yield from self._class(each)
        for function in self._module.functions:
            variables = self._variables(function)
            is_private = function.name.startswith("_") and function.name in self._module.called
            if _has_a_form_in_c(function) and (variables or is_private):
                yield from self._function(function, function.args.args, variables, indent="")

    def attributes(self, of: ast.ClassDef) -> dict[str, str]:
        """The attributes of a class that its bases lack, and the type of each."""
        found: dict[str, str] = {"__weakref__": ANY}
        for each in of.body:
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__slots__":
                names = ast.literal_eval(each.value)
                found |= dict.fromkeys([names] if isinstance(names, str) else names, "")
                if "__weakref__" not in names:
                    del found["__weakref__"]
            elif isinstance(each, ast.AnnAssign) and each.value is None:
                found[ast.unparse(each.target)] = self._kind(each.annotation)
            elif isinstance(each, Function):
                for name, kind in self._assigned(each):
                    found[name] = found.get(name) or kind
        inherited = [
            name
            for base in of.bases
            if isinstance(base, ast.Name) and (home := self._types.home(self._module.name, base.id))
            for name in self._types.attributes(home)
        ]
        return {name: kind or ANY for name, kind in found.items() if name not in inherited}

    def _assigned(self, method: Function) -> Iterator[tuple[str, str]]:
        """The attributes that a method assigns, the annotated ones first."""
        parameters = {
            each.arg: each.annotation for each in method.args.args + method.args.kwonlyargs
        }
        nodes = [*ast.walk(method)]
        for node in nodes:
            if isinstance(node, ast.AnnAssign) and (name := _of_self(node.target)):
                yield name, self._kind(node.annotation)
        for node in nodes:
            if isinstance(node, ast.Assign):
                for name in filter(None, map(_of_self, node.targets)):
                    yield name, self._kind_of_value(node.value, parameters)

    def _class(self, of: ast.ClassDef) -> Iterator[str]:
        bases = [self._names[base.id] for base in of.bases if isinstance(base, ast.Name)]
        if of.name not in self._types.bases:
            yield "@cython.final"
        yield f"cdef class {of.name}({', '.join(bases)}):"
        yield "    pass"
        for name, kind in self.attributes(of).items():
            yield f"    cdef {'' if name == '__weakref__' else 'public '}{kind} {name}"
        for each in of.body:
            if isinstance(each, ast.FunctionDef) and _has_a_form_in_c(each):
                variables = self._variables(each)
                if variables or self._types.is_called(Home(self._module.name, of.name), each.name):
                    yield from self._function(each, each.args.args, variables, indent="    ")

    def _function(
        self, of: ast.FunctionDef, arguments: list[ast.arg], variables: dict[str, str], indent: str
    ) -> Iterator[str]:
        if variables:
            written = ", ".join(f'{name}="{kind}"' for name, kind in variables.items())
            yield f"{indent}@cython.locals({written})"
        required = len(arguments) - len(of.args.defaults)
        parameters = [
            f"{self._kind(each.annotation)} {each.arg}{'=*' if place >= required else ''}"
            if each.annotation
            else each.arg
            for place, each in enumerate(arguments)
        ]
        kind = self._kind(of.returns)
        yield f"{indent}cpdef {kind} {of.name}({', '.join(parameters)}){ON_ERROR.get(kind, '')}"

    def _variables(self, of: ast.FunctionDef) -> dict[str, str]:
        return {
            node.target.id: kind
            for node in ast.walk(of)
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and (kind := self._kind(node.annotation)) != ANY
        }

    def _kind(self, annotation: ast.expr | None) -> str:
        match annotation:
            case ast.Constant(value=str(text)):
                return self._kind(ast.parse(text, mode="eval").body)
            case ast.Name(id=name) if name in CONTAINERS:
                return name
            case ast.Name(id=name):
                return NUMBERS.get(name) or self._names.get(name, ANY)
            case ast.Subscript(value=ast.Name(id="Final"), slice=inner):
                return self._kind(inner)
            case ast.Subscript(value=ast.Name(id=name)) if name in CONTAINERS:
                return name
            case ast.BinOp(left=left, right=ast.Constant(value=None)):
                kind = self._kind(left)
                return ANY if kind in ON_ERROR else kind
        return ANY

    def _kind_of_value(self, value: ast.expr, parameters: dict[str, ast.expr | None]) -> str:
        """The type of an attribute without an annotation, as type checkers infer it."""
        match value:
            case ast.Name(id="inf") | ast.UnaryOp(operand=ast.Name(id="inf")):
                return "double"
            case ast.Name(id=name):
                return self._kind(parameters.get(name))
            case ast.Constant(value=constant):
                return NUMBERS.get(type(constant).__name__, "")
            case ast.Call(func=ast.Name(id=name)):
                return self._names.get(name, "")
        return ""


def _imported(body: list[ast.stmt]) -> Iterator[tuple[str, Home]]:
    for each in body:
        if isinstance(each, ast.ImportFrom):
            for alias in each.names:
                yield alias.asname or alias.name, Home(each.module or "", alias.name)


def _of_self(target: ast.expr) -> str | None:
    """The attribute of ``self`` that is assigned."""
    is_one = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    return ast.unparse(target).removeprefix("self.") if is_one else None


def _has_a_form_in_c(of: ast.FunctionDef) -> bool:
    arguments = of.args
    return not (
        of.decorator_list
        or (of.name.startswith("__") and of.name.endswith("__"))
        or arguments.vararg
        or arguments.kwarg
        or arguments.kwonlyargs
        or arguments.posonlyargs
        or any(
            isinstance(node, ast.Yield | ast.YieldFrom | ast.Lambda | ast.GeneratorExp | Function)
            for node in ast.walk(of)
            if node is not of
        )
    )
