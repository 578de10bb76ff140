"""Read records back from assigned partitions, without a consumer group."""

from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.model import ConsumerRecord
from aioproducer.reader.positions import Assignment, Position
from aioproducer.reader.reader import Reader

__all__ = ["Assignment", "ConsumerRecord", "Position", "Reader", "RecordBatch"]
