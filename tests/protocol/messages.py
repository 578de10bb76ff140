"""Messages with any values in any of their fields."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.protocol import (
    SUPPORTED,
    Api,
    Schema,
    data_schema,
    request_schema,
    response_schema,
)
from aioproducer.engine.protocol.table import Field, Struct

BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS: Final = ("", "orders", "größe", "\0", "x" * 126, "y" * 127, "z" * 20_000)
SIZES: Final = (0, 0, 1, 1, 2, 3)
LONG: Final = 200
"""Elements of a list whose length takes two bytes."""


class Case(NamedTuple):
    """A message of one API in one version."""

    api: int
    kind: str
    version: int
    schema: Schema

    @property
    def name(self) -> str:
        return f"{self.schema.name} {self.version}"

    def draw(self, random: Random) -> Any:
        """A message with values in all fields that the version has."""
        return _struct(self, self.schema.root, random)


def cases() -> Iterator[Case]:
    """Every message that is spoken, in every version."""
    for api in Api:
        for kind, schema in (
            ("request", request_schema(api)),
            ("response", response_schema(api)),
        ):
            lowest, highest = SUPPORTED[api]
            for version in range(lowest, highest + 1):
                yield Case(int(api), kind, version, schema)
    for name in ("consumer_protocol_assignment", "consumer_protocol_subscription"):
        schema = data_schema(name)
        for version in range(schema.versions.first, schema.versions.last + 1):
            yield Case(-1, name.rpartition("_")[2], version, schema)


def _struct(case: Case, of: Struct, random: Random) -> Any:
    return of.kind(
        **{
            each.name: _value(case, each, random)
            for each in of.fields
            if case.version in each.versions
        }
    )


def _value(case: Case, field: Field, random: Random) -> Any:
    if case.version in field.nullable and random.random() < 0.2:
        return None
    if field.tag is not None and random.random() < 0.5:
        return field.default
    if not field.listed:
        return _one(case, field, random)
    size = LONG if random.random() < 0.02 else random.choice(SIZES)
    return tuple(_one(case, field, random) for _ in range(size))


def _one(case: Case, field: Field, random: Random) -> Any:
    kind = field.kind
    inner = case.schema.form(case.version).structs.get(kind)
    if inner is not None:
        return _struct(case, inner, random)
    if kind == "bool":
        return random.random() < 0.5
    if kind in BITS:
        bits = random.choice((1, 7, BITS[kind] - 1))
        return random.randint(-(2**bits), 2**bits - 1)
    if kind == "string":
        return random.choice(TEXTS)
    if kind == "uuid":
        return random.choice((None, UUID(int=random.getrandbits(128) or 1)))
    return random.randbytes(random.choice((0, 1, 127, 128, 300)))
