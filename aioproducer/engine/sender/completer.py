"""The way back: responses to produce requests, and the outcomes of their batches.

A response is read by :mod:`produce`, an outcome is decided by :mod:`outcomes`. Here it is carried
out: futures, retries, memory, metrics.

If a connection breaks, :meth:`NetworkClient._on_disconnect` completes its requests with the reason,
usually a :class:`NetworkError`. It is retriable, and leaves open whether the broker has written the
batches. So a batch that may be retried becomes ``uncertain``, and goes back to its place
(:meth:`Partition.requeue`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Final

from aioproducer.engine.accumulator import (
    BatchPhase,
    BatchQueue,
    LateResults,
    PendingRecord,
    ProducerBatch,
    RecordAccumulator,
    still_uncertain,
)
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.records.builder import NO_PRODUCER_STATE
from aioproducer.engine.sender.compressor import Compressor
from aioproducer.engine.sender.delivery_reports import DeliveryReports, PendingFailures
from aioproducer.engine.sender.gaps import Gaps
from aioproducer.engine.sender.outcomes import (
    Deliver,
    Fail,
    Outcome,
    Retry,
    SetAside,
    Split,
    Standing,
    decide,
    decide_error,
    others_in_batch,
)
from aioproducer.engine.sender.produce import (
    AppendResult,
    PartitionResult,
    ProduceRequest,
    ProduceResults,
)
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.errors import (
    ProducerClosedError,
    ProducerError,
    TransactionAbortedError,
    kafka_error,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation import tuning
from aioproducer.foundation.backoff import ExponentialBackoff, Pace
from aioproducer.foundation.logs import ModuleLogger, counted
from aioproducer.model import BigInt, NodeId, TopicPartition

if TYPE_CHECKING:
    from aioproducer.engine.transactions.manager import TransactionManager

logger = ModuleLogger(__name__)

_SENT: Final = BatchPhase.SENT
_FIRST_APPEND_TIME_MS: Final = 86_400_000
"""A log append time in the first day of 1970 is a placeholder, which no clock of a broker shows.
The records keep their own timestamps."""


class SharedAppends:
    """Notices batches that another process has written in a transaction of several processes.

    All of them number batches with one producer id and epoch. If two write to one partition, a
    broker takes a batch of one for a retry of the other's, and answers as if it had written it. But
    then it answers with the time of the batch that it has, and an append to a topic with
    ``CreateTime`` has none. So either all batches for a topic have a time (``LogAppendTime``), or
    none has.

    Source: ``UnifiedLog.append``, which answers with ``BatchMetadata.timestamp`` for a duplicate.
    """

    def __init__(self) -> None:
        self._have_time: dict[str, bool] = {}

    def refuses(self, batch: ProducerBatch, base_offset: BigInt, append_time_ms: BigInt) -> bool:
        """True if some of the topic's batches were written here, and others by another process.

        ``append_time_ms``: -1 for none. An earlier attempt of ``batch`` has its timestamp.
        """
        unknown: bool = base_offset < 0  # a duplicate that is known to be in the log
        if batch.uncertain and (unknown or append_time_ms == batch.builder.max_timestamp_ms):
            return False
        has_time: bool = unknown or append_time_ms >= 0
        return self._have_time.setdefault(batch.topic_partition.topic, has_time) is not has_time


class BatchCompleter:
    """Takes the responses to produce requests, and gives each batch its outcome."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        gaps: Gaps,
        pending_failures: PendingFailures,
        reports: DeliveryReports,
        compressor: Compressor,
        refresher: MetadataRefresher,
        backoff: ExponentialBackoff,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._batches: BatchQueue = accumulator.batches
        self._late_results: LateResults = accumulator.late_results
        self._pending = accumulator.pending
        self._topic_outcomes = accumulator.topic_outcomes
        self._metadata = metadata
        self.gaps = gaps
        self._pending_failures = pending_failures
        self._reports = reports
        self._compressor = compressor
        self._refresher = refresher
        self._backoff = backoff
        self._transactions = transactions
        joined = transactions is not None and transactions.joined
        self._shared: SharedAppends | None = SharedAppends() if joined else None
        """None: no other process writes with this producer id and epoch."""

    def complete(self, request: ProduceRequest, completion: Completion, now: float) -> None:
        """Complete the batches of ``request`` by its response, or by the error in its place."""
        observer = self._reports.observed.observer
        if observer is not None:
            self._reports.request_ended(observer, request, completion)
        batch: ProducerBatch
        if type(completion.result) is list:  # the usual response: every batch was written
            appended: list[AppendResult] = completion.result
            for (batch, _), result in zip(request.batches, appended, strict=True):
                batch.lent = False
                if batch.phase is _SENT:  # else it has failed meanwhile
                    self.deliver(batch, *result, now)
        else:
            self._complete_other(request, completion, now)

    def deliver(
        self,
        batch: ProducerBatch,
        base_offset: BigInt,
        log_append_time_ms: BigInt,
        log_start_offset: BigInt,
        now: float,
    ) -> None:
        """Complete a batch that is in the log; see :class:`Deliver`."""
        if log_append_time_ms < _FIRST_APPEND_TIME_MS:
            log_append_time_ms = -1
        shared = self._shared
        if shared is not None and shared.refuses(batch, base_offset, log_append_time_ms):
            self._fail(batch, _written_by_another(batch), True, {}, now)
            return
        gaps = self.gaps
        if batch.partition.aside:
            self._complete_aside(batch, base_offset, now)
        self._reports.delivered(batch, now)
        self._late_results.complete_futures(
            batch, base_offset, log_append_time_ms, log_start_offset
        )
        outcomes = self._topic_outcomes
        outcomes.delivered_records += batch.builder.count
        if outcomes.failing:
            outcomes.forget(batch.topic_partition.topic)
        self._batches.complete(batch, now)
        if gaps.partitions:
            for lost in gaps.delivered(batch):
                self._fail_doubtful(lost, now)

    def _complete_other(self, request: ProduceRequest, completion: Completion, now: float) -> None:
        error, node = completion.error, completion.node
        results: Mapping[ProducerBatch, PartitionResult] = {}
        if error is None and request.answered:
            produced: ProduceResults = completion.result
            results = produced.results
            if produced.leaders:  # before their partitions are retried
                self._refresher.update_leaders(produced.leaders, produced.nodes, now)
        for batch, _ in request.batches:
            batch.lent = False
            if batch.phase is not _SENT:
                continue
            result = results.get(batch)
            if error is None and not request.answered:
                self.deliver(batch, -1, -1, -1, now)
            elif result is not None and not result.error_code:
                offset, appended = result.base_offset, result.log_append_time_ms
                self.deliver(batch, offset, appended, result.log_start_offset, now)
            else:
                standing = self._standing(batch, node, now)
                if error is None:
                    where = f"{batch.topic_partition} on {self._metadata.describe(node)}"
                    outcome = decide(result, where, standing)
                else:
                    outcome = decide_error(error, standing)
                self._carry_out(batch, outcome, node, now)

    def _standing(self, batch: ProducerBatch, node: NodeId, now: float) -> Standing:
        """The facts about ``batch``, which was sent to ``node``, that decide its outcome."""
        dropped_soon = self._dropping and not batch.uncertain
        return Standing(
            may_retry=self._batches.may_retry(batch, now),
            first_in_line=not dropped_soon and batch.partition.is_first_in_line(batch),
            behind_a_gap=batch.partition.has_gap_before(batch),
            broker_may_not_know=batch.split_in_doubt or batch.partition.later_is_in_log(batch),
            uncertain=batch.uncertain,
            later_was_delivered=batch.partition.later_was_delivered(batch),
            later_may_tell=batch.uncertain and batch.partition.later_may_tell(batch),
            records=batch.count,
            may_be_numbered_anew=self._transactions is None,
            is_numbered=batch.state is not NO_PRODUCER_STATE,
            has_new_leader=batch.partition.leader != node,
        )

    @property
    def _dropping(self) -> bool:
        """True if a batch's number may not fit because an abort has dropped earlier batches."""
        return self._transactions is not None and self._transactions.discards_unsent

    def _complete_aside(self, delivered: ProducerBatch, base_offset: BigInt, now: float) -> None:
        for batch, is_written in self.gaps.told_by(delivered, base_offset):
            if is_written:
                self.deliver(batch, -1, -1, -1, now)
            else:
                self._fail_doubtful(batch, now)

    def _carry_out(self, batch: ProducerBatch, outcome: Outcome, node: NodeId, now: float) -> None:
        """Carry out ``outcome`` for a batch that was sent to ``node``."""
        if isinstance(outcome, Deliver):
            self.deliver(batch, *outcome, now)
            return
        if outcome.error.refresh_metadata:
            self._metadata.request_update(batch.topic_partition.topic)
        match outcome:
            case Retry():
                self._retry(batch, outcome, node, now)
                if outcome.numbers_lost:
                    self.gaps.lose_number(batch)
            case SetAside(error):
                batch.last_error = error
                self.gaps.set_aside(batch, now)
            case Split(error):
                self._split(batch, error, now)
            case Fail(error, record_errors, is_fatal):
                uncertain = still_uncertain(batch.uncertain, error)
                self._fail(batch, error, uncertain, record_errors, now)
                if is_fatal:
                    self.abort(error, now)

    def close_gaps(self, now: float) -> None:
        """Do :meth:`Gaps.close`: after outcomes, before batches leave."""
        for batch in self.gaps.close(now):
            self._fail_doubtful(batch, now)

    def _fail_doubtful(self, batch: ProducerBatch, now: float) -> None:
        if batch.last_error is not None:
            self._fail(batch, batch.last_error, True, {}, now, alone=True)

    def _split(self, batch: ProducerBatch, error: ProducerError, now: float) -> None:
        self._compressor.came_out_too_large(batch)
        parts = self._batches.split(batch, now)
        self._reports.split(now)
        logger.repeated(
            logging.WARNING,
            "split",
            "Splitting a batch for %s into %d smaller ones: %s",
            batch.topic_partition,
            parts,
            error,
            error=error,
            **batch.topic_partition._asdict(),
        )

    def _retry(self, batch: ProducerBatch, retry: Retry, node: NodeId, now: float) -> None:
        batch.last_error = error = retry.error
        batch.uncertain = still_uncertain(batch.uncertain, error)
        # A first failure is no news: leaders move.
        level = logging.WARNING if batch.attempts else logging.INFO
        logger.repeated(
            logging.DEBUG if retry.pace is Pace.SOON else level,
            ("retry", node, type(error)),
            "Retrying %s for %s (attempt %d failed): %s",
            counted(batch.count, "record"),
            batch.topic_partition,
            batch.attempts + 1,
            error,
            records=batch.count,
            error=error,
            attempt=batch.attempts + 1,
            node=node,
            **batch.topic_partition._asdict(),
        )
        self._reports.retried(batch, node, now)
        wait = self._backoff.delay(batch.attempts + 1, retry.pace)
        self._batches.retry(batch, now + wait, now)

    def fail_late(self, batch: ProducerBatch, error: ProducerError, now: float) -> None:
        """Fail a batch whose ``delivery_timeout_ms`` is over."""
        self._fail(batch, error, batch.may_have_been_written, {}, now)

    def leave_cluster(self, error: ProducerError, now: float) -> None:
        """Another cluster takes the place of the producer's, as ``error`` says.

        It gets the batches without an outcome (:meth:`Gaps.leave_cluster`). No transaction goes on
        there: its coordinators do not know the producer id.
        """
        manager = self._transactions
        if manager is None:
            self.gaps.leave_cluster()
        elif manager.leave_cluster(error):
            self.abort(manager.refusal("send"), now)

    def abort(
        self,
        error: ProducerError,
        now: float,
        keeps: Callable[[ProducerBatch], bool] | None = None,
    ) -> int:
        """Fail every record that has no outcome, but those of batches that ``keeps`` is true for.

        Returns their number.
        """
        return sum(self.abort_in_slices(error, now, keeps))

    def abort_in_slices(
        self,
        error: ProducerError,
        now: float,
        keeps: Callable[[ProducerBatch], bool] | None = None,
    ) -> Iterator[int]:
        """:meth:`abort` as an iterator over the numbers of records that failed in its steps.

        A step takes whole batches, until they have ``RECORDS_PER_SLICE`` records. Other tasks may
        run between two steps, and no batch leaves meanwhile.
        """
        while self._late_results.waiting:
            self._late_results.turn(now)
            yield 0
        kept = () if keeps is None else {each for each in self._batches if keeps(each)}
        while batches := _up_to_a_slice(each for each in self._batches if each not in kept):
            yield sum(self._give_up(batch, error, now) for batch in batches)
        errors: dict[str | TopicPartition, ProducerError] = {}
        while records := list(islice(self._pending, tuning.RECORDS_PER_SLICE)):
            yield self._give_up_pending(records, error, errors, now)

    def purge(
        self, queued: ProducerError | None, in_flight: ProducerError | None, now: float
    ) -> int:
        """Fail the records that wait with ``queued``, those in flight with ``in_flight``.

        None: they stay. Returns the number of failed records. Source: librdkafka's
        ``rd_kafka_purge``.
        """
        failed = 0
        for batch in [*self._batches]:
            error = in_flight if batch.in_flight else queued
            if error is not None and not batch.done:
                failed += self._give_up(batch, error, now)
        if queued is not None:
            failed += self._give_up_pending([*self._pending], queued, {}, now)
        return failed

    def _give_up(self, batch: ProducerBatch, error: ProducerError, now: float) -> int:
        count, uncertain = batch.count, batch.may_have_been_written
        error = _error_for(error, uncertain, batch.topic_partition)
        self._end_failed(batch, error, uncertain, {}, now)
        return count

    def _give_up_pending(
        self,
        records: Iterable[PendingRecord],
        error: ProducerError,
        errors: dict[str | TopicPartition, ProducerError],
        now: float,
    ) -> int:
        """``errors``: the error of each topic or partition; missing ones are added."""
        waiting: dict[str | TopicPartition, list[PendingRecord]] = {}
        for record in records:
            waiting.setdefault(_scope_of(record), []).append(record)
        failed = 0
        for scope, there in waiting.items():
            if scope not in errors:
                errors[scope] = _error_for(error, False, scope)
            failed += self._pending_failures.fail(there[0].topic, there, errors[scope], now)
        return failed

    def _fail(
        self,
        batch: ProducerBatch,
        error: ProducerError,
        uncertain: bool,
        record_errors: Mapping[int, ProducerError],
        now: float,
        *,
        alone: bool = False,
    ) -> None:
        """Fail ``batch``, and in a transaction those before it that were set aside.

        ``alone``: it is one of those.
        """
        error = _error_for(error, uncertain, batch.topic_partition)
        logger.repeated(
            logging.ERROR,
            ("failed", type(error)),
            "A batch of %s for %s failed: %s",
            counted(batch.count, "record"),
            batch.topic_partition,
            error,
            records=batch.count,
            error=error,
            **batch.topic_partition._asdict(),
        )
        self._end_failed(batch, error, uncertain, record_errors, now)
        if self._transactions is not None and not alone:
            for each in batch.partition.take_aside():
                self._fail_doubtful(each, now)

    def _end_failed(
        self,
        batch: ProducerBatch,
        error: ProducerError,
        uncertain: bool,
        record_errors: Mapping[int, ProducerError],
        now: float,
    ) -> None:
        """Fail the futures of ``batch``, report it, note the gap, and return the memory.

        A transaction can't go on without its records, unless its own end has discarded them.
        """
        topic, count, others = batch.topic_partition.topic, batch.count, error
        if record_errors:
            others = others_in_batch(error)
            for each in (*record_errors.values(), others):
                each.may_have_been_written = uncertain
            batch.fail_records(record_errors, others)
        else:
            batch.fail(error)
        self._reports.failed(batch, error, others, record_errors, now)
        self._topic_outcomes.failed(topic, count, error, now)
        self.gaps.left_by(batch, uncertain=uncertain)
        self._batches.complete(batch, now)
        if self._transactions is not None:
            self._transactions.delivery_failed(error)


