"""One Kafka transaction for each write: begun where it is planned, ended where it is committed.

Spark runs these steps in processes of their own, between which only their results travel:

1. :func:`begin` runs where the write is planned. It gets a new epoch for the sink's id, which
   fences writers of an older plan. Then it reads the *marker*, the offset of group ``sink.id``: the
   id of the batch that is to come next.
2. The tasks write into the transaction, each Kafka partition from only one task. The first attempt
   of each task writes. Any later one is refused (:meth:`TaskFailure.of_attempt`), or found by its
   sequence numbers (:class:`TaskPartitions`).
3. :func:`commit` adds the next marker and commits, so rows and marker become visible together.

A batch that comes again after its commit finds its marker and writes nothing.

A task that fails reports the reason as its outcome (:class:`TaskFailure`), so the commit's side
raises it. If the task raised it, Spark would run the task again, in vain, and show that error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from time import monotonic
from typing import Concatenate, Final, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from aioproducer.engine.records.arrow import murmur2_partitions
from aioproducer.errors import (
    DuplicateSequenceNumberError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    MetadataTimeoutError,
    OutOfOrderSequenceNumberError,
    ProducerError,
    ProducerFencedError,
    ProducerTimeoutError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aioproducer.foundation.logs import counted, plain_logger
from aioproducer.model import OffsetAndMetadata, TopicPartition, TransactionHandle
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.report import WriteReport
from aioproducer.spark.rows import row_numbers
from aioproducer.sync import Producer

logger = plain_logger(__name__)

_COMMIT_SECONDS: Final = 60.0
"""The longest time that a commit waits: unlike a beginning, it can't be tried again."""
_ABORT_SECONDS: Final = 10.0
"""The longest time that a failed write waits for its abort."""
_SIGNATURE: Final = "aioproducer:"
"""The beginning of a marker's metadata; the query's id follows."""
_UNKNOWN: Final = "?"
"""The query of a marker that was written without a task."""

ADVICE: Final = (
    "use aioproducer.spark.repartition_by_key(), which gives each Kafka partition one task"
)
REPEAT: Final = (
    "Nothing of the write is visible. Repeat it as a whole: publish_partitions(), foreach_batch() "
    "and, for a query, run_stream() of aioproducer.spark do so"
)


class RowsNotWrittenError(ProducerError):
    """Rows could not be written. Only the message has the details: Spark passes on nothing else."""


class RetriableWriteError(ProducerError):
    """A write failed, and may succeed if it is repeated as a whole.

    Brokers were not available, or, with ``exactly_once``, a task or an executor was lost. With
    ``exactly_once`` nothing of the write is visible, unless a commit got no response: the marker
    then shows whether it succeeded.
    """


