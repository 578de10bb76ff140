"""The compiled forms have the types of their references."""

from types import ModuleType

from aioproducer.engine.columnar.avro_rows import avro_rows as avro_rows
from aioproducer.engine.columnar.json_rows import json_rows as json_rows
from aioproducer.engine.columnar.protobuf_rows import protobuf_rows as protobuf_rows

columns: ModuleType
decimals: ModuleType
output: ModuleType
shortest: ModuleType
