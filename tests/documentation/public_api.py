"""Every public name with its signature, read from the source: nothing is imported.

A name is public if a public module lists it in ``__all__``; so are the methods and attributes of a
public class that begin with no underscore, and the options of a constructor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import griffe

from tests.documentation.pages import DOCS, ROOT

__all__ = ["MODULES", "Listing", "docstrings", "folded", "markdown", "public_names"]

MODULES: Final = (
    "aioproducer",
    "aioproducer.sync",
    "aioproducer.admin",
    "aioproducer.reader",
    "aioproducer.consumer",
    "aioproducer.errors",
    "aioproducer.loops",
    "aioproducer.serialization",
    "aioproducer.schema_registry",
    "aioproducer.failed_records",
    "aioproducer.observability.live",
    "aioproducer.observability.log_handler",
    "aioproducer.observability.otel",
    "aioproducer.observability.prometheus",
    "aioproducer.auth.aws_msk_iam",
    "aioproducer.auth.aws_web_identity",
    "aioproducer.auth.azure",
    "aioproducer.auth.gcp",
    "aioproducer.compat.aiokafka",
    "aioproducer.compat.confluent",
    "aioproducer.compat.faststream",
    "aioproducer.spark",
    "aioproducer.testing",
    "aioproducer.testing.fault_proxy",
    "aioproducer.testing.kafka_cluster",
    "aioproducer.testing.mock_cluster",
)
"""The public modules; one that is not there is left out."""

_OPTIONS: Final = {
    "ProducerOptions": "aioproducer.config.names.ProducerOptions",
    "ConsumerKeywords": "aioproducer.consumer.options.ConsumerKeywords",
    "ReaderKeywords": "aioproducer.config.reader_options.ReaderKeywords",
}
"""The keywords of constructors."""
_SPECIAL: Final = re.compile(
    "__(init|call|await|contains|len|getitem|a?enter|a?exit|a?iter|a?next)__"
)
"""The special methods that are listed."""
_WIDTH: Final = 100
_CONTINUED: Final = " " * 8


def markdown() -> str:
    """A part of the page for each module."""
    return "\n\n".join(
        f"## {title}\n\n```text\n" + "\n".join(map(folded, lines)) + "\n```"
        for title, lines in _parts()
    )


def folded(line: str) -> str:
    """The line in pieces of at most 100 columns, broken between arguments if it can be."""
    indent = line[: len(line) - len(line.lstrip())] + _CONTINUED
    pieces = [""]
    for argument in _arguments(line):
        if pieces[-1].strip() and len(f"{pieces[-1]}{argument}".rstrip()) > _WIDTH:
            pieces.append(indent)
        pieces[-1] += argument
    return "\n".join(map(str.rstrip, pieces))


def _arguments(line: str) -> Iterator[str]:
    """The parts after commas outside of square brackets; together they are the line."""
    begin = depth = 0
    for end, letter in enumerate(line):
        depth += (letter == "[") - (letter == "]")
        if letter == " " and line[end - 1] == "," and not depth:
            yield line[begin : end + 1]
            begin = end + 1
    yield line[begin:]


def public_names() -> dict[str, list[str]]:
    """The names by module."""
    package = _package()
    return {name: list(_exported(module)) for name, module in _modules(package)}


def docstrings() -> dict[str, str]:
    """The docstrings of public modules, of their names, and of the members of their classes."""
    found: dict[str, str] = {}
    for _, module in _modules(_package()):
        for each in (module, *(_target(module[name]) for name in _exported(module))):
            members = each.members.values() if each.is_class else ()
            for one in (each, *(_target(member) for member in members)):
                if one.docstring is not None and not one.name.startswith("_"):
                    found[one.path] = one.docstring.value
    return found


def _parts() -> Iterator[tuple[str, list[str]]]:
    package = _package()
    listing = Listing(package)
    for name, module in _modules(package):
        yield name, listing.lines(name, module)
    for title, path in _OPTIONS.items():
        options = _target(package[path.removeprefix("aioproducer.")])
        yield f"Options: {title}", listing.members(options)


def _package() -> griffe.Module:
    blocking = griffe.load_extensions(str(DOCS / ".site" / "roles.py:Blocking"))
    package = griffe.load(
        "aioproducer", search_paths=[ROOT], extensions=blocking, allow_inspection=False
    )
    assert isinstance(package, griffe.Module)
    return package


def _modules(package: griffe.Module) -> Iterator[tuple[str, griffe.Module]]:
    for name in MODULES:
        path = name.removeprefix("aioproducer").removeprefix(".")
        try:
            module = package[path] if path else package
        except KeyError:
            continue
        yield name, module


def _exported(module: griffe.Module) -> Iterator[str]:
    if module.exports is None:
        raise ValueError(f"{module.path} is public and has no __all__")
    for each in module.exports:
        yield str(each)


def _target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


class Listing:
    """The lines of modules. An object stands in its first module alone; others name that."""

    def __init__(self, package: griffe.Module) -> None:
        self._public = {
            _target(module[each]).path
            for _, module in _modules(package)
            for each in _exported(module)
        }
        self._first: dict[str, str] = {}

    def lines(self, name: str, module: griffe.Module) -> list[str]:
        """The names of ``__all__`` in their order."""
        return [line for each in sorted(_exported(module)) for line in self._of(name, each, module)]

    def _of(self, module_name: str, name: str, module: griffe.Module) -> list[str]:
        found = _target(module[name])
        first = self._first.setdefault(found.path, module_name)
        if first != module_name:
            return [f"{name}: {first}.{name}"]
        if isinstance(found, griffe.Class):
            bases = ", ".join(str(base) for base in found.bases)
            return [f"class {name}({bases})" if bases else f"class {name}", *self.members(found)]
        if isinstance(found, griffe.Function):
            return list(_signatures(found))
        if isinstance(found, griffe.Attribute):
            return [_attribute(name, found)]
        return [f"module {name}"]

    def members(self, cls: griffe.Object) -> list[str]:
        """The members without those of bases that are public themselves."""
        is_tuple = isinstance(cls, griffe.Class) and "NamedTuple" in map(str, cls.bases)
        names = list(cls.all_members) if is_tuple else sorted(cls.all_members)
        return [
            f"    {line}"
            for name in names
            if _SPECIAL.fullmatch(name) or not name.startswith("_")
            for line in self._member(name, cls)
        ]

    def _member(self, name: str, cls: griffe.Object) -> Iterator[str]:
        found = _target(cls.all_members[name])
        owner = found.parent
        if owner is None or not found.path.startswith("aioproducer."):
            return
        if owner.path != cls.path and owner.path in self._public:
            return
        if isinstance(found, griffe.Function):
            overloads = owner.overloads.get(name) if isinstance(owner, griffe.Class) else None
            for each in overloads or [found]:
                yield from _signatures(each)
        elif isinstance(found, griffe.Attribute):
            yield _attribute(name, found)


def _signatures(found: griffe.Function) -> Iterator[str]:
    prefix = "async " if "async" in found.labels else ""
    for each in found.overloads or [found]:
        yield f"{prefix}{each.signature(name=found.name)}"


def _attribute(name: str, found: griffe.Attribute) -> str:
    kind = "property " if "property" in found.labels else ""
    annotation = "" if found.annotation is None else f": {found.annotation}"
    return f"{kind}{name}{annotation}"
