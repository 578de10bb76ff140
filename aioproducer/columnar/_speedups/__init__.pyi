"""The compiled forms have the types of their references."""

from types import ModuleType

from aioproducer.columnar.avro_rows import avro_rows as avro_rows

columns: ModuleType
output: ModuleType
