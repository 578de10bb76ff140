"""Schemas of values: the client of a schema registry, serializers and deserializers.

::

    client.py   SchemaRegistry: its calls         model.py  schemas, references, rules
    rest/       the registry's REST API

    avro.py, json_schema.py, protobuf.py          a serializer and a deserializer for each format
    avro_schema.py, protobuf_schema.py            parsed schemas
    avro_misfits.py, avro_scan.py                 values and data that fastavro would mishandle
    json_validator.py                             values by a JSON Schema

    schema_serializer.py  schemas of a topic      schema_deserializer.py  schemas of records
    policies.py           the choice of a schema  wire_format.py          the schema's id
    objects.py            objects to dicts        extras.py               optional packages
"""

from aioproducer.schema_registry.avro import AvroDeserializer, AvroSerializer
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from aioproducer.schema_registry.model import (
    CompatibilityCheck,
    CompatibilityLevel,
    Reference,
    RegisteredSchema,
    Rule,
    Schema,
    SchemaType,
)
from aioproducer.schema_registry.policies import SerializerOptions, SubjectNameStrategy
from aioproducer.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from aioproducer.schema_registry.rest.authentication import BearerToken
from aioproducer.schema_registry.schema_deserializer import BlockingDeserializer

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
