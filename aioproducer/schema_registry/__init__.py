"""Schemas of values: the client of a schema registry, serializers and deserializers.

::

    client.py      SchemaRegistry: its calls   model.py           schemas, and registered schemas
    requests.py    requests and their answers  responses.py       JSON, or the error that it means
    cache.py       answers that are kept       flights.py         one request for all who wait
    references.py  schemas behind a schema     http.py            failover, retries, limits
    sessions.py    connections                 authentication.py  passwords and tokens
    addresses.py   URLs                        properties.py      Java's names
    origins.py     arguments and properties, for a pickle

    schema_serializer.py  schemas of a topic   schema_deserializer.py  schemas of records
    policies.py, subjects.py, data_contracts.py, schema_sources.py     which schema it is
    wire_format.py        the schema's id      blocking.py             for other consumers
    objects.py            objects to dicts     nesting.py, found.py    bounds and messages
    avro_serializer.py, avro_deserializer.py, avro_schema.py; avro_guard.py, avro_diagnosis.py and
    avro_scan.py          values and data that fastavro takes although they do harm
    json_schema_serializer.py, json_schema_deserializer.py, json_schema.py
    protobuf_serializer.py, protobuf_deserializer.py, protobuf_schema.py
"""

from aioproducer.schema_registry.authentication import BearerToken
from aioproducer.schema_registry.avro_deserializer import AvroDeserializer
from aioproducer.schema_registry.avro_serializer import AvroSerializer
from aioproducer.schema_registry.blocking import BlockingDeserializer
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.json_schema_deserializer import JsonSchemaDeserializer
from aioproducer.schema_registry.json_schema_serializer import JsonSchemaSerializer
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
from aioproducer.schema_registry.protobuf_deserializer import ProtobufDeserializer
from aioproducer.schema_registry.protobuf_serializer import ProtobufSerializer
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
