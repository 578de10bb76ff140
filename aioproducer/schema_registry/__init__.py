"""Schemas of values: the client of a schema registry, serializers and deserializers.

::

    client.py   SchemaRegistry: its calls         model.py  schemas, and registered schemas
    rest/       the registry's REST API
    avro/, json_schema/, protobuf/                the formats

    schema_serializer.py  schemas of a topic      schema_deserializer.py  schemas of records
    policies.py, subjects.py, data_contracts.py, schema_sources.py        the choice of a schema
    wire_format.py        the schema's id         blocking.py             for other consumers
    objects.py            objects to dicts        nesting.py, found.py    bounds and messages
    extras.py             optional packages
"""

from aioproducer.schema_registry.avro.deserializer import AvroDeserializer
from aioproducer.schema_registry.avro.serializer import AvroSerializer
from aioproducer.schema_registry.blocking import BlockingDeserializer
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.json_schema.deserializer import JsonSchemaDeserializer
from aioproducer.schema_registry.json_schema.serializer import JsonSchemaSerializer
from aioproducer.schema_registry.model import (
    CompatibilityCheck,
    CompatibilityLevel,
    Reference,
    RegisteredSchema,
    Rule,
    Schema,
    SchemaType,
)
from aioproducer.schema_registry.policies import SerializerOptions
from aioproducer.schema_registry.protobuf.deserializer import ProtobufDeserializer
from aioproducer.schema_registry.protobuf.serializer import ProtobufSerializer
from aioproducer.schema_registry.rest.authentication import BearerToken
from aioproducer.schema_registry.subjects import SubjectNameStrategy

__all__ = [
    "SchemaRegistry",
    "BearerToken",
    "AvroSerializer",
    "AvroDeserializer",
    "JsonSchemaSerializer",
    "JsonSchemaDeserializer",
    "ProtobufSerializer",
    "ProtobufDeserializer",
    "BlockingDeserializer",
    "SerializerOptions",
    "SubjectNameStrategy",
    "Schema",
    "SchemaType",
    "Reference",
    "Rule",
    "RegisteredSchema",
    "CompatibilityCheck",
    "CompatibilityLevel",
]
