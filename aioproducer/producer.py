"""The producer that users hold: its public methods, and the reference of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, Unpack, overload

from aioproducer.config import (
    ProducerConfig,
    ProducerOptions,
    UntypedOptions,
    hidden_mapping,
    hide_secrets,
    no_config,
)
from aioproducer.engine.client.elsewhere import ASYNC_WITH, elsewhere, in_other_producers
from aioproducer.engine.core.arguments import (
    NO_VALUE,
    check_handle,
    check_timeout,
    checked_group,
    checked_offsets,
    checked_places,
    checked_topic,
    given_record,
    refuse_pickle,
)
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.send_pipeline import RecordFields
from aioproducer.engine.metrics import Latencies, MetricsSnapshot
from aioproducer.errors import ConfigError
from aioproducer.model import (
    ConsumerGroupMetadata,
    Headers,
    OffsetAndMetadata,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.model.type_parameters import K_contra, V_contra

if TYPE_CHECKING:
    from uuid import UUID

    from aioproducer.engine.bulk.send_report import SendReport
    from aioproducer.engine.core.check import ClusterCheck
    from aioproducer.engine.core.health import Health
    from aioproducer.model.type_parameters import (
        AsyncValuesToSend,
        Plain,
        PlainKey,
        PlainValue,
        SerializerOf,
    )


@elsewhere(
    __enter__=ASYNC_WITH,
    **in_other_producers(
        close="`await producer.close()`, or `async with`", send="`await producer.send(...)`"
    ),
)
class Producer(Generic[K_contra, V_contra]):
    """Sends records to Kafka from an event loop.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            metadata = await producer.send("orders", b"value", key=b"customer-7")

    Options are keywords (see :class:`ProducerConfig`), or a ``config`` that the keywords override.
    A producer belongs to the event loop on which it was started.

    ``transaction``: the :meth:`transaction_handle` of another producer's open transaction, in which
    this producer takes part. It writes into that transaction or ends it, and begins no other.
    Closing this producer leaves the transaction open. Only one of the producers that take part may
    write to a given partition.

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
    """

    @overload
    def __init__(
        self: Producer[Plain, Plain],
        config: None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: None = None,
        value_serializer: None = None,
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K_contra, Plain],
        config: None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: SerializerOf[K_contra],
        value_serializer: None = None,
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Plain, V_contra],
        config: None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: None = None,
        value_serializer: SerializerOf[V_contra],
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        config: None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: SerializerOf[K_contra],
        value_serializer: SerializerOf[V_contra],
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    @overload  # Producer[K, V](...) as pyright reads it; the same below
    def __init__(
        self: Producer[PlainKey, PlainValue],
        config: None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: None = None,
        value_serializer: None = None,
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K_contra, PlainValue],
        config: None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: SerializerOf[K_contra],
        value_serializer: None = None,
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[PlainKey, V_contra],
        config: None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: None = None,
        value_serializer: SerializerOf[V_contra],
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        config: ProducerConfig,
        /,
        *,
        transaction: TransactionHandle | None = None,
        key_serializer: SerializerOf[K_contra] | None = None,
        value_serializer: SerializerOf[V_contra] | None = None,
        **options: Unpack[UntypedOptions],
    ) -> None: ...
    def __init__(
        self,
        config: ProducerConfig | None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        hide_secrets(options)
        config = hidden_mapping(config)
        if config is None:
            config = ProducerConfig(**options)
        elif not isinstance(config, ProducerConfig):
            raise no_config(config, "Producer")
        elif options:
            config = config.replace(**options)
        if transaction is not None:
            config = _joining(config, transaction)
        self._core = core = ProducerCore(config, transaction)
        self.config: ProducerConfig = core.config
        self.client_id: str = core.client_id
        self._fast_path = core.fast_path

    def __repr__(self) -> str:
        core = getattr(self, "_core", None)  # None: in a traceback, with an error of the options
        return "<Producer that is being made>" if core is None else repr(core)

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self.client_id)

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start on the running event loop. The first send connects to the brokers.

        With a ``transactional_id`` it also calls :meth:`init_transactions` and raises its errors;
        the producer is closed then.

        Raises:
            IllegalStateError: the producer was started before.
            ProducerClosedError: the producer was closed meanwhile.
            BootstrapError: no name in ``bootstrap_servers`` could be resolved within
                ``bootstrap_resolve_timeout_ms``.
        """
        await self._core.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._core.forked:  # a forked child leaves the block, and the producer to its parent
            await self.close()

    async def close(self, timeout: float | None = None) -> int:
        """Refuse new records, deliver the buffered ones, and end.

        ``timeout``: seconds until undelivered records are given up, 0 for at once; None waits as
        long as a record may take at most (``delivery_timeout_ms``). Returns the number of records
        given up; their futures raise :class:`ProducerClosedError`. A second call waits for the same
        end, which comes when the first of the timeouts is over. If a call is cancelled, all
        remaining records are given up at once.
        """
        check_timeout(timeout)
        return await self._core.close(timeout)

    # --- sending ---------------------------------------------------------------------------

    def send(
        self,
        topic: str | ProducerRecord[K_contra | None, V_contra | None],
        value: V_contra | None = NO_VALUE,
        *,
        key: K_contra | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Put a record into memory to be sent; the future gets its outcome.

        Never blocks. ``key`` and ``value``: bytes-like, ``str`` (UTF-8), None, or any object that
        the serializers take. ``value=None`` writes a tombstone, which deletes the key on a
        compacted topic. ``partition``: None lets the partitioner choose; a partition that is
        not in the metadata is waited for (``max_block_ms``). ``headers``: a mapping or pairs,
        values bytes, ``str`` or None. ``timestamp_ms``: milliseconds since the epoch, None for now.
        A :class:`ProducerRecord` as the only argument carries all of these.

        Cancelling the future takes the record back only while it waits for metadata or memory. A
        record in a batch is sent.

        In a transaction, RecordTooLargeError and BufferExhaustedError mean a missing record: the
        transaction can only be aborted, even if the caller catches the error. Errors about the
        arguments (SerializationError, the Invalid… ones) leave the transaction as it is, as in
        Java; in a ``send_many()`` every failed record counts.

        Raises:
            SerializationError: key, value or headers can't be turned into bytes, or there is no
                value.
            RecordTooLargeError: over ``max_request_size`` or the memory for batches.
            InvalidPartitionError: the number is out of range, or the partitioner chose a partition
                that the topic lacks.
            InvalidTopicError: no broker takes a topic of this name.
            InvalidTimestampError: the timestamp is no int, or out of range.
            BufferExhaustedError: no more records may be pending; ``await drain()`` between sends.
            ProducerClosedError, ProducerBrokenError: the producer has ended.
            IllegalStateError: the producer was not started, or no transaction is open.
            WrongLoopError: the call is in another event loop, thread or process.
        """
        if headers is None and timestamp_ms is None:
            sent: asyncio.Future[RecordMetadata] | None
            sent = self._fast_path.send(topic, value, key, partition)
            if sent is not None:
                return sent
        core = self._core
        core.check_usable()
        fields: RecordFields = (topic, value, key, partition, headers, timestamp_ms)
        if value is NO_VALUE or type(topic) is not str:
            fields = given_record(*fields)
        return core.send(fields)

    async def drain(self) -> None:
        """Return at once while there is memory for more records; else wait for it, in turn.

        Call it between sends whose futures you do not await. Source: ``StreamWriter.drain``. The
        call waits for memory of two kinds of brokers: the leaders of the caller's pending records,
        and the leader of the record sent last. A broker that has delivered nothing for a second is
        waited for only on behalf of the caller's own pending records, and only while half of that
        broker's space for pending records is used; a broker that leads all partitions is waited for
        always. The caller is the task: bound the wait by ``asyncio.timeout()``, because
        ``asyncio.wait_for()`` of Python 3.11 makes a task of its own.

        A call from another loop or thread raises only if it would wait; ``send()`` always raises
        there.

        Raises:
            ProducerClosedError, ProducerBrokenError: the producer has ended.
            IllegalStateError: the producer was not started.
            WrongLoopError: the call is in another event loop, thread or process.
        """
        core = self._core  # as core.drain(), without another coroutine for each record
        if core.back_pressure.is_full and core.back_pressure.must_wait():
            await core.wait_for_room()

    async def check(
        self,
        timeout: float | None = None,
        *,
        topics: Iterable[str] = (),
        transactional_id: str | None = None,
    ) -> ClusterCheck:
        """Connect, log in, and find out whether this producer can write. It writes nothing.

        Call it at the start of an application; probes ask :meth:`health`. Each topic must exist,
        its leaders must be reachable, and the principal must have the right to write to it.

        Args:
            timeout: seconds; None: ``max_block_ms``.
            topics: the names of the topics that the application writes to.
            transactional_id: its coordinator must be reachable, which needs DESCRIBE. The check
                does not use the id, so only :meth:`init_transactions` finds a lack of WRITE.

        Raises:
            AuthenticationError: a broker refused the login, or TLS failed.
            ConfigError: a file that TLS needs can't be used.
            BootstrapError: the timeout is over; the message has each broker's last error.
            BrokerConnectionError: the leader of a topic can't be reached.
            KafkaError: a topic does not exist, or the principal lacks a right; each has a class.
        """
        from aioproducer.engine.core.check import check

        check_timeout(timeout)
        bound = self.config.max_block_ms / 1000 if timeout is None else timeout
        return await check(self._core.engine.queries, topics, transactional_id, bound)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before has its outcome, delivered or failed.

        Raises:
            ProducerTimeoutError: ``timeout`` seconds are over; the records are still sent.
            AbortableTransactionError: a record failed in a transaction that other producers may
                commit.
        """
        check_timeout(timeout)
        await self._core.flush(timeout)

    async def send_many(
        self,
        topic: str,
        values: AsyncValuesToSend[K_contra, V_contra],
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> SendReport:
        """Send every value (or :class:`ProducerRecord`) of ``values``; wait for all outcomes.

        ``values``: an iterable, which is read up to 500 values ahead (fewer where batches hold
        fewer), or an async iterable, or Arrow columns. The call waits for memory between records.
        An invalid record counts as failed and does not stop the others. In a transaction a failed
        record makes the commit fail.

        If the producer is closed or breaks, or ``values`` raises, the call raises that error once
        all records sent have their outcome. If the call is cancelled, it sends no further record,
        takes back the records that wait for metadata or memory, and does not wait for the rest. In
        each case ``SendReport.of(error)`` returns the report of the records sent.

        Arrow columns are a ``pyarrow.RecordBatch`` or ``Table`` with the column ``value``, and any
        of ``key`` (both binary, large_binary, string or large_string; nulls are None),
        ``partition`` (int32; null: chosen by the key), ``timestamp`` (timestamp, or int64 in ms
        since the epoch; null: now) and ``headers`` (list of struct<key: string, value: binary>).
        The column ``offset`` (int64) of records that were read is not sent. A ``pyarrow.Array`` or
        ``ChunkedArray`` holds values alone. No row becomes a Python object of its own on its way
        into a batch, unless there are serializers, interceptors or a partitioner; they see bytes.
        The order is kept within each partition.

        Raises:
            SerializationError: ``values`` is not iterable, or is a single str or bytes; or
                ``headers`` can't be turned into bytes; or a column has an unknown name or type, or
                is also given as an argument.
            IllegalStateError: there is a ``transactional_id``, and no transaction is open.
            ProducerClosedError, ProducerBrokenError: the producer ended during the call.
        """
        from aioproducer.engine.bulk.send_many import send_many

        return await send_many(self._core, topic, values, partition, headers)

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """The numbers of the topic's partitions, in order. Source: ``partitionsFor``.

        The call waits for a topic that is not in the metadata, ``max_block_ms`` at most.

        Raises:
            InvalidTopicError: no broker takes a topic of this name.
            TopicAuthorizationFailedError: the principal may not describe the topic.
            MetadataTimeoutError, BootstrapError: the topic did not become known in time.
            ProducerClosedError, ProducerBrokenError: the producer has ended.
            IllegalStateError, WrongLoopError: see :meth:`drain`.
        """
        return await self._core.partitions_for(checked_topic(topic))

    async def partition_infos_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions with leader, replicas and in-sync replicas, in order.

        Each call requests the metadata of this topic, because the producer does not keep replicas.
        The call waits as :meth:`partitions_for` does, and raises the same errors.
        """
        return await self._core.partition_infos_for(checked_topic(topic))

    # --- transactions ----------------------------------------------------------------------

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Get the producer id and an epoch. :meth:`start` calls it; a second call does nothing.

        The brokers fence an older producer with the same ``transactional_id``, and abort its open
        transaction. ``timeout``: seconds, None for ``max_block_ms``.

        Raises:
            ProducerTimeoutError: no coordinator answered in time.
            FatalTransactionError: the brokers refuse the transactional id, or its
                ``transaction_timeout_ms``.
        """
        check_timeout(timeout)
        await self._core.transactions.initialize(timeout)

    def transaction(self, *, shared: bool = False) -> AbstractAsyncContextManager[None]:
        """A transaction: the records sent in its block become visible together, or never.

        ::

            async with producer.transaction():
                producer.send("orders", order)
                producer.send("audit", entry)

        The end of the block commits, and waits until every record is delivered. Any exception
        aborts, cancellation included, and is raised again. A cancelled commit goes on in the
        background; the next transaction waits for it, and raises its failure. ``shared``: see
        :meth:`begin_transaction`.

        ::

            try:
                async with producer.transaction(): ...
            except (FatalTransactionError, ProducerBrokenError, UsageError):
                raise                                 # another attempt would fail as well
            except CommitUnconfirmedError:
                await producer.commit_transaction()   # waits on, and raises if the commit failed
            except ProducerError:
                ...                                   # aborted, nothing is visible: try again

        Raises:
            FatalTransactionError: fenced by a newer producer, or refused.
            AbortableTransactionError: a record was not delivered, so the transaction was aborted.
            CommitUnconfirmedError: the commit was not confirmed within ``max_block_ms``, or the
                producer was closed meanwhile. Unless it is closed, the commit goes on.
            IllegalStateError: a transaction is open already.
        """
        return self._core.transactions.block(shared=shared)

    async def begin_transaction(self, *, shared: bool = False) -> None:
        """Open a transaction. Prefer :meth:`transaction`, which never forgets to end it.

        The call first waits for a commit or abort that was cancelled or timed out. ``shared``:
        other producers will take part (:meth:`transaction_handle`).

        Raises:
            AbortableTransactionError: an earlier, cancelled commit has failed: abort it.
            FatalTransactionError, ProducerTimeoutError, IllegalStateError: see
                :meth:`transaction`.
        """
        await self._core.transactions.begin(shared=shared)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver the records of the transaction, and commit it.

        ``timeout``: seconds, None for ``max_block_ms``. A commit that was cancelled or timed out
        goes on; a second call waits for the same commit, and raises if it failed.

        Raises:
            AbortableTransactionError: a record was not delivered: call :meth:`abort_transaction`.
            FatalTransactionError: fenced or refused: close the producer.
            CommitUnconfirmedError: not confirmed in time (call it again), or before the producer
                was closed.
            IllegalStateError: no transaction is open, or a ``send_many()`` is under way in it.
        """
        check_timeout(timeout)
        await self._core.transactions.commit(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop the unsent records, wait for the sent ones, and abort.

        ``timeout``: as for :meth:`commit_transaction`.

        Raises:
            FatalTransactionError: fenced or refused: close the producer.
            ProducerTimeoutError: not confirmed in time; call it again.
            IllegalStateError: no transaction is open, or its commit is under way.
        """
        check_timeout(timeout)
        await self._core.transactions.abort(timeout)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, OffsetAndMetadata | int] | Iterable[Any],
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Write consumed offsets with the transaction: they move if it commits, and only then.

        ``offsets``: a mapping of partitions to the offset of the next record to read, an int, an
        :class:`OffsetAndMetadata` or another client's object; or an iterable of objects with
        ``topic``, ``partition`` and ``offset``. ``group``: the group's id, or the consumer's group
        metadata, by which the group refuses a consumer that lost its partitions (KIP-447); without
        generation and member id it accepts every consumer. If the call is cancelled or times out,
        the offsets are still written with the transaction, unless it is aborted.

        Raises:
            InvalidOffsetError: the arguments are no offsets, or no group.
            AbortableTransactionError: the group refused the offsets: abort the transaction.
            FatalTransactionError, ProducerTimeoutError, IllegalStateError: see
                :meth:`commit_transaction`.
        """
        check_timeout(timeout)
        calls = self._core.transactions
        await calls.send_offsets(checked_offsets(offsets), checked_group(group), timeout)

    async def committed_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout: float | None = None,
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of the group ``group_id``: of each partition, the next to read.

        A partition without a committed offset is left out. The call waits until no open transaction
        would change an offset (KIP-447), even if the transaction is this producer's: end that
        first. The call never changes the state of a transaction. ``timeout``: seconds, None for
        ``max_block_ms``. Needs brokers of Kafka 2.5.

        Raises:
            InvalidOffsetError: the arguments are no group, or no partitions.
            GroupAuthorizationFailedError, KafkaError: the group's coordinator refuses.
            UnsupportedVersionError: the brokers are older than Kafka 2.5.
            ProducerTimeoutError: the timeout is over; the message has the reason.
            FatalTransactionError: fenced or refused: close the producer.
            IllegalStateError: there is no ``transactional_id``.
        """
        check_timeout(timeout)
        group, places = checked_group(group_id), checked_places(partitions)
        return await self._core.transactions.fetch_offsets(group.group_id, places, timeout)

    def transaction_handle(self, *, hand_over: bool = False) -> TransactionHandle:
        """The open transaction, for producers elsewhere: ``Producer(..., transaction=handle)``.

        Engines that coordinate many writers need it. The transaction must be begun with
        ``shared=True``. Every holder of the handle can write into the transaction, and can end it.
        Every writer must flush before the commit; ``flush()`` raises if a record failed. If a
        writer dies, abort: brokers would take its successor's records for duplicates. Several
        producers may request the same end. This producer must request it before its own next
        transaction.

        ``hand_over``: from now on this producer only takes part. Closing it leaves the transaction
        open, and so does the end of the :meth:`transaction` block in which it was begun. The
        producer begins no other transaction. If no producer ends the transaction, the coordinator
        aborts it after ``transaction_timeout_ms``, or when a producer starts with this
        ``transactional_id``.

        Raises:
            IllegalStateError: no transaction is open, or it is not shared.
        """
        return self._core.transactions.share(over=hand_over)

    # --- observation -----------------------------------------------------------------------

    def health(self) -> Health:
        """Whether the producer can write now, and the reasons if not; for health checks.

        The call never waits and never raises: it reads the known facts. Any thread may call it, in
        every state of the producer. :meth:`check` asks the cluster.
        """
        return self._core.health()

    def metrics(self) -> MetricsSnapshot:
        """The Java producer's metrics by group and name; see ``docs/reference/metrics.md``.

        Any thread may ask.
        """
        return self._core.metrics()

    def latencies(self) -> Latencies:
        """Histograms of the times of records, whole and in parts, since the producer's start."""
        return self._core.latencies()

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """The id that a broker has assigned to this producer, for the metrics that it pushes.

        The id does not change as long as the producer lives (KIP-714). Brokers name it in Kafka's
        own form, base64 without padding::

            base64.urlsafe_b64encode(client_instance_id.bytes).decode().rstrip("=")

        ``timeout``: seconds until an id is assigned, None for ``max_block_ms``, 0 for not at all.
        The producer connects to a broker if it is not connected. Source: ``clientInstanceId``.

        Raises:
            IllegalStateError: ``enable_metrics_push`` is False, or the producer was not started.
            UnsupportedVersionError: the brokers take no metrics of clients.
            ProducerTimeoutError: no broker has assigned an id in time.
            AuthenticationError: every broker refuses the login.
            KafkaError: the broker refuses to assign an id.
            ProducerClosedError, ProducerBrokenError, WrongLoopError: see :meth:`drain`.
        """
        check_timeout(timeout)
        return await self._core.client_instance_id(timeout)


def _joining(config: ProducerConfig, transaction: TransactionHandle) -> ProducerConfig:
    check_handle(transaction)
    named = config.transactional_id
    if named is not None and named != transaction.transactional_id:
        raise ConfigError(
            f"transactional_id={named!r} is not that of the transaction to take part in "
            f"({transaction.transactional_id!r}): leave it out"
        )
    return config.replace(transactional_id=transaction.transactional_id)
