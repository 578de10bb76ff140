"""Unsent batches by partition, in bounded memory.

:class:`RecordAccumulator` takes records in. The sender takes batches out of its
:class:`BatchQueue` (``batches``). Records without a batch are in its :class:`PendingQueue`
(``pending``), and callers of ``drain()`` wait in its :class:`MemoryWaiters` (``waiters``). Other
rooms import from this package, and from none of its modules.
"""

from aioproducer.accumulator.batch_queue import BatchQueue
from aioproducer.accumulator.memory_quota import LeaderView
from aioproducer.accumulator.memory_waiters import MemoryWaiters
from aioproducer.accumulator.partition import Backlog
from aioproducer.accumulator.pending_queue import PendingQueue
from aioproducer.accumulator.pending_records import (
    PendingRecord,
    RecordFuture,
    SerializedRecord,
    Unserialized,
    cancelled_by_caller,
)
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.accumulator.settings import AccumulatorSettings
from aioproducer.accumulator.topic_outcomes import FailingTopic, TopicOutcomes

__all__ = [
    "AccumulatorSettings",
    "Backlog",
    "BatchQueue",
    "FailingTopic",
    "LeaderView",
    "MemoryWaiters",
    "PendingQueue",
    "PendingRecord",
    "ProducerBatch",
    "RecordAccumulator",
    "RecordFuture",
    "SerializedRecord",
    "TopicOutcomes",
    "Unserialized",
    "cancelled_by_caller",
]
