"""One Kafka transaction for each write: begun where it is planned, ended where it is committed.

Spark runs these steps in processes of their own, between which only their results travel:

1. :func:`begin` runs where the write is planned. It gets a new epoch for the sink's id, which
   fences writers of an older plan. Then it reads the *marker*, the offset of group ``sink.id``: the
   id of the batch that is to come next.
2. The tasks write into the transaction, each Kafka partition from only one task.
3. :func:`commit` adds the next marker and commits, so rows and marker become visible together.

A batch that comes again after its commit finds its marker and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aioproducer.errors import IllegalStateError, ProducerError
from aioproducer.foundation.logs import plain_logger
from aioproducer.model import OffsetAndMetadata, TopicPartition, TransactionHandle
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.report import WriteReport
from aioproducer.sync import Producer

logger = plain_logger(__name__)

_ABORT_SECONDS: Final = 10.0
"""The longest time that a failed write waits for its abort."""
_SIGNATURE: Final = "aioproducer:"
"""The beginning of a marker's metadata; the query's id follows."""
_UNKNOWN: Final = "?"
"""The query of a marker that was written without a task."""

ADVICE: Final = (
    "use aioproducer.spark.repartition_by_key(), which gives each Kafka partition one task"
)


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

    def is_written(self, batch: Batch | None) -> bool:
        """True if ``batch`` was committed before. None: a batch write without a number.

        Raises:
            IllegalStateError: the marker does not fit: it is another query's, a batch was left
                out, or ``batch`` is older than the last.
        """
        sink = f"sink.id {self.handle.transactional_id!r}"
        query = batch.query if batch else ""
        if self.next_batch is None:
            if batch is not None and batch.query and batch.number:
                logger.warning(
                    "%s has no marker, and this is batch %d. Unless the sink is new, "
                    "its marker has expired (offsets.retention.minutes of the "
                    "brokers), and this batch may have been written before",
                    sink,
                    batch.number,
                )
            return False
        if self.query not in (query, _UNKNOWN):
            its, mine = (
                f"the streaming query {each}" if each else "a batch write"
                for each in (self.query, query)
            )
            raise IllegalStateError(
                f"{sink} belongs to {its}, and this is {mine}: set another sink.id "
                "here (a query with a new checkpoint is another query)"
            )
        if batch is None:
            return False
        last = self.next_batch - 1
        if batch.number < last or (batch.query and batch.number > self.next_batch):
            # Spark only replays the last batch.
            raise IllegalStateError(
                f"{sink} has written all batches up to {last}, and this is batch {batch.number}: "
                "the checkpoint is older than the written batches (restored or "
                "copied), sink.batch.id does not grow, or micro-batches were written "
                "without this sink. If this is intended, use a new sink.id"
            )
        return batch.number < self.next_batch


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of a task."""

    report: WriteReport
    begun: Begun | None = None
    """The transaction, with exactly_once."""
    batch: Batch | None = None


def begin(plan: SinkPlan) -> Begun:
    """Begin a transaction that others write into and end; it fences the write before.

    Raises:
        ProducerError: the coordinator refused, with the reason (a ``transaction.timeout.ms`` above
            the broker's ``transaction.max.timeout.ms``), or was not there within ``max.block.ms``.
        IllegalStateError: another application uses the group ``sink.id``.
    """
    place = _marker_place(plan)
    with Producer(plan.config(transactional_id=plan.sink_id)) as producer:
        producer.partitions_for(plan.marker_topic)  # raises now if it does not exist
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
    if marker is None:
        return Begun(handle, None, "")
    return Begun(handle, marker.offset, marker.metadata.removeprefix(_SIGNATURE))


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
        ProducerError: it could not be committed, or nobody knows whether it was.
    """
    begun, batch = _agreed(outcomes, number) if outcomes else _without_tasks(plan, number, begun)
    if begun.is_written(batch):
        logger.warning(
            "sink.id %r: batch %s has already been written and is skipped",
            plan.sink_id,
            batch.number if batch else "",
        )
        return WriteReport()
    _check_partitions(outcomes)
    report = WriteReport.of(outcome.report for outcome in outcomes)
    if batch is None and not report.records:
        return report  # nobody has opened the transaction
    with Producer(plan.config(), transaction=begun.handle) as producer:
        if batch is not None:
            marker = OffsetAndMetadata(batch.number + 1, _SIGNATURE + batch.query)
            producer.send_offsets_to_transaction({_marker_place(plan): marker}, plan.sink_id)
        producer.commit_transaction()
    return report


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
