"""Records read back from assigned partitions.

There are no groups here: who shares partitions among members, and who commits offsets, is a room of
its own to come.
"""

from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.model import ConsumerRecord
from aioproducer.reader.positions import Assignment, Position
from aioproducer.reader.reader import Reader

__all__ = ["Assignment", "ConsumerRecord", "Position", "Reader", "RecordBatch"]
