"""The consumer: a member of a consumer group."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextvars import copy_context
from dataclasses import replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, Unpack, cast
from uuid import UUID

from aioproducer.config import ProducerConfig, hidden_mapping, hide_secrets
from aioproducer.config.producer_config import PropertiesSource
from aioproducer.config.reader_options import READER_OPTIONS, ReaderOptions
from aioproducer.consumer.arguments import (
    ALSO,
    ConsumerArguments,
    ConsumerOverrides,
    ConsumerProperties,
    arguments_of_properties,
    check_count,
    check_group,
    check_run,
    checked_wait,
)
from aioproducer.consumer.assignment import Assignment, Callback
from aioproducer.consumer.commits import Commits
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.health import UNUSABLE, ConsumerHealth
from aioproducer.consumer.loops import (
    Batches,
    DeserializedLists,
    DeserializedRecords,
    Lists,
    RecordLoop,
    Records,
    SinglyAcknowledged,
)
from aioproducer.consumer.member import Member
from aioproducer.consumer.metrics import ConsumerMetricsSnapshot, no_metrics
from aioproducer.consumer.options import CONSUMER_OPTIONS, ConsumerOptions
from aioproducer.consumer.parts import ConsumerParts, ConsumerSetup, Ending
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.subscription import Subscription, TopicOrPattern
from aioproducer.consumer.tracing import TracingSlot
from aioproducer.consumer.transactions import (
    TransactionalProducer,
    TransactionalWork,
    Transactions,
)
from aioproducer.consumer.workers import Order, Workers, deserializing
from aioproducer.engine.client.arguments import check_timeout
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.elsewhere import FOR_A_CONSUMER, client_config, elsewhere
from aioproducer.engine.core.arguments import checked_offsets, checked_places
from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.errors import (
    ClientBrokenError,
    ClientClosedError,
    ConfigError,
    IllegalStateError,
    ProducerError,
    kafka_error,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation import logs
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.foundation.runtime.tasks import last_steps, new_task
from aioproducer.model import (
    AnyRecord,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    TopicPartition,
)
from aioproducer.model.type_parameters import ReadKey, ReadValue
from aioproducer.reader.fetcher import FetchSettings
from aioproducer.reader.positions import Position, checked_position, find_offsets
from aioproducer.reader.record_source import DESERIALIZERS, RecordSource, deserializers_of

if TYPE_CHECKING:
    from aioproducer.model.type_parameters import DeserializerOf
    from aioproducer.serialization.primitives import DeserializationErrorCallback

logger = ModuleLogger(__name__)

_NUMBERS: Final = count(1)
_KEYWORDS: Final = frozenset({"on_assigned", "on_revoked", "on_lost", *DESERIALIZERS})


@elsewhere(**FOR_A_CONSUMER)
class Consumer(Generic[ReadKey, ReadValue]):
    """Reads topics as a member of a group whose members share the partitions.

    ::

        async with Consumer("orders", group_id="billing", bootstrap_servers=...) as consumer:
            async for record in consumer:
                await handle(record)

    Asking for the next record acknowledges the previous one. Acknowledged records are committed
    every ``auto_commit_interval_ms``, before partitions move to another member, and on close. If an
    exception or a cancellation ends the loop, the record being processed is read again later, by
    this member or another one. :meth:`run` processes many records concurrently, :meth:`batches` and
    :meth:`lists` return several at once, and :meth:`transactions` processes them exactly once.

    ``topics``: topic names, and compiled patterns for whole names: ``re.compile("orders-.*")``.

    The callbacks (functions or coroutine functions) get partitions: ``on_assigned`` before they are
    read (you can :meth:`seek` there), ``on_revoked`` when their records are processed and before
    the last commit, and ``on_lost`` when they went to another member without that commit. An error
    of a callback ends the membership, and the next read raises it; a late commit or seek does not.

    ``key_deserializer``, ``value_deserializer``: a function of bytes such as ``json.loads``, or an
    object of :mod:`aioproducer.serialization` or :mod:`aioproducer.schema_registry`. Records then
    have its objects as key or value; None stays None. :meth:`batches` returns bytes. If one fails
    on a record, ``on_deserialization_error`` is called with a
    :class:`~aioproducer.errors.RecordDeserializationError`, which has the bytes, and the record is
    skipped when the call has ended. Without this function, or while a schema registry is away, the
    read raises the error, and the record stays unacknowledged: it is read again until it succeeds.
    In a loop, :meth:`seek` to ``error.next_offset`` skips it.

    Options are a producer's options for connections, logins and pushed metrics, as keywords or as a
    ``config`` that the keywords override; a reader's options for fetching
    (:class:`~aioproducer.config.ReaderOptions`; a group without offsets starts at the end of the
    log, unless ``auto_offset_reset="earliest"``, and partitions that are created while the consumer
    runs are read from their beginning); and those of
    :class:`~aioproducer.consumer.options.ConsumerOptions`. Source: Kafka's ``KafkaConsumer``.

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
        InvalidTopicError: a topic name is invalid.
    """

    def __init__(
        self,
        *topics: TopicOrPattern,
        group_id: str,
        config: ProducerConfig | None = None,
        key_deserializer: DeserializerOf[ReadKey] | None = None,
        value_deserializer: DeserializerOf[ReadValue] | None = None,
        on_deserialization_error: DeserializationErrorCallback | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        **options: Unpack[ConsumerArguments],
    ) -> None:
        config = hidden_mapping(config)
        given = cast("dict[str, Any]", options)
        own = {name: given.pop(name) for name in CONSUMER_OPTIONS.keys() & given.keys()}
        reading = {name: given.pop(name) for name in READER_OPTIONS.keys() & given.keys()}
        hide_secrets(given)
        self._options = ConsumerOptions(**own)
        self._reading = ReaderOptions(**{"auto_offset_reset": "latest", **reading})
        subscription = Subscription(topics, "Consumer")
        check_group(group_id)
        self._deserializers = deserializers_of(
            key_deserializer, value_deserializer, on_deserialization_error
        )
        names = CONSUMER_OPTIONS.keys() | READER_OPTIONS.keys() | _KEYWORDS
        self.config: ProducerConfig = client_config(config, given, "Consumer", ALSO, names)
        self._timeout = self.config.max_block_ms / 1000
        fetching = FetchSettings.of(self._reading, self.config)
        self._isolation = fetching.isolation
        self.client_id: str = self.config.client_id or f"consumer-{next(_NUMBERS)}"
        self.group_id: str = group_id
        self._client = ClusterClient(self.config, self.client_id, "Consumer")
        self._link = CoordinatorLink(
            self.config,
            self.client_id,
            group_id,
            self._options.max_poll_interval_ms,
            self._client.metrics,
        )
        self._setup = ConsumerSetup(
            group_id,
            self.config,
            self._options,
            self._reading,
            fetching,
            subscription,
            lambda: self._commits_itself,
            (on_assigned, on_revoked, on_lost),
        )
        self._source: RecordSource
        self._progress: Progress
        self._assignment: Assignment
        self._commits: Commits
        self._tracing = TracingSlot(self.client_id, group_id)
        self._process = os.getpid()
        self._state = "not started"
        self._transactional = False
        self._single: RecordLoop | DeserializedRecords | None = None
        """The iterator of :meth:`record`, until another loop begins."""
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_properties(
        cls,
        source: PropertiesSource,
        /,
        *topics: TopicOrPattern,
        key_deserializer: DeserializerOf[ReadKey] | None = None,
        value_deserializer: DeserializerOf[ReadValue] | None = None,
        on_deserialization_error: DeserializationErrorCallback | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        **overrides: Unpack[ConsumerOverrides],
    ) -> Self:
        """Create a consumer of ``topics`` from the properties of a Java consumer.

        ``source`` and ``overrides`` are those of :meth:`ProducerConfig.from_properties
        <aioproducer.ProducerConfig.from_properties>`; ``group.id`` names the group. One warning
        names all properties that have no effect here. Raises the same errors.
        """
        given = ConsumerProperties.of(source)
        del source  # a traceback shows the values of this frame
        arguments = arguments_of_properties(given, cast("dict[str, Any]", overrides), "Consumer")
        return cls(
            *topics,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            on_deserialization_error=on_deserialization_error,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
            **arguments,
        )

    def __repr__(self) -> str:
        return f"<Consumer {getattr(self, 'client_id', 'that is being made')!r}>"

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start to join the group. The first read waits until this is done.

        Raises:
            IllegalStateError: the consumer has already been started.
            ConfigError: a file of the ``ssl_`` options can't be read or used.
            BootstrapError: no name in ``bootstrap_servers`` could be resolved in time.
        """
        await self._client.start(self._close_with_loop)
        try:
            await self._link.start()
        except BaseException:
            await self._link.close()
            await self._client.close()
            raise
        self._tracing.ask_default()
        parts = ConsumerParts(self._setup, self._client, self._link, self._refused, self._fail)
        self._parts = parts
        self._source, self._progress, self._commits = parts.source, parts.progress, parts.commits
        self._assignment = parts.assignment
        self._observation, self._telemetry = parts.observation, parts.telemetry
        self._state = "started"
        self._client.start_task(self._source.fetcher.run(), "aioproducer-consumer")
        self._start_task(self._run_member())
        self._start_task(parts.watch.run())
        if self._options.auto_commit:
            interval = self._options.auto_commit_interval_ms / 1000
            self._start_task(self._commits.commit_each(interval, self._to_commit, self._timeout))

    @property
    def _member(self) -> Member:
        return self._parts.member

    def _start_task(self, coroutine: Any) -> None:
        context = copy_context()
        context.run(logs.enter, self._client.log)
        task: asyncio.Task[None] = new_task(coroutine, context=context)
        self._tasks.append(task)
        task.add_done_callback(self._look_at_end)

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        """No part of a consumer ends before its close."""
        if self._state == "closed":
            return
        if task.cancelled():
            self._source.fetcher.fail(ClientBrokenError("a task of the Consumer was cancelled"))
        elif isinstance(error := task.exception(), Exception):
            self._fail(error)

    @property
    def _commits_itself(self) -> bool:
        return self._options.auto_commit and not self._transactional

    def _to_commit(self) -> tuple[TopicPartition, ...]:
        return self._assignment.owned if self._commits_itself else ()

    async def _run_member(self) -> None:
        """Be a member; an error that no retry can mend is raised by the next read."""
        try:
            await self._parts.protocol.run()
        except Exception as error:
            self._assignment.lost()
            self._fail(error)

    def _refused(self, code: int) -> bool:
        try:
            return self._member.refused(code)
        except ProducerError as error:
            self._fail(error)
            return True

    def _fail(self, error: Exception) -> None:
        """Raise ``error`` in each read from now on."""
        if self._state == "closed":
            return
        logger.warning("%r can't continue: %s", self, str(error) or type(error).__name__)
        if not isinstance(error, ProducerError):
            broken = ClientBrokenError(f"a part of it died of {type(error).__name__}: {error}")
            broken.__cause__ = error
            error = broken
        self._source.fetcher.fail(error)

    def finish(self) -> None:
        """Stop returning records: loops end, and :meth:`run` returns once its handlers are done.

        Use it as a signal handler: ``loop.add_signal_handler(signal.SIGTERM, consumer.finish)``.
        The member stays in the group until :meth:`close`.
        """
        if self._state == "closed":
            return
        self._enter()
        if (handlers := self._assignment.handlers) is not None:
            session = self._member.session
            session.look()
            # An answer of the coordinator may never come.
            (handlers.drop if session.silent else handlers.stop)(self._assignment.owned)
        self._source.finish()

    async def close(self) -> None:
        """Commit the acknowledged records, leave the group, and close all connections.

        A running callback ends first; ``on_revoked`` is called before the commit. Closing usually
        takes two round trips, and at most about ten seconds and the time to close the connections.
        If the call is cancelled, closing continues in the background.

        Raises:
            IllegalStateError: a callback of the consumer called this.
            Exception: raised by a callback; everything else has been done.
        """
        if self._state == "not started":
            await self._client.close()
            await self._link.close()
            return
        if not self._client.has_ended:
            self._client.check_usable()  # not in another process, or on another loop
        if self._assignment.in_callback:
            raise IllegalStateError("a callback can't close its Consumer; end the loop instead")
        if self._closing is None:
            self._state = "closed"
            ending = Ending(self, self._client, self._link, self._parts)
            self._closing = new_task(ending.run(self._tasks, commits=self._commits_itself))
        await asyncio.shield(self._closing)

    async def _close_with_loop(self) -> None:
        if self._state == "started":
            logger.warning("%r was not closed before its event loop ended: closing it", self)
        await self.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with last_steps(kind):
            await self.close()

    def _check(self) -> None:
        """Raise the reason if nothing can be read now."""
        if self._state == "started":
            return
        if self._state == "closed":
            if self._assignment.in_callback and not self._client.has_ended:
                return
            raise ClientClosedError("the Consumer is closed; make a new one")
        self._client.check_usable()
        raise IllegalStateError("the Consumer has not finished its start")

    def _enter(self) -> None:
        """Raise the reason if nothing can be done here and now."""
        self._check()
        self._client.check_usable()

    # --- reading ---------------------------------------------------------------------------

    def _enter_loop(self) -> None:
        """Records that another loop was processing when it ended are returned again."""
        self._enter()
        if self._assignment.handlers is not None:
            raise IllegalStateError("run() reads from this Consumer: only one at a time can read")
        self._single = None
        self._assignment.rewind()
        self._progress.singly, self._progress.unacknowledged = None, 0
        self._progress.transacts = False

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]:
        """Iterate over the records one by one.

        A record that an earlier loop was processing when it ended is returned again.
        """
        self._enter_loop()
        return cast("AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]", self._records())

    def _records(self) -> RecordLoop | DeserializedRecords:
        return self._with_objects(
            Records(self._source, self._progress, self._member.session, self._check)
        )

    def _with_objects(self, records: RecordLoop) -> RecordLoop | DeserializedRecords:
        if self._deserializers is None:
            return records
        return DeserializedRecords(records, self._deserializers, self._progress)

    def unacknowledged(
        self, max_unacknowledged: int = 1_000
    ) -> AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]:
        """Iterate over the records one by one; you :meth:`acknowledge` each, in any order.

        ::

            async for record in consumer.unacknowledged():
                group.create_task(work(record))  # calls consumer.acknowledge(record)

        The loop waits while ``max_unacknowledged`` records are unacknowledged. Their number and
        ``read_ahead_bytes`` limit the memory. The committed offset of a partition is that of its
        first unacknowledged record, so a commit never passes it. If that record stays
        unacknowledged for ``max_poll_interval_ms``, the member leaves the group, and records after
        the committed offset are read again. A revocation waits for the unacknowledged records of
        its partitions. Leaving the block does not wait: acknowledge the records in processing
        first. A new loop returns unacknowledged records again.

        Raises:
            ConfigError: the number is not an int, or less than 1.
            IllegalStateError: :meth:`run` reads from the consumer.
        """
        check_count("max_unacknowledged", max_unacknowledged)
        self._enter_loop()
        parts = self._source, self._progress, self._member.session, self._check
        records = self._with_objects(SinglyAcknowledged(*parts, max_unacknowledged))
        return cast("AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]", records)

    def acknowledge(self, *records: AnyRecord) -> None:
        """The application is done with ``records`` of :meth:`unacknowledged`.

        The next commit includes them. It has no effect to acknowledge a record twice, or one whose
        partition the group has assigned again: the member that has it reads the record again.

        Raises:
            IllegalStateError: the records are those of another loop, which acknowledges them.
        """
        self._enter()
        if self._progress.singly is None:
            raise IllegalStateError(
                "acknowledge() is for records of consumer.unacknowledged(): asking other loops for "
                "the next record acknowledges the last one"
            )
        for record in records:
            self._progress.acknowledge_singly(record.topic_partition, record.offset)

    def batches(self) -> AsyncIterator[RecordBatch]:
        """Iterate over the records batch by batch, as they were written.

        Asking for the next batch acknowledges the previous one.
        """
        self._enter_loop()
        return Batches(self._source, self._progress, self._member.session, self._check)

    def lists(
        self, max_records: int = 500, *, max_wait_ms: int | None = None
    ) -> AsyncIterator[list[ConsumerRecord[ReadKey, ReadValue]]]:
        """Iterate over lists of available records, of all partitions, up to ``max_records``.

        A list has at least one record, unless none comes within ``max_wait_ms`` (milliseconds):
        then it is empty. Asking for the next list acknowledges the previous one.
        """
        lists: AsyncIterator[list[ConsumerRecord[ReadKey, ReadValue]]]
        lists = self._lists(max_records, max_wait_ms)
        return lists

    def _lists(self, max_records: int, max_wait_ms: int | None = None) -> Any:
        check_count("max_records", max_records)
        max_wait = checked_wait(max_wait_ms)
        self._enter_loop()
        parts = self._source, self._progress, self._member.session, self._check
        lists = Lists(*parts, max_records, max_wait)
        if self._deserializers is None:
            return lists
        return DeserializedLists(lists, self._deserializers, self._source, self._progress)

    async def record(
        self, *, max_wait_ms: int | None = None
    ) -> ConsumerRecord[ReadKey, ReadValue] | None:
        """Return the next record, or None if none comes within ``max_wait_ms`` (milliseconds) or
        after :meth:`finish`.

        A record that comes in time is deserialized, however long that takes. The next call
        acknowledges it. A loop, or :meth:`run`, that begins instead returns it again.
        """
        wait = checked_wait(max_wait_ms)
        if self._single is None:
            self._enter_loop()
            self._single = self._records()
        deadline = inf if wait is None else self._single.clock() + wait
        found = await self._single.until(deadline)
        return cast("ConsumerRecord[ReadKey, ReadValue] | None", found)

    async def run(
        self,
        handle: Callable[[ConsumerRecord[ReadKey, ReadValue]], Awaitable[Any]],
        *,
        concurrency: int = 64,
        order: Order = "partition",
    ) -> None:
        """Call ``handle`` for each record, up to ``concurrency`` at a time, until :meth:`finish`.

        ``order``: ``"partition"`` and ``"key"`` handle the records of a partition, or of a key in a
        partition, one after another; ``"none"`` starts each record as soon as possible. The
        committed offset is that of the first unfinished record, so it never skips a record. If a
        handler raises, the others are cancelled and the error is raised here; their records are
        read again later. If a deserializer fails, the handlers of earlier records of that partition
        finish first. Handlers of a lost partition are cancelled; handlers of a revoked
        partition can finish.

        Raises:
            ConfigError: an argument is out of range.
            IllegalStateError: another loop reads from the consumer.
        """
        check_run(handle, concurrency, order)
        self._enter_loop()
        takes_bytes: Any = handle
        if self._deserializers is not None:
            takes_bytes = deserializing(handle, self._deserializers)
        workers = Workers(
            self._source,
            self._progress,
            self._assignment,
            self._member.session,
            self._tracing.traced(takes_bytes),
            concurrency,
            order,
            self._reading.read_ahead_bytes,
        )
        self._assignment.handlers = workers
        try:
            await workers.run()
        finally:
            self._assignment.handlers_ended()

    def transactions(
        self, producer: TransactionalProducer, *, max_records: int = 500
    ) -> AsyncIterator[TransactionalWork[ReadKey, ReadValue]]:
        """Iterate over groups of up to ``max_records`` records, each with a transaction of
        ``producer``.

        ::

            async for work in consumer.transactions(producer):
                async with work:
                    for record in work:
                        producer.send("invoices", invoice(record), key=record.key)

        Leaving the block commits the records sent and the offsets of the records read, together
        (KIP-447). An exception aborts both and is raised again; the next loop returns the records
        again. If the group refuses the offsets because of a rebalance, the transaction is aborted,
        and the loop continues without an error. A revocation waits for the current transaction, and
        the consumer does not commit automatically from this call on. Set
        ``isolation_level="read_committed"`` if the records you read are also written in
        transactions. A position that moves without records is committed in an empty transaction.
        """
        lists = self._lists(max_records, self._options.auto_commit_interval_ms)
        self._transactional = True
        return Transactions(
            lists,
            self._progress,
            producer,
            lambda: self.group_metadata,
            self._assignment,
            self._commits.settled,
        )

    # --- the partitions --------------------------------------------------------------------

    def subscribe(self, *topics: TopicOrPattern) -> None:
        """Read these topics, names or compiled patterns, instead of the current ones.

        The call returns at once. From now on no record of another topic is returned, or passed to a
        handler of :meth:`run`. The group then assigns the member its new partitions. Those of
        dropped topics are revoked as usual, with ``on_revoked`` and a commit. Those of topics that
        stay are read without interruption, except with ``range``, ``roundrobin`` and ``sticky``,
        which revoke all partitions in a rebalance. Where a new topic begins depends on the group's
        offsets and ``auto_offset_reset``. Source: Kafka's ``KafkaConsumer.subscribe``.

        Raises:
            ConfigError: there are no topics, or an argument is not a topic.
            InvalidTopicError: a topic name is invalid.
        """
        subscription = Subscription(topics, "consumer.subscribe")
        if self._state == "not started":
            self._setup = replace(self._setup, subscription=subscription)
            return
        self._enter()
        self._parts.subscribe(subscription)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the group has assigned to this member."""
        self._check()
        return frozenset(self._assignment.owned)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of each partition's next record. Partitions whose position is not known yet
        are omitted."""
        self._check()
        return {where: self._progress.position(where) for where in self._progress.partitions}

    async def seek(
        self, partition: TopicPartition, position: Position | Literal["committed"]
    ) -> None:
        """Continue reading ``partition`` from another position.

        ``"committed"`` is the group's offset; if the group has none, the position at which this
        member began to read the partition.

        Raises:
            ConfigError: the position is invalid, or the partition is not assigned to this member.
            ProducerTimeoutError: the position was not found within ``max_block_ms``.
        """
        [where] = self._owned([partition])
        if position == "committed":
            committed = (await self._commits.committed(frozenset((where,)), self._timeout))[where]
            if self._assignment.owns(where):
                self._assignment.seek_to_committed(where, committed)
            return
        wanted = {where: checked_position("position", position, "committed")}
        found = await find_offsets(self._client, wanted, self._isolation, self._timeout)
        if self._assignment.owns(where):
            self._assignment.seek(where, found[where])

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of ``partitions`` until :meth:`resume`. They stay assigned to this
        member. With :meth:`run`, no handler begins with one of their records from now on."""
        found = self._owned(partitions)
        self._assignment.pause(found)

    def resume(self, *partitions: TopicPartition) -> None:
        """Continue with paused partitions."""
        found = self._owned(partitions)
        self._assignment.resume(found)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions paused by :meth:`pause`."""
        self._check()
        return self._assignment.paused

    def _owned(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        self._enter()
        found = checked_places(partitions)
        for where in found:
            if not self._assignment.owns(where):
                raise ConfigError(f"{where} is not assigned to this Consumer now")
        return found

    # --- offsets ---------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Acknowledge and commit all records that the loop has returned; or commit ``offsets``.

        An offset is that of the next record to read. With :meth:`run`, this commits the records
        whose handlers have finished.

        Raises:
            KafkaError: the group refused an offset, or assigned partitions to another member before
                their records were committed.
            IllegalStateError: the end of a transaction commits the records being processed.
            ProducerTimeoutError: no coordinator answered within ``max_block_ms``.
        """
        self._enter()
        if offsets is not None:
            await self._commits.commit_offsets(checked_offsets(offsets), self._timeout)
            return
        deserializers = self._deserializers
        deserializes = deserializers is not None and deserializers.at_work
        if not (self._assignment.in_callback or deserializes):  # then the loop's record is in work
            if self._progress.in_transaction:
                raise IllegalStateError(
                    "commit() would commit records before their transaction: the end of the "
                    "`async with work:` block commits them"
                )
            self._progress.finish()
        await self._commits.commit(self._assignment.owned, self._timeout)
        if lost := self._progress.take_uncommitted():
            where = min(lost)
            raise kafka_error(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {self.group_id!r} has given {where} to another member before its records "
                "were committed: they are read again there",
            )

    async def committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of ``partitions``, by default this member's; None if
        a partition has none.

        Raises :class:`ProducerTimeoutError` if they are not available within ``max_block_ms``.
        """
        self._enter()
        wanted = checked_places(partitions or self._assignment.owned)
        return await self._commits.committed(wanted, self._timeout) if wanted else {}

    async def lag(self) -> dict[TopicPartition, int]:
        """Return the number of records after the position, for each partition of this member.

        With ``read_committed``, records of open transactions are not counted. Raises
        :class:`ProducerTimeoutError` if the ends are not known within ``max_block_ms``.
        """
        positions = self.positions
        ends = dict.fromkeys(positions, cast("Position", "end"))
        found = await find_offsets(self._client, ends, self._isolation, self._timeout)
        return {where: max(found[where] - at, 0) for where, at in positions.items()}

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The identity of this member in its group, for ``send_offsets_to_transaction()``."""
        self._check()
        group_id, member_id, generation, instance_id = self._member.identity[:4]
        return ConsumerGroupMetadata(group_id, generation, member_id, instance_id)

    # --- what it does ----------------------------------------------------------------------

    def health(self) -> ConsumerHealth:
        """Report whether the consumer can read now, and why not; for health checks.

        The call never waits and never raises, because it only uses what the consumer already knows.
        """
        state, ended = self._state, self._client.final_error or self._link.client.final_error
        if os.getpid() != self._process:
            state = "forked"
        elif state == "not started" and ended is not None:  # it can be started once
            state = "closed"
        if state != "started":
            return ConsumerHealth(self.client_id, self.group_id, state, (UNUSABLE[state],))
        failure = self._source.fetcher.failure or ended
        return self._observation.health(self.client_id, failure, self._client.why_no_answer)

    def metrics(self) -> ConsumerMetricsSnapshot:
        """Return metrics of Java's consumer by group and name, as far as this consumer has them."""
        if self._state == "not started":
            return no_metrics()
        return self._observation.metrics()

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that a broker has assigned to this consumer for pushed metrics.

        ``timeout``: the seconds to wait for an id; None is ``max_block_ms``. Raises the same errors
        as :meth:`aioproducer.Producer.client_instance_id`.
        """
        check_timeout(timeout)
        self._check()
        if self._telemetry is None:
            raise IllegalStateError(
                f"{self!r} has no client instance id, because enable_metrics_push is False"
            )
        return await self._telemetry.client_instance_id(
            self._timeout if timeout is None else timeout
        )


# A call without a group gets our error, which names a Reader. Type checkers still require one.
(Consumer.__init__.__kwdefaults__ or {})["group_id"] = None
