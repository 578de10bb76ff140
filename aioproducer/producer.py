"""The producer of applications: its public methods and their reference."""

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
)
from aioproducer.config.producer_config import ShownOptions, configuration
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
from aioproducer.errors import ConfigError
from aioproducer.foundation.runtime.tasks import last_steps
from aioproducer.foundation.runtime.threads import load_here
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
from aioproducer.model.type_parameters import MYPY, NO_SERIALIZER, K_contra, V_contra

if TYPE_CHECKING:
    from uuid import UUID

    from aioproducer.engine.bulk.send_report import SendReport
    from aioproducer.engine.core.health import Health
    from aioproducer.engine.core.queries import ClusterCheck
    from aioproducer.engine.core.sending import RecordFields
    from aioproducer.engine.metrics import Latencies, MetricsSnapshot
    from aioproducer.model.type_parameters import (
        AsyncValuesToSend,
        ConfigOf,
        SentKey,
        SentValue,
        SerializerOf,
    )


@elsewhere(
    __enter__=ASYNC_WITH,
    **in_other_producers(
        close="`await producer.close()`, or `async with`", send="`await producer.send(...)`"
    ),
)
class Producer(Generic[K_contra, V_contra]):
    """Sends records to Kafka from an asyncio event loop.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            metadata = await producer.send("orders", b"value", key=b"customer-7")

    Pass options as keywords (see :class:`ProducerConfig`) or as a ``config``, which keywords
    override. A producer belongs to the event loop on which it was started.

    ``transaction``: the :meth:`transaction_handle` of another producer's open transaction. This
    producer then joins it: it writes into that transaction or ends it, and cannot begin another
    one. Closing this producer leaves the transaction open. Only one of the joined producers may
    write to a given partition.

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
    """

    __signature__ = ShownOptions()

    config: ProducerConfig
    client_id: str

    if MYPY:  # it would print all options of each overload, and pyright knows no default of a self

        def __init__(
            self: Producer[SentKey, SentValue],
            config: ConfigOf[SentKey, SentValue] | None = None,
            /,
            *,
            transaction: TransactionHandle | None = None,
            key_serializer: SerializerOf[SentKey] | None = None,
            value_serializer: SerializerOf[SentValue] | None = None,
            **options: Unpack[UntypedOptions],
        ) -> None: ...

    else:

        @overload
        def __init__(
            self,
            config: None = None,
            /,
            *,
            transaction: TransactionHandle | None = None,
            key_serializer: SerializerOf[K_contra] | None = NO_SERIALIZER,
            value_serializer: SerializerOf[V_contra] | None = NO_SERIALIZER,
            **options: Unpack[UntypedOptions],
        ) -> None: ...
        @overload
        def __init__(
            self,
            config: ProducerConfig | None,
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
            self._make(config, transaction, options)

    def _make(
        self,
        config: ProducerConfig | None,
        transaction: TransactionHandle | None,
        options: ProducerOptions,
    ) -> None:
        config = configuration(config, options, "Producer")
        if transaction is not None:
            config = _joining(config, transaction)
        load_here((_load_core,))
        from aioproducer.engine.core.producer_core import ProducerCore

        self._core = core = ProducerCore(config, transaction, (_load_bulk,))
        self.config = core.config
        self.client_id = core.client_id
        self._fast_path = core.fast_path

    def __repr__(self) -> str:
        core = getattr(self, "_core", None)  # None: in a traceback, with an error of the options
        return "<Producer that is being made>" if core is None else repr(core)

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self.client_id)

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start on the running event loop. Connections to the brokers open with the first send.

        With a ``transactional_id`` this also calls :meth:`init_transactions`. If that fails, the
        error is raised and the producer is closed.

        Raises:
            IllegalStateError: the producer has already been started.
            ProducerClosedError: the producer was closed meanwhile.
            ConfigError: a file of the ``ssl_`` options can't be read or used.
            BootstrapError: no name in ``bootstrap_servers`` could be resolved within
                ``bootstrap_resolve_timeout_ms``.
        """
        await self._core.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A forked child leaves the block, and the producer to its parent.
        if not self._core.lifecycle.forked:
            with last_steps(kind):
                await self.close()

    async def close(self, timeout: float | None = None) -> int:
        """Refuse new records, deliver the buffered ones, and stop.

        ``timeout``: the seconds to wait for deliveries; 0 does not wait, and None waits up to
        ``delivery_timeout_ms``. Returns the number of records that were not delivered; their
        futures raise :class:`ProducerClosedError`. A second call waits for the same shutdown, which
        ends with the earlier of the two timeouts. If a call is cancelled, all remaining records
        fail at once; at the end of ``asyncio.run()``, which cancels every task once, the call keeps
        its timeout.
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
        """Buffer a record for sending, and return a future for its outcome.

        The call never blocks. ``key`` and ``value``: bytes-like, ``str`` (UTF-8), None, or any
        object that the serializers accept. ``value=None`` writes a tombstone, which deletes the key
        in a compacted topic. ``partition``: None lets the partitioner choose; for a partition that
        is not in the metadata yet, the record waits up to ``max_block_ms``. ``headers``: a mapping
        or pairs, values bytes, ``str`` or None. ``timestamp_ms``: milliseconds since the epoch,
        None for now. A :class:`ProducerRecord` as the only argument carries all of these.

        You can change all objects after the call: the record keeps their content. While a
        serializer with ``prepare()`` is not prepared, the record waits with a deep copy of its key
        and value. An object that can't be copied is kept as it is, and a warning says so: do not
        change it until the future is done.

        Cancelling the future withdraws the record only while it waits for metadata or memory. Once
        in a batch, the record is sent.

        In a transaction, RecordTooLargeError and BufferExhaustedError mean that a record is
        missing: the transaction can only be aborted, even if you catch the error. As in Java,
        errors about the arguments (SerializationError, the Invalid… errors) leave the transaction
        as it is. In ``send_many()``, any failed record makes the commit fail.

        Raises:
            SerializationError: key, value or headers can't be turned into bytes, or there is no
                value.
            RecordTooLargeError: the record exceeds ``max_request_size`` or the memory for batches.
            InvalidPartitionError: the number is out of range, or the partitioner chose a partition
                that the topic lacks.
            InvalidTopicError: brokers do not accept this topic name.
            InvalidTimestampError: the timestamp is not an int, or out of range.
            BufferExhaustedError: too many records are pending; ``await drain()`` between sends.
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
        """Wait, if necessary, until there is memory for more records. Callers take turns.

        Call this between sends whose futures you do not await. Source: ``StreamWriter.drain``. The
        call considers two kinds of brokers: the leaders of the caller's pending records, and the
        leader of the record sent last. If a broker has delivered nothing for a second, the call
        waits for it only if the caller itself has pending records there, and only while half of
        that broker's space for pending records is used. If one broker leads all partitions, the
        call always waits for it. Waiting is per task: limit it with ``asyncio.timeout()``,
        because ``asyncio.wait_for()`` of Python 3.11 runs the call in another task.

        From another loop or thread, the call raises only if it would have to wait; ``send()``
        always raises.

        Raises:
            ProducerClosedError, ProducerBrokenError: the producer has ended.
            IllegalStateError: the producer was not started.
            WrongLoopError: the call is in another event loop, thread or process.
        """
        core = self._core
        if core.back_pressure.is_full:
            await core.drain()

    async def check(
        self,
        timeout: float | None = None,
        *,
        topics: Iterable[str] = (),
        transactional_id: str | None = None,
        group_id: str | None = None,
        consumed_topics: Iterable[str] = (),
    ) -> ClusterCheck:
        """Connect, log in, and check that this producer can write. Nothing is written.

        Call this when your application starts; use :meth:`health` for probes. Each topic must
        exist, its leaders must be reachable, and the principal must be allowed to write to it. One
        error names all permissions that are missing.

        Args:
            timeout: seconds; None: ``max_block_ms``.
            topics: the names of the topics that the application writes to.
            transactional_id: the id whose coordinator must be reachable, and which the principal
                must be allowed to use (WRITE). No producer is fenced.
            group_id: a group whose offsets transactions commit, which needs READ.
            consumed_topics: the topics of these offsets, which need READ.

        Raises:
            AuthenticationError: a broker refused the login, or TLS failed.
            ConfigError: a file that TLS needs can't be used.
            BootstrapError: the timeout is over; the message shows each broker's last error.
            BrokerConnectionError: the leader of a topic can't be reached.
            KafkaError: a topic does not exist, or the principal lacks a permission. Each case has
                its own class.
        """
        from aioproducer.engine.core.queries import check

        check_timeout(timeout)
        bound = self.config.max_block_ms / 1000 if timeout is None else timeout
        return await check(
            self._core.engine.queries, topics, transactional_id, bound, group_id, consumed_topics
        )

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far is delivered or has failed.

        Raises:
            ProducerTimeoutError: ``timeout`` seconds are over. Sending continues in the background.
            AbortableTransactionError: a record failed in a transaction that other producers may
                commit.
        """
        check_timeout(timeout)
        await self._core.engine.flush(timeout)

    async def send_many(
        self,
        topic: str,
        values: AsyncValuesToSend[K_contra, V_contra],
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> SendReport:
        """Send every value (or :class:`ProducerRecord`) of ``values`` and wait for all outcomes.

        ``values``: an iterable, an async iterable, or Arrow columns. Values that can't change
        (bytes, text, numbers) are read up to 500 ahead from an iterable (fewer if batches hold
        fewer); any other value is sent before the next one is read. A list, its values and Arrow
        columns must not change before the call returns. The call waits for memory between records.
        An invalid record fails and does not stop the others. In a transaction a failed record makes
        the commit fail.

        If the producer is closed or breaks, or ``values`` raises, the call raises that error once
        all records sent have their outcome. If the call is cancelled, it sends no more records,
        withdraws those that wait for metadata or memory, and does not wait for the rest. In all
        cases ``SendReport.of(error)`` returns the report of the records sent.

        Arrow columns are a ``pyarrow.RecordBatch`` or ``Table`` with the column ``value``, and any
        of ``key`` (both binary, large_binary, string or large_string; nulls are None),
        ``partition`` (int32; null: chosen by the key), ``timestamp`` (timestamp, or int64 in ms
        since the epoch; null: now) and ``headers`` (list of struct<key: string, value: binary>).
        A column ``offset`` (int64), as in columns that were read, is ignored. A ``pyarrow.Array``
        or ``ChunkedArray`` contains only values. Rows go into batches without becoming Python
        objects, unless there are serializers, interceptors or a partitioner, which get bytes. The
        order is kept within each partition.

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
        """Return the numbers of the topic's partitions, in order. Source: ``partitionsFor``.

        If the topic is not in the metadata yet, the call waits up to ``max_block_ms``.

        Raises:
            InvalidTopicError: brokers do not accept this topic name.
            TopicAuthorizationFailedError: the principal may not describe the topic.
            MetadataTimeoutError, BootstrapError: there was no metadata for the topic in time.
            ProducerClosedError, ProducerBrokenError: the producer has ended.
            IllegalStateError, WrongLoopError: see :meth:`send`.
        """
        info = await self._core.engine.queries.topic(checked_topic(topic))
        return tuple(each.partition for each in info.partitions)

    async def partition_infos_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions with leader, replicas and in-sync replicas, in order.

        Every call requests the topic's metadata, because the producer does not store replicas. It
        waits like :meth:`partitions_for`, and raises the same errors.
        """
        return await self._core.engine.queries.partition_infos(checked_topic(topic))

    # --- transactions ----------------------------------------------------------------------

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Get the producer id and an epoch. :meth:`start` calls this; a second call does nothing.

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
        """Open a transaction: the records sent in its block become visible together, or never.

        ::

            async with producer.transaction():
                producer.send("orders", order)
                producer.send("audit", entry)

        Leaving the block waits until every record is delivered, and commits. Any exception,
        including cancellation, aborts the transaction and is raised again. A cancelled commit
        continues in the background; the next transaction waits for it, and raises its error.
        ``shared``: see :meth:`begin_transaction`.

        ::

            try:
                async with producer.transaction(): ...
            except (FatalTransactionError, ProducerBrokenError, UsageError):
                raise                                 # another attempt would fail, too
            except CommitUnconfirmedError:
                await producer.commit_transaction()   # keep waiting; raises if the commit failed
            except ProducerError:
                ...                                   # aborted, nothing is visible: try again

        Raises:
            FatalTransactionError: the producer was fenced by a newer one, or refused.
            AbortableTransactionError: a record was not delivered, so the transaction was aborted.
            CommitUnconfirmedError: the commit was not confirmed within ``max_block_ms``, or the
                producer was closed meanwhile. Unless it is closed, the commit continues.
            IllegalStateError: a transaction is already open.
        """
        return self._core.transactions.block(shared=shared)

    async def begin_transaction(self, *, shared: bool = False) -> None:
        """Open a transaction. Prefer :meth:`transaction`, which always ends it.

        The call first waits for a commit or abort that was cancelled or timed out. ``shared``: set
        it if other producers will join (:meth:`transaction_handle`).

        Raises:
            AbortableTransactionError: an earlier, cancelled commit has failed; abort it.
            FatalTransactionError, ProducerTimeoutError, IllegalStateError: see
                :meth:`transaction`.
        """
        await self._core.transactions.begin(shared=shared)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver the records of the transaction, and commit it.

        ``timeout``: seconds, None for ``max_block_ms``. A commit that was cancelled or timed out
        continues; a second call waits for the same commit, and raises if it failed.

        Raises:
            AbortableTransactionError: a record was not delivered; call :meth:`abort_transaction`.
            FatalTransactionError: the producer was fenced or refused; close it.
            CommitUnconfirmedError: the commit was not confirmed in time (call this again), or not
                before the producer was closed.
            IllegalStateError: no transaction is open, or a ``send_many()`` in it is still running.
        """
        check_timeout(timeout)
        await self._core.transactions.commit(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop the records that are not sent yet, wait for the sent ones, and abort.

        ``timeout``: as for :meth:`commit_transaction`.

        Raises:
            FatalTransactionError: the producer was fenced or refused; close it.
            ProducerTimeoutError: the abort was not confirmed in time; call this again.
            IllegalStateError: no transaction is open, or its commit has begun.
        """
        check_timeout(timeout)
        await self._core.transactions.abort(timeout)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, OffsetAndMetadata | int] | Iterable[Any],
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Write consumed offsets in the transaction: they change only if it commits.

        ``offsets``: a mapping of partitions to the offset of the next record to read (an int, an
        :class:`OffsetAndMetadata` or another client's object), or an iterable of objects with
        ``topic``, ``partition`` and ``offset``. ``group``: the group's id, or the consumer's group
        metadata. With the metadata the group refuses a consumer that has lost its partitions
        (KIP-447); without generation and member id it accepts any consumer. If the call is
        cancelled or times out, the offsets are still written in the transaction, unless it is
        aborted.

        Raises:
            InvalidOffsetError: the arguments are not offsets, or not a group.
            AbortableTransactionError: the group refused the offsets; abort the transaction.
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
        """Return the committed offsets of the group ``group_id``: the next record to read per
        partition.

        Partitions without a committed offset are omitted. The call waits until no open transaction
        can change the offsets (KIP-447). This includes a transaction of this producer, so end it
        first. The call never changes the state of a transaction. ``timeout``: seconds, None for
        ``max_block_ms``. Needs brokers of Kafka 2.5.

        Raises:
            InvalidOffsetError: the arguments are not a group, or not partitions.
            GroupAuthorizationFailedError, KafkaError: the group's coordinator refused.
            UnsupportedVersionError: the brokers are older than Kafka 2.5.
            ProducerTimeoutError: the timeout is over; the message gives the reason.
            FatalTransactionError: the producer was fenced or refused; close it.
            IllegalStateError: there is no ``transactional_id``.
        """
        check_timeout(timeout)
        group, places = checked_group(group_id), checked_places(partitions)
        return await self._core.transactions.fetch_offsets(group.group_id, places, timeout)

    def transaction_handle(self, *, hand_over: bool = False) -> TransactionHandle:
        """Return the open transaction for other producers: ``Producer(..., transaction=handle)``.

        This is for systems that coordinate many writers. Begin the transaction with
        ``shared=True``. Anyone with the handle can write into the transaction, and can end it. All
        writers must flush before the commit; ``flush()`` raises if a record failed. If a writer
        dies, abort the transaction: brokers would treat its successor's records as duplicates.
        Several producers may request the same commit or abort. This producer must request it before
        its own next transaction.

        ``hand_over``: from now on this producer is only a participant. Closing it leaves the
        transaction open, and so does leaving the :meth:`transaction` block that began it. The
        producer cannot begin another transaction. If no producer ends the transaction, the
        coordinator aborts it after ``transaction_timeout_ms``, or when a producer starts with this
        ``transactional_id``.

        Raises:
            IllegalStateError: no transaction is open, or it is not shared.
        """
        return self._core.transactions.share(over=hand_over)

    # --- observation -----------------------------------------------------------------------

    def health(self) -> Health:
        """Report whether the producer can write now, and why not; for health checks.

        The call never waits and never raises, because it only uses what the producer already knows.
        You can call it from any thread and in any state of the producer. To ask the cluster, use
        :meth:`check`.
        """
        return self._core.health()

    def metrics(self) -> MetricsSnapshot:
        """Return the Java producer's metrics by group and name; see ``docs/reference/metrics.md``.

        You can call this from any thread.
        """
        return self._core.metrics()

    def latencies(self) -> Latencies:
        """Return histograms of the records' latencies, total and by stage, since the producer's
        start."""
        return self._core.latencies()

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that a broker has assigned to this producer for pushed metrics.

        The id stays the same for the producer's lifetime (KIP-714). Brokers show it in Kafka's
        form, base64 without padding::

            base64.urlsafe_b64encode(client_instance_id.bytes).decode().rstrip("=")

        ``timeout``: the seconds to wait for an id; None is ``max_block_ms``, and 0 does not wait.
        The producer connects to a broker if it is not connected. Source: ``clientInstanceId``.

        Raises:
            IllegalStateError: ``enable_metrics_push`` is False, or the producer was not started.
            UnsupportedVersionError: the brokers do not accept client metrics.
            ProducerTimeoutError: no broker assigned an id in time.
            AuthenticationError: every broker refused the login.
            KafkaError: the broker refused to assign an id.
            ProducerClosedError, ProducerBrokenError, WrongLoopError: see :meth:`send`.
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


def _load_core() -> None:
    import aioproducer.engine.core.producer_core  # noqa: F401


def _load_bulk() -> None:
    import aioproducer.engine.bulk.send_many  # noqa: F401
