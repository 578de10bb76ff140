"""The expiry of batches and pending records, and the reasons in their errors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from aioproducer.engine.accumulator import (
    BatchPhase,
    PendingRecord,
    ProducerBatch,
    RecordAccumulator,
)
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.sender.completer import BatchCompleter
from aioproducer.engine.sender.delivery_reports import PendingFailures
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    PreparationTimeoutError,
    ProducerError,
)
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import ModuleLogger, counted, duration

if TYPE_CHECKING:
    from aioproducer.engine.transactions.manager import TransactionManager

logger = ModuleLogger(__name__)

_VAIN_ATTEMPTS: Final = 10
"""Records of a topic that are serialized in vain before the late ones after them fail."""
_MEMORY_FULL_FOR: Final = 10.0
"""Seconds that records wait for memory before a line says so."""
_BETWEEN_LINES: Final = 60.0
"""Seconds from one such line to the next."""


class Expiry:
    """Fails batches after ``delivery_timeout_ms``, and pending records after ``max_block_ms``.

    :class:`BatchQueue` decides which batches are late; the deadline of a pending record is never
    later than that of a batch (:func:`accumulator_settings`). The sender knows the
    first of all (:meth:`RecordAccumulator.next_deadline`). Once it has passed, :meth:`Sender.run`
    reads the sockets, and only then calls :meth:`expire`. A batch whose response then reports an
    error fails with this error (:meth:`BatchQueue.may_retry`). Time in which the process did
    not run counts for nobody (:class:`RunningClock`).
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        completer: BatchCompleter,
        client: NetworkClient,
        metadata: Metadata,
        sequence_numbers: SequenceNumbers,
        pending_failures: PendingFailures,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._accumulator = accumulator
        self._batches = accumulator.batches
        self._pending = accumulator.pending
        self._completer = completer
        self._client = client
        self._metadata = metadata
        self._sequence_numbers = sequence_numbers
        self._pending_failures = pending_failures
        self._transactions = transactions
        self._next_line = 0.0
        """No line about waiting records before this time."""

    def expire(self, now: float) -> None:
        """Fail what is late: ``RECORDS_PER_SLICE`` records in batches, and as many pending ones."""
        for batch in self._batches.expired(now, tuning.RECORDS_PER_SLICE):
            if not batch.done:  # else it has failed with the one before it
                self._completer.fail_late(batch, self._why_late(batch), now)
        self._expire_pending(now)

    # --- batches -----------------------------------------------------------------------------

    def _why_late(self, batch: ProducerBatch) -> DeliveryTimeoutError:
        maybe = batch.may_have_been_written
        written = "it may have been written" if maybe else "it was not written"
        return DeliveryTimeoutError(
            f"{batch.topic_partition}: not acknowledged within "
            f"{duration(self._batches.delivery_timeout)} (delivery_timeout_ms); {written}. "
            "Resolve the cause, or raise the timeout: "
            f"{batch.last_error or self._why_not_sent(batch)}"
        )

    def _why_not_sent(self, batch: ProducerBatch) -> str:
        """The reason that a batch was not sent, if no attempt has failed."""
        if batch.phase is BatchPhase.TAKEN:
            return "the batch was not compressed yet"
        leader = batch.partition.leader
        if leader is None:
            return "the partition has no leader"
        if not self._sequence_numbers.usable:
            return "no producer id was assigned"
        manager = self._transactions
        if manager is not None and not manager.contains(batch.topic_partition):
            said = f": {manager.last_response_error}" if manager.last_response_error else ""
            return f"the coordinator did not add the partition to the transaction{said}"
        broker = self._metadata.describe(leader)
        failure = self._metadata.foreign or self._client.failures().get(leader)
        return f"{broker} did not accept the batch" if failure is None else str(failure)

    # --- pending records ---------------------------------------------------------------------

    def _expire_pending(self, now: float) -> None:
        late: dict[str, tuple[int, ProducerError]] = {}
        vain: Counter[str] = Counter()
        for record in self._pending.expired(now, tuning.RECORDS_PER_SLICE):
            if record.is_done:  # it went into a batch as the record before it failed
                continue
            error = self._why_pending(record, now)
            # A topic that is known lacks the partition that this record names.
            others_may_pass = isinstance(error, MetadataTimeoutError) and (
                record.topic in self._metadata.snapshot.topics
            )
            self._pending_failures.fail(
                record.topic, [record], error, now, others_may_pass=others_may_pass
            )
            if record.serialize is not None and vain[record.topic] < _VAIN_ATTEMPTS:
                vain[record.topic] += not self._serialize_next(record.topic, now)
            count, _ = late.get(record.topic, (0, error))
            late[record.topic] = count + 1, error
        for topic, (count, error) in late.items():
            self._pending_failures.tell(topic, count, error)

    def _serialize_next(self, topic: str, now: float) -> bool:
        """Serialize the records after a failed one; False: the next one is not prepared either."""
        unserialized = self._pending.unserialized
        head = unserialized.first(topic)
        self._accumulator.serialize_pending(topic, tuning.RECORDS_PER_SLICE, now)
        return head is None or unserialized.first(topic) is not head

    def tell_waiting(self, now: float) -> None:
        """Write a line if records have waited for metadata or memory for long."""
        oldest = self._pending.oldest
        if oldest is None or now - oldest.sent < _MEMORY_FULL_FOR or now < self._next_line:
            return
        self._next_line = now + _BETWEEN_LINES
        logger.warning(
            "%s pending, the oldest one for %s: it waits for %s",
            counted(len(self._pending), "record"),
            duration(now - oldest.sent),
            self._awaited(oldest),
            pending=len(self._pending),
        )

    def _awaited(self, record: PendingRecord) -> str:
        """The thing that ``record`` waits for."""
        if record.serialize is not None:
            return f"the serializers of topic {record.topic!r}"
        known = self._metadata.snapshot.topics.get(record.topic)
        if known is None:
            return f"the metadata of topic {record.topic!r}"
        if (record.partition or 0) >= len(known.partitions):
            return f"partition {record.partition} of topic {record.topic!r}"
        return "memory: buffer_memory is used up"

    def _why_pending(self, record: PendingRecord, now: float) -> ProducerError:
        if record.serialize is not None:
            return self._why_unserialized(record.topic, now - record.sent)
        unknown = self._metadata.why_no_partition(
            record.topic, record.partition or 0, now - record.sent, self._client.failures
        )
        if unknown is not None:
            return unknown
        self._client.metrics.buffer_exhausted(now)
        return BufferExhaustedError(
            f"no memory became free for a record of topic {record.topic!r} within "
            f"{duration(now - record.sent)} (max_block_ms or delivery_timeout_ms): use "
            "`await producer.drain()` between sends, or raise buffer_memory"
        )

    def _why_unserialized(self, topic: str, waited: float) -> PreparationTimeoutError:
        cause = self._pending.preparation_errors.get(topic)
        reason = "prepare() has not returned"
        if cause is not None:
            reason = f"the last error is {type(cause).__name__}: {cause}"
        error = PreparationTimeoutError(
            f"the serializers were not prepared for topic {topic!r} within {duration(waited)} "
            f"(max_block_ms or delivery_timeout_ms): {reason}"
        )
        error.__cause__ = cause
        return error
