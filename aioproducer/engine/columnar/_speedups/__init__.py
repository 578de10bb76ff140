"""The encoders, compiled: all of them, or an error at the import.

Each ``.pyx`` file with the name of a Python module is its compiled form: ``avro_rows.pyx`` of
``columnar/avro_rows.py``. ``columns.pyx`` reads Arrow's buffers, ``output.pyx`` owns the output.
"""

from aioproducer.engine.columnar._speedups import avro_rows as _avro_rows
from aioproducer.engine.columnar._speedups import columns, decimals, output, shortest
from aioproducer.engine.columnar._speedups import json_rows as _json_rows
from aioproducer.engine.columnar._speedups import protobuf_rows as _protobuf_rows

avro_rows = _avro_rows.avro_rows
json_rows = _json_rows.json_rows
protobuf_rows = _protobuf_rows.protobuf_rows

__all__ = [
    "avro_rows",
    "columns",
    "decimals",
    "json_rows",
    "output",
    "protobuf_rows",
    "shortest",
]