def _written_by_another(batch: ProducerBatch) -> ProducerError:
    where = batch.topic_partition
    return kafka_error(
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        f"{where}: the broker already had batches with these sequence numbers: another process has "
        "written to the partition in the same transaction. Each partition may have one writer",
    )


def _up_to_a_slice(batches: Iterable[ProducerBatch]) -> list[ProducerBatch]:
    taken, records = [], 0
    for batch in batches:
        taken.append(batch)
        records += batch.count
        if records >= tuning.RECORDS_PER_SLICE:
            break
    return taken


def _scope_of(record: PendingRecord) -> str | TopicPartition:
    partition = record.partition
    return record.topic if partition is None else TopicPartition(record.topic, partition)


def _error_for(
    error: ProducerError, may_have_been_written: bool, scope: str | TopicPartition
) -> ProducerError:
    """The error for the records of ``scope``: ``error`` itself, or a copy that names the scope.

    The error of a closed producer, or of an aborted transaction, names none by itself.
    """
    nameless = isinstance(error, ProducerClosedError | TransactionAbortedError)
    if not nameless and error.may_have_been_written is may_have_been_written:
        return error
    said = copy(error)
    if nameless:
        said.args = (f"{scope}: {error}",)
    said.__cause__ = error.__cause__
    said.may_have_been_written = may_have_been_written
    return said
