"""The compiled twins have the types of their references."""

from aioproducer.records.builder import RecordsBuilder as RecordsBuilder
from aioproducer.records.delivery import deliver_records as deliver_records
