"""The compiled twins have the types of their references."""

from aioproducer.entrance import PythonEntrance
from aioproducer.records.builder import RecordsBuilder as RecordsBuilder
from aioproducer.records.columns import BinaryColumn as BinaryColumn
from aioproducer.records.columns import IntColumn as IntColumn
from aioproducer.records.columns import partitions_of_keys as partitions_of_keys
from aioproducer.records.columns import rows_by_partition as rows_by_partition
from aioproducer.records.delivery import deliver_records as deliver_records
from aioproducer.records.delivery import fail_record as fail_record
from aioproducer.records.short_way import OpenBatches as OpenBatches
from aioproducer.records.short_way import ShortWay as ShortWay
from aioproducer.records.spans import fill_places as fill_places

Entrance = PythonEntrance
