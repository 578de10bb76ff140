"""The compiled forms have the types of their references."""

from types import ModuleType

from aioproducer.columnar.avro_rows import avro_rows as avro_rows
from aioproducer.columnar.json_rows import json_rows as json_rows
from aioproducer.columnar.protobuf_rows import protobuf_rows as protobuf_rows

columns: ModuleType
decimals: ModuleType
output: ModuleType
shortest: ModuleType
