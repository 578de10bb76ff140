"""The compiled twins have the types of their references."""

from aioproducer.core.fast_path import PythonFastPath
from aioproducer.records.arrow_columns import arrow_buffers as arrow_buffers
from aioproducer.records.builder import RecordsBuilder as RecordsBuilder
from aioproducer.records.bulk_tokens import fill_places as fill_places
from aioproducer.records.collection import hide as hide
from aioproducer.records.collection import show as show
from aioproducer.records.columns import BinaryColumn as BinaryColumn
from aioproducer.records.columns import HeadersColumn as HeadersColumn
from aioproducer.records.columns import IntColumn as IntColumn
from aioproducer.records.columns import partitions_of_keys as partitions_of_keys
from aioproducer.records.columns import rows_by_partition as rows_by_partition
from aioproducer.records.delivery import deliver_records as deliver_records
from aioproducer.records.delivery import fail_record as fail_record
from aioproducer.records.parsed_records import ParsedRecords as ParsedRecords
from aioproducer.records.route_cache import OpenBuilders as OpenBuilders
from aioproducer.records.route_cache import RouteCache as RouteCache

FastPath = PythonFastPath
