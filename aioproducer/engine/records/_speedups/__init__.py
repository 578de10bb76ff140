"""The innermost loops, compiled: all of them, or an error at the import.

Each ``.pyx`` file is the compiled form of the Python module with its name: ``columns.pyx`` of
``records/columns.py``, and so on. ``fast_path.pyx`` is the compiled form of
``engine/core/sending.py`` and ``records/route_cache.py``, ``arrow_columns.pyx`` of the second half
of ``records/parsed_records.py``, ``cpython_internals.pyx`` of ``hide()`` and ``show()`` in
``records/delivery.py``.
"""

from aioproducer.engine.records._speedups import (
    arrow_columns,
    builder,
    bulk_tokens,
    columns,
    cpython_internals,
    delivery,
    fast_path,
    parsed_records,
)

BinaryColumn = columns.BinaryColumn
FastPath = fast_path.FastPath
HeadersColumn = columns.HeadersColumn
IntColumn = columns.IntColumn
OpenBuilders = fast_path.OpenBuilders
ParsedRecords = parsed_records.ParsedRecords
RecordResults = delivery.RecordResults
RecordsBuilder = builder.RecordsBuilder
RouteCache = fast_path.RouteCache
arrow_buffers = arrow_columns.arrow_buffers
batch_size_bound = builder.batch_size_bound
deliver_records = delivery.deliver_records
fail_record = delivery.fail_record
fill_places = bulk_tokens.fill_places
hide = cpython_internals.hide
partitions_of_keys = columns.partitions_of_keys
route = columns.route_of
rows_by_partition = columns.rows_by_partition
show = cpython_internals.show
take_ahead = bulk_tokens.take_ahead
this_thread = cpython_internals.this_thread
