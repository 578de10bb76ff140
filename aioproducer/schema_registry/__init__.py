"""Schemas of values: the client of a schema registry.

::

    client.py      SchemaRegistry: its calls   model.py           schemas, and registered schemas
    requests.py    requests and their answers  responses.py       JSON, or the error that it means
    cache.py       answers that are kept       flights.py         one request for all who wait
    references.py  schemas behind a schema     http.py            failover, retries, limits
    sessions.py    connections                 authentication.py  passwords and tokens
    addresses.py   URLs                        properties.py      Java's names
"""

from aioproducer.schema_registry.authentication import BearerToken
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.model import (
    CompatibilityCheck,
    CompatibilityLevel,
    Reference,
    RegisteredSchema,
    Rule,
    Schema,
    SchemaType,
)

__all__ = [
    "SchemaRegistry",
    "BearerToken",
    "Schema",
    "SchemaType",
    "Reference",
    "Rule",
    "RegisteredSchema",
    "CompatibilityCheck",
    "CompatibilityLevel",
]