class FailureKind(StrEnum):
    """What a repetition of the whole write can do about a failure."""

    FINAL = "final"
    """Nothing: it would fail again."""
    RETRIABLE = "retriable"
    FENCED = "fenced"
    """The transaction was ended by somebody else, whose reason counts more."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """The reason that a task did not write its rows."""

    text: str
    kind: FailureKind

    @classmethod
    def of(cls, task: int, error: BaseException) -> TaskFailure:
        """``error``: what ended the task number ``task``."""
        return cls(f"task {task}: {reason_of(error)}", kind_of(error))

    @classmethod
    def of_attempt(cls, task: int, number: int) -> TaskFailure | None:
        """The reason that an attempt of a task may not write; None: it is the first one.

        ``number``: of the attempt, from 0 on. If Spark runs a whole stage again, it begins at 0
        again, and :class:`TaskPartitions` tells the attempts apart.
        """
        if not number:
            return None
        return cls(
            f"task {task} runs again (attempt {number}): its first attempt failed or was lost, or "
            "spark.speculation, which must be off, has started a copy. Brokers would take its rows "
            "for duplicates of the first attempt's. For the cause look for "
            f"'Lost task {task}.0' in the driver's log",
            FailureKind.RETRIABLE,
        )


def kind_of(error: BaseException) -> FailureKind:
    """What a repetition can do about ``error``, by the first cause that tells."""
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, _FENCED):
            return FailureKind.FENCED
        if isinstance(each, MetadataTimeoutError):
            each = each.__cause__
            if each is None or isinstance(each, UnknownTopicOrPartitionError):
                return FailureKind.FINAL  # a topic or partition that does not exist
        if isinstance(each, _RETRIABLE) or (isinstance(each, ProducerError) and each.retriable):
            return FailureKind.RETRIABLE
        each = each.__cause__
    return FailureKind.FINAL


_FENCED: Final = (InvalidProducerEpochError, ProducerFencedError, InvalidTxnStateError)
_RETRIABLE: Final = (
    DuplicateSequenceNumberError,
    OutOfOrderSequenceNumberError,
    ProducerTimeoutError,
    RetriableWriteError,
    TransactionAbortableError,
)


def named(error: BaseException) -> str:
    """An error in a line of text."""
    return f"{type(error).__name__}: {error}"


def reason_of(error: BaseException) -> str:
    """What ended a task, in a line of text."""
    return str(error) if isinstance(error, RowsNotWrittenError) else named(error)


@contextmanager
def tells_what_may_pass() -> Iterator[None]:
    """Let the text of an error say that a repetition may help: Spark passes on nothing else."""
    try:
        yield
    except ProducerError as error:
        if isinstance(error, RetriableWriteError) or kind_of(error) is not FailureKind.RETRIABLE:
            raise
        raise RetriableWriteError(reason_of(error)) from error


@dataclass(frozen=True, slots=True)
class Batch:
    """The number of a write, and the query that it belongs to."""

    number: int
    query: str = ""
    """The streaming query's id, which stays with its checkpoint; empty for a batch write."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that was begun for one write. It pickles."""

    handle: TransactionHandle
    next_batch: int | None
    """The number of the next batch, by the marker; None: there is no marker yet."""
    query: str
    """The streaming query that wrote the marker."""

    def is_written(self, batch: Batch | None, *, fail_on_data_loss: bool = False) -> bool:
        """True if ``batch`` was committed before. None: a batch write without a number.

        ``fail_on_data_loss``: raise if a query has written before and its marker is gone.

        Raises:
            IllegalStateError: the marker does not fit: two queries use one ``sink.id``, a
                checkpoint was deleted or restored, or batches were left out.
        """
        sink = f"sink.id {self.handle.transactional_id!r}"
        query = batch.query if batch else ""
        if self.next_batch is None:
            if batch is not None and batch.query and batch.number:
                lost = (
                    f"{sink} has no marker, but this is batch {batch.number}. If the sink is not "
                    "new, either its topic was deleted and created again, and the rows of earlier "
                    "batches are gone, or the marker has expired (offsets.retention.minutes of the "
                    "brokers), and this batch may be written a second time"
                )
                if fail_on_data_loss:
                    raise IllegalStateError(f"{lost}. To continue, set failOnDataLoss=false once")
                logger.warning("%s", lost)
            return False
        last = self.next_batch - 1
        if self.query not in (query, _UNKNOWN):
            raise IllegalStateError(f"{sink} belongs to {_writer(self.query)}, {_other(batch)}")
        if batch is None:
            return False
        if batch.query and batch.number > self.next_batch:
            left_out = _numbers(self.next_batch, batch.number - 1)
            raise IllegalStateError(
                f"{sink} has written all batches up to {last}, and this is batch {batch.number}: "
                f"{left_out} did not pass this sink. The query ran with at_least_once, with "
                "another sink.id or with another sink meanwhile, or its foreachBatch function left "
                "a batch out (it has to write empty ones, too). To continue from here, use a new "
                "sink.id"
            )
        if batch.number < last:  # Spark only replays the last batch
            older = (
                "the query's checkpoint is older than the written batches, because it was restored "
                "or copied. To write them again, use a new sink.id"
                if batch.query
                else "sink.batch.id does not grow"
            )
            raise IllegalStateError(
                f"{sink} has written all batches up to {last}, and this is batch {batch.number}: "
                f"{older}"
            )
        return batch.number < self.next_batch


