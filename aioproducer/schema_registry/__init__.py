"""Schemas of values: the client of a schema registry.

::

    client.py    SchemaRegistry          model.py  schemas, and schemas as a registry has them
    requests.py  requests and responses
"""

from aioproducer.schema_registry.client import BearerToken, SchemaRegistry
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
