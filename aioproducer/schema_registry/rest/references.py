"""The schemas that a schema refers to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from aioproducer.errors import SchemaRegistryError
from aioproducer.schema_registry.model import Reference, Schema

__all__ = ["referred_schemas"]

_MOST: Final = 1000


async def referred_schemas(
    schema: Schema, context: str, fetch: Callable[[Reference], Awaitable[Schema]]
) -> dict[str, Schema]:
    """All schemas that ``schema`` needs by the names of their references, each after its own.

    ``context``, ``:.name:`` or empty, is that of references which name none; for those of a
    referred schema, it is the context of that schema's subject. As in Confluent's client, the first
    reference with a name counts.

    Raises:
        SchemaRegistryError: the references form a cycle, or are too many.
    """
    found: dict[str, Schema] = {}
    open_names: dict[str, Schema] = {}
    """Fetched, and their own references are not all found."""
    ways: list[tuple[str, str, Iterator[Reference]]] = [("", context, iter(schema.references))]
    while ways:
        name, context, references = ways[-1]
        reference = next(references, None)
        if reference is None:
            ways.pop()
            if ways:
                found[name] = open_names.pop(name)
            continue
        if reference.name in found:
            continue
        if reference.name in open_names:
            raise SchemaRegistryError(
                f"the references of schemas form a cycle: {' -> '.join(open_names)} ->"
                f" {reference.name}"
            )
        if len(found) + len(open_names) >= _MOST:
            raise SchemaRegistryError(f"a schema refers to more than {_MOST} others")
        qualified = _qualified(reference, context)
        fetched = await fetch(qualified)
        open_names[reference.name] = fetched
        way = reference.name, context_of(qualified.subject), iter(fetched.references)
        ways.append(way)
    return found


def context_of(subject: str) -> str:
    """``:.name:`` at the subject's beginning; empty if it names no context."""
    if not subject.startswith(":.") or (end := subject.find(":", 2)) < 0:
        return ""
    return subject[: end + 1]


def _qualified(reference: Reference, context: str) -> Reference:
    if not context or context_of(reference.subject):
        return reference
    return Reference(reference.name, context + reference.subject, reference.version)