_LONGEST_START: Final = 61
"""The most rows of a first batch. A prime, as attempts are numbered through all tasks; with fewer
rows, fewer attempts can be told apart."""


class TaskPartitions:
    """The partitions of one attempt of a task. Each only takes rows of this attempt.

    All tasks write with one producer id and epoch, each from sequence number 0 on. When Spark runs
    a task again, a broker would take a batch with the numbers of an earlier one for a repetition of
    it, and drop it. So the first batch of a partition has a number of rows that tells attempts
    apart: the broker finds that of another attempt to be out of order, and the write fails, as it
    must. Spark itself does not tell when it runs a stage again.

    ``task``: its number in the write. ``shift``: by how many partitions rows without a key move
    from one write to the next. ``attempt``: a number that no other attempt of any task has.
    """

    def __init__(self, task: int, shift: int, attempt: int) -> None:
        self._task = task
        self._shift = shift
        self._attempt = attempt
        self.begun: set[TopicPartition] = set()
        """The partitions that rows were sent to; what became of them is not known here."""

    def parts(
        self, topic: str, rows: pa.RecordBatch, partitions: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """``rows`` with a partition each, to be sent one part after the other.

        Raises:
            IllegalStateError: rows without a key, and there are more tasks than partitions.
        """
        rows = self._placed(topic, rows, partitions)
        column = rows.column("partition")
        starts = []
        for partition in pc.unique(column).to_pylist():
            place = TopicPartition(topic, partition)
            if place not in self.begun:
                self.begun.add(place)
                its = pc.indices_nonzero(pc.equal(column, partition))
                starts.append(its[: 1 + self._attempt % min(len(its), _LONGEST_START)])
        if starts:
            first = pa.concat_arrays(starts)
            yield rows.take(first)
            rows = rows.filter(pc.invert(pc.is_in(row_numbers(rows), first)))
        if len(rows):
            yield rows

    def _placed(
        self, topic: str, rows: pa.RecordBatch, partitions: Sequence[int]
    ) -> pa.RecordBatch:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        column = columns.get("partition", pa.nulls(len(rows), pa.int32()))
        if column.null_count and "key" in columns:
            column = pc.coalesce(column, murmur2_partitions(columns["key"], len(partitions)))
        if column.null_count:
            column = pc.fill_null(column, pa.scalar(self.free(topic, partitions), pa.int32()))
        return pa.RecordBatch.from_pydict(columns | {"partition": column})

    def free(self, topic: str, partitions: Sequence[int]) -> int:
        """The partition for rows that may go anywhere; no other task takes it for them."""
        count = len(partitions)
        if self._task >= count:
            raise IllegalStateError(
                f"task {self._task} has rows without a key, and {topic!r} has "
                f"{counted(count, 'partition')}. With exactly_once each partition can only get "
                f"rows from one task: use df.coalesce({count})"
            )
        return partitions[(self._task + self._shift) % count]


def _writer(query: str) -> str:
    return f"the streaming query {query}" if query else "batch writes"


def _other(batch: Batch | None) -> str:
    """Who uses a ``sink.id`` that belongs to another one."""
    if batch is None or not batch.query:
        return "and this is a batch write: each sink needs its own sink.id"
    mine = f"and this is batch {batch.number} of {_writer(batch.query)}: "
    if batch.number:
        return mine + "each sink needs its own sink.id"
    return mine + (
        "two queries use it, or this is a query whose checkpoint was deleted or moved, which makes "
        "it another query. Set a new sink.id; a new checkpoint begins where its source begins, so "
        "rows can be in Kafka twice"
    )


def _numbers(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"batches {first} to {last}"


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of a task."""

    report: WriteReport
    """Of a task that failed: the partitions that it wrote to, without records."""
    begun: Begun | None = None
    """The transaction, with exactly_once."""
    batch: Batch | None = None
    failure: TaskFailure | None = None


_P = ParamSpec("_P")
_T = TypeVar("_T")
_REFUSALS: Final = (
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)


def names_permissions(
    step: Callable[Concatenate[SinkPlan, _P], _T],
) -> Callable[Concatenate[SinkPlan, _P], _T]:
    """Let the error of a step that lacks a permission name all that the sink lacks."""

    @wraps(step)
    def checked(plan: SinkPlan, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return step(plan, *args, **kwargs)
        except ProducerError as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, _REFUSALS):
                cause = cause.__cause__
            if cause is not None:
                _check_permissions(plan, error)
            raise

    return checked


def _check_permissions(plan: SinkPlan, refused: ProducerError) -> None:
    """Raise an error that names all missing permissions, if the cluster tells them."""
    try:
        with Producer(plan.config()) as producer:
            producer.check(
                topics=[topic for topic in (plan.topic, plan.dead_letter_topic) if topic],
                transactional_id=plan.sink_id,
                group_id=plan.sink_id,
                consumed_topics=[plan.marker_topic],
            )
    except _REFUSALS as lacks:
        raise lacks from refused
    except ProducerError as error:
        logger.info("the permissions of sink.id %r are not known: %s", plan.sink_id, error)


@names_permissions
def begin(plan: SinkPlan) -> Begun:
    """Begin a transaction that others write into and end; it fences the write before.

    Raises:
        ProducerError: the coordinator refused, with the reason (a ``transaction.timeout.ms`` above
            the broker's ``transaction.max.timeout.ms``).
        RetriableWriteError: no coordinator was there within ``max.block.ms``.
        IllegalStateError: another application uses the group ``sink.id``.
    """
    place = _marker_place(plan)
    try:
        with Producer(plan.config(transactional_id=plan.sink_id)) as producer:
            for topic in filter(None, (plan.marker_topic, plan.dead_letter_topic)):
                producer.partitions_for(topic)  # raises now if it does not exist
            producer.init_transactions()  # first: it settles the write before
            marker = producer.committed_offsets(plan.sink_id, [place]).get(place)
            if marker is not None and not marker.metadata.startswith(_SIGNATURE):
                raise IllegalStateError(
                    f"the group {plan.sink_id!r} has an offset of {place} that is not a marker "
                    f"({marker.offset}): a consumer uses that group.id, or the "
                    "offset was set by hand; give the sink another sink.id"
                )
            producer.begin_transaction(shared=True)
            handle = producer.transaction_handle(hand_over=True)
    except ProducerError as error:
        if kind_of(error) is FailureKind.FINAL:
            raise
        raise RetriableWriteError(
            f"sink.id {plan.sink_id!r}: the transaction could not begin: {named(error)}"
        ) from error
    if marker is None:
        return Begun(handle, None, "")
    return Begun(handle, marker.offset, marker.metadata.removeprefix(_SIGNATURE))


@names_permissions
def commit(
    plan: SinkPlan,
    outcomes: Sequence[TaskOutcome],
    number: int | None,
    begun: Begun | None = None,
) -> WriteReport:
    """Commit the tasks' rows, and the marker, if the write has a number.

    ``begun``: the transaction to commit if there was no task.

    Raises:
        IllegalStateError: two tasks wrote into one partition, or not all for the same plan.
        RowsNotWrittenError: a task failed, and would fail again.
        RetriableWriteError: a task failed, or the commit of a write with a number, and the write
            may be repeated.
        ProducerError: a write without a number could not be committed, or nobody knows whether it
            was.
    """
    _check_partitions(outcomes)
    _check_failures(plan, outcomes)
    begun, batch = _agreed(outcomes, number) if outcomes else _without_tasks(plan, number, begun)
    if begun.is_written(batch, fail_on_data_loss=plan.fail_on_data_loss):
        logger.warning(
            "sink.id %r: batch %s has already been written and is skipped",
            plan.sink_id,
            batch.number if batch else "",
        )
        return WriteReport()
    report = WriteReport.of(outcome.report for outcome in outcomes)
    if batch is None and not report.ranges:
        return report  # nobody has opened the transaction
    try:
        with Producer(plan.config(), transaction=begun.handle) as producer:
            if batch is not None:
                marker = OffsetAndMetadata(batch.number + 1, _SIGNATURE + batch.query)
                producer.send_offsets_to_transaction(
                    {_marker_place(plan): marker}, plan.sink_id, _COMMIT_SECONDS
                )
            began = monotonic()
            producer.commit_transaction(_COMMIT_SECONDS)
    except ProducerError as error:
        if batch is None or kind_of(error) is FailureKind.FINAL:
            raise
        raise RetriableWriteError(
            f"sink.id {plan.sink_id!r}: batch {batch.number} was not committed, or may not be: "
            f"{named(error)}. Repeat it: its marker tells whether it was"
        ) from error
    return replace(report, commit_seconds=monotonic() - began)


def abort(plan: SinkPlan, begun: Begun) -> None:
    """Abort the transaction, if it is still open.

    A failure is only logged: the write has failed anyway, and the next one of the sink, or
    ``transaction.timeout.ms``, ends the transaction.
    """
    try:
        with Producer(plan.config(), transaction=begun.handle) as producer:
            producer.abort_transaction(_ABORT_SECONDS)
    except ProducerError as error:
        logger.info("the transaction of sink.id %r was not aborted here: %s", plan.sink_id, error)


def _agreed(outcomes: Sequence[TaskOutcome], number: int | None) -> tuple[Begun, Batch | None]:
    """The transaction and the batch that all tasks mean."""
    meant = {(outcome.begun, outcome.batch) for outcome in outcomes}
    begun, batch = meant.pop()
    if meant or begun is None or (number is not None and (batch is None or batch.number != number)):
        raise IllegalStateError(
            f"the tasks did not all write for the same plan and for batch {number}, so "
            "nothing is committed"
        )
    return begun, batch


def _without_tasks(
    plan: SinkPlan, number: int | None, begun: Begun | None
) -> tuple[Begun, Batch | None]:
    """The transaction and the batch of a write without tasks, and so without a known query.

    The batch belongs to the query of the sink's marker, and in a new sink to no query yet.
    """
    begun = begun or begin(plan)
    if number is None:
        return begun, None
    return begun, Batch(number, _UNKNOWN if begun.next_batch is None else begun.query)


def _marker_place(plan: SinkPlan) -> TopicPartition:
    return TopicPartition(plan.marker_topic, 0)


def _check_partitions(outcomes: Iterable[TaskOutcome]) -> None:
    seen: set[TopicPartition] = set()
    for outcome in outcomes:
        for place in outcome.report.ranges:
            if place in seen:
                raise IllegalStateError(
                    f"two tasks wrote into {place}. With exactly_once brokers would treat the "
                    f"rows of one as duplicates of the other's: {ADVICE}"
                )
            seen.add(place)


def _check_failures(plan: SinkPlan, outcomes: Sequence[TaskOutcome]) -> None:
    """Raise the failure that explains the others."""
    failures = [each.failure for each in outcomes if each.failure is not None]
    for kind in FailureKind:
        its = [each for each in failures if each.kind is kind]
        if not its:
            continue
        more = f" (and {counted(len(its) - 1, 'more task')})" if len(its) > 1 else ""
        if kind is FailureKind.FINAL:
            raise RowsNotWrittenError(f"{its[0].text}{more}")
        why = ""
        if kind is FailureKind.FENCED:
            timeout = plan.config().transaction_timeout_ms
            why = (
                f" (the transaction had been ended: another query, job or driver began a write "
                f"with sink.id {plan.sink_id!r}, which belongs to one sink; or the write took "
                f"longer than kafka.transaction.timeout.ms, {timeout} ms; or it lost a task)"
            )
        raise RetriableWriteError(f"{its[0].text}{why}{more}. {REPEAT}")
