"""Batches without an outcome by partition, in bounded memory.

:class:`RecordAccumulator` takes records in. The sender takes batches out of its
:class:`BatchQueue` (``batches``). Records without a batch are in its :class:`PendingQueue`
(``pending``), and callers of ``drain()`` wait in its :class:`MemoryWaiters` (``waiters``). Other
packages import from this one, and from none of its modules.

When memory is full, a record becomes a pending record with a deadline
(:meth:`RecordAccumulator.enqueue`). :meth:`PendingQueue.add` refuses it if pending records have no
room either. The sender hands out returned memory in its rounds (:meth:`MemoryWaiters.serve`). First
come pending records, those of the partition that had the least memory when it began to wait
(:meth:`MemoryQuota.grant`). Then callers of ``drain()`` go on. A pending record fails with
BufferExhaustedError at its deadline (``Expiry._expire_pending``). A caller of ``drain()`` fails
only if the producer ends (:meth:`MemoryWaiters.close`).
"""

from aioproducer.engine.accumulator.batch_queue import BatchQueue
from aioproducer.engine.accumulator.memory_quota import LeaderView, MemoryQuota
from aioproducer.engine.accumulator.partition import Backlog, Backlogs, Partition
from aioproducer.engine.accumulator.pending_records import (
    PendingRecord,
    RecordFuture,
    SerializedRecord,
    Unserialized,
    cancelled_by_caller,
)
from aioproducer.engine.accumulator.producer_batch import (
    AccumulatorSettings,
    BatchPhase,
    ProducerBatch,
    accumulator_settings,
    still_uncertain,
)
from aioproducer.engine.accumulator.record_accumulator import RecordAccumulator
from aioproducer.engine.accumulator.results import FailingTopic, Flushes, LateResults, TopicOutcomes
from aioproducer.engine.accumulator.waiting import MemoryWaiters, PendingQueue

__all__ = [
    "AccumulatorSettings",
    "Backlog",
    "Backlogs",
    "BatchPhase",
    "BatchQueue",
    "FailingTopic",
    "Flushes",
    "LateResults",
    "LeaderView",
    "MemoryQuota",
    "MemoryWaiters",
    "Partition",
    "PendingQueue",
    "PendingRecord",
    "ProducerBatch",
    "RecordAccumulator",
    "RecordFuture",
    "SerializedRecord",
    "TopicOutcomes",
    "Unserialized",
    "accumulator_settings",
    "cancelled_by_caller",
    "still_uncertain",
]
