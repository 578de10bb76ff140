"""The compiled twins have the types of their references."""

from threading import current_thread

from aioproducer.engine.core.sending import PythonFastPath
from aioproducer.engine.partitioning import route as route
from aioproducer.engine.records.builder import RecordsBuilder as RecordsBuilder
from aioproducer.engine.records.builder import batch_size_bound as batch_size_bound
from aioproducer.engine.records.builder import new_buffer as new_buffer
from aioproducer.engine.records.bulk_tokens import fill_places as fill_places
from aioproducer.engine.records.bulk_tokens import take_ahead as take_ahead
from aioproducer.engine.records.columns import BinaryColumn as BinaryColumn
from aioproducer.engine.records.columns import HeadersColumn as HeadersColumn
from aioproducer.engine.records.columns import IntColumn as IntColumn
from aioproducer.engine.records.columns import partitions_of_keys as partitions_of_keys
from aioproducer.engine.records.columns import rows_by_partition as rows_by_partition
from aioproducer.engine.records.delivery import RecordResults as RecordResults
from aioproducer.engine.records.delivery import deliver_records as deliver_records
from aioproducer.engine.records.delivery import fail_record as fail_record
from aioproducer.engine.records.delivery import hide as hide
from aioproducer.engine.records.delivery import show as show
from aioproducer.engine.records.parsed_records import ParsedRecords as ParsedRecords
from aioproducer.engine.records.parsed_records import arrow_buffers as arrow_buffers
from aioproducer.engine.records.routes import OpenBuilders as OpenBuilders
from aioproducer.engine.records.routes import Routes as Routes

FastPath = PythonFastPath
this_thread = current_thread
