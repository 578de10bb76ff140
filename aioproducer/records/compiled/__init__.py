"""The innermost loops for C: all of them, or an error at the import.

``columns.pyx`` is the twin of ``records/columns.py``, and so on; ``entrance.pyx`` is that of
``aioproducer/entrance.py`` and ``records/short_way.py``.
"""

from aioproducer.records.compiled import builder, columns, delivery, entrance, spans

BinaryColumn = columns.BinaryColumn
Entrance = entrance.Entrance
IntColumn = columns.IntColumn
OpenBatches = entrance.OpenBatches
RecordsBuilder = builder.RecordsBuilder
ShortWay = entrance.ShortWay
deliver_records = delivery.deliver_records
fail_record = delivery.fail_record
fill_places = spans.fill_places
partitions_of_keys = columns.partitions_of_keys
rows_by_partition = columns.rows_by_partition
