"""Exactly once: records and their results in one transaction of a producer (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Generic, Protocol, Self

from aioproducer.consumer.assigned_partition import Work
from aioproducer.consumer.assignment import Assignment
from aioproducer.consumer.loops import DeserializedLists, Lists
from aioproducer.consumer.progress import Progress
from aioproducer.engine.client.elsewhere import ASYNC_WITH, elsewhere
from aioproducer.engine.groups.requests import partitions_may_have_moved
from aioproducer.errors import (
    AbortableTransactionError,
    CommitUnconfirmedError,
    IllegalStateError,
    KafkaError,
    ProducerTimeoutError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UsageError,
    kafka_error,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.foundation.runtime.tasks import in_turns
from aioproducer.model import (
    AnyRecord,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    TopicPartition,
)
from aioproducer.model.type_parameters import ReadKey, ReadValue

logger = ModuleLogger(__name__)


class TransactionalProducer(Protocol):
    """The part of :class:`aioproducer.Producer` that is used here."""

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Open a transaction, and commit or abort it at the block's end."""

    async def commit_transaction(self) -> None:
        """Wait for a commit that was not confirmed in time."""

    async def abort_transaction(self) -> None:
        """Abort a transaction whose commit has failed."""

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Write consumed offsets with the transaction."""


@elsewhere(__enter__=ASYNC_WITH)
class TransactionalWork(Generic[ReadKey, ReadValue]):
    """Records, and the transaction for their results.

    Enter it before you send: ``async with work:``. Leaving the block commits the records sent and
    the offsets of the records read, together. An exception aborts both; the records are then
    returned again.
    """

    def __init__(
        self,
        records: list[ConsumerRecord[ReadKey, ReadValue]],
        block: AbstractAsyncContextManager[None],
    ) -> None:
        self.records: list[ConsumerRecord[ReadKey, ReadValue]] = records
        """The records; those of a partition are in order."""
        self._block = block
        self.entered: bool = False
        """True once the transaction has begun."""

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ConsumerRecord[ReadKey, ReadValue]]:
        return iter(self.records)

    async def __aenter__(self) -> Self:
        if self.entered:
            raise IllegalStateError("this work was done already; take the next one")
        self.entered = True
        await self._block.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, traceback)


class Transactions:
    """The works of a consumer, one after another.

    ``lists``: an empty one comes when positions without records are due to be committed.
    ``group``: the consumer as its group knows it now. ``settled`` waits for a commit of the member
    that is under way.
    """

    def __init__(
        self,
        lists: Lists | DeserializedLists,
        progress: Progress,
        producer: TransactionalProducer,
        group: Callable[[], ConsumerGroupMetadata],
        assignment: Assignment,
        settled: Callable[[], Awaitable[None]],
    ) -> None:
        self._lists = lists
        self._progress = progress
        self._producer = producer
        self._group = group
        self._assignment = assignment
        self._settled = settled

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TransactionalWork[Any, Any]:
        if self._progress.in_transaction:
            raise IllegalStateError(
                "the last work was not entered, or its block has not ended, and its records would "
                "be lost: use `async with work:` for each one, and leave it before the next one"
            )
        self._progress.transacts = False
        await self._settled()
        records = await self._next_records()
        self._progress.transacts = True
        return TransactionalWork(records, self._transaction(records))

    async def _next_records(self) -> list[AnyRecord]:
        """The records of the next work.

        The position moves while there are none, when the markers of transactions and aborted
        records are fetched.
        """
        while not (records := await anext(self._lists)):
            if await in_turns(self._progress.moved()):
                await self._commit_positions()
        return records

    async def _commit_positions(self) -> None:
        """Commit positions without records. A plain commit could overtake one of a transaction."""
        try:
            async with self._transaction([]):
                pass
        except (AbortableTransactionError, ProducerTimeoutError, UsageError) as error:
            logger.debug("Group %r: %s", self._group().group_id, error, error=error)

    def _transaction(self, records: list[AnyRecord]) -> AbstractAsyncContextManager[None]:
        """A transaction that commits the positions: ``records`` are all that was handed out since
        the last one.

        A partition that is lost before the block is entered is another one when it comes back.
        """
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.topic_partition, record.offset)
        return self._block(first, {where: self._progress.work_of(where) for where in first})

    @asynccontextmanager
    async def _block(
        self, first: dict[TopicPartition, int], works: dict[TopicPartition, Work | None]
    ) -> AsyncIterator[None]:
        offsets: Mapping[TopicPartition, OffsetAndMetadata] = {}
        is_done = commits = False
        try:
            try:
                async with self._producer.transaction():
                    yield
                    is_done = True  # an error before it is none of this group
                    offsets = await in_turns(self._progress.moved())
                    self._check_owned(works)  # no turn of others from here to the offsets' request
                    works = {where: self._progress.work_of(where) for where in offsets}
                    if offsets:
                        await self._producer.send_offsets_to_transaction(offsets, self._group())
                    commits = True
            except CommitUnconfirmedError as error:
                await self._confirm(error)
        except BaseException as error:
            if commits and not isinstance(error, AbortableTransactionError):
                # The outcome is not known here, and the group will know it.
                self._assignment.start_over(first)
                raise
            self._assignment.rewind()
            if not (is_done and (_refused_by_group(error) or _is_of_deleted(error, offsets))):
                raise
            (logger.warning if first else logger.debug)(
                "Group %r refused the offsets of a transaction, which was aborted. Its records "
                "are returned again, by this member or another one: %s",
                self._group().group_id,
                error,
            )
            return
        for where, work in works.items():
            if self._progress.counts(work):
                self._progress.committed(where, offsets[where].offset)
        self._progress.finish()

    def _check_owned(self, works: Mapping[TopicPartition, Work | None]) -> None:
        for where, work in works.items():
            if not self._progress.counts(work):
                raise kafka_error(
                    ErrorCode.ILLEGAL_GENERATION, f"{where} is not this member's any more"
                )

    async def _confirm(self, error: CommitUnconfirmedError) -> None:
        """Wait for the outcome: nothing can be read or read again before it is known."""
        while isinstance(error.__cause__, ProducerTimeoutError):
            logger.warning("%s", error)
            try:
                await self._producer.commit_transaction()
                return
            except CommitUnconfirmedError as again:
                error = again
            except AbortableTransactionError:
                await self._producer.abort_transaction()
                raise
        raise error


def _refused_by_group(error: BaseException) -> bool:
    if not isinstance(error, (AbortableTransactionError, KafkaError)):
        return False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KafkaError) and partitions_may_have_moved(cause.code):
            return True
        cause = cause.__cause__
    return False


def _is_of_deleted(error: BaseException, offsets: Mapping[TopicPartition, object]) -> bool:
    """True if a coordinator did not know the topic of one of ``offsets`` until the time was over:
    it was deleted, and the group takes its partitions."""
    cause = error.__cause__
    return (
        isinstance(error, ProducerTimeoutError)
        and isinstance(cause, (UnknownTopicOrPartitionError, UnknownTopicIdError))
        and (cause.topic, cause.partition) in offsets
    )
