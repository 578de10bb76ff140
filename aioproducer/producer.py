"""The producer that users hold: its public methods, and the reference of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Self, Unpack

from aioproducer.bulk.send_many import send_many
from aioproducer.bulk.send_report import SendReport
from aioproducer.config import (
    ProducerConfig,
    ProducerOptions,
    hidden_mapping,
    hide_secrets,
    type_name_of,
)
from aioproducer.core.arguments import (
    check_handle,
    check_timeout,
    checked_group,
    checked_offsets,
    checked_places,
    checked_topic,
    only_argument,
)
from aioproducer.core.check import ClusterCheck, check
from aioproducer.core.environment import SYSTEM, Environment
from aioproducer.core.producer_core import ProducerCore
from aioproducer.core.send_pipeline import RecordFields
from aioproducer.errors import ConfigError
from aioproducer.metrics import MetricsSnapshot
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


class Producer:
    """Sends records to Kafka from an event loop.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            metadata = await producer.send("orders", b"value", key=b"customer-7")

    Options are keywords (see :class:`ProducerConfig`), or a ready ``config`` that they change.
    A producer belongs to the event loop on which it was started.

    ``transaction``: another producer's open transaction (its :meth:`transaction_handle`), in which
    this one takes part. It writes into it, or ends it, and does no other; closing it leaves the
    transaction open. Each partition may be written to by one of the producers that take part.

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
    """

    _environment: ClassVar[Environment] = SYSTEM

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
            raise ConfigError(
                "the only positional argument of Producer() is a ProducerConfig, not a "
                f"{type_name_of(config)}: name the brokers with bootstrap_servers=..., and read "
                "Java properties with ProducerConfig.from_properties(...)"
            )
        elif options:
            config = config.replace(**options)
        if transaction is not None:
            config = _joining(config, transaction)
        self._core = core = ProducerCore(config, transaction, self._environment)
        self.config = core.config
        self.client_id = core.client_id
        self._fast_path = core.fast_path

    def __repr__(self) -> str:
        core = getattr(self, "_core", None)  # None: in a traceback, with an error of the options
        return "<Producer that is being made>" if core is None else repr(core)

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start on the running event loop. No broker is asked yet: the first send does that.

        With a ``transactional_id`` it also does :meth:`init_transactions`, and raises what that
        raises; it is closed then.

        Raises:
            IllegalStateError: it was started before.
            ProducerClosedError: it was closed meanwhile.
        """
        await self._core.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, timeout: float | None = None) -> int:
        """Refuse new records, deliver what is there, and end.

        ``timeout``: seconds until what is not delivered is given up, 0 for at once; None waits as
        long as a record may take at most (``delivery_timeout_ms``). Returns how many records were
        given up; their futures have a :class:`ProducerClosedError`. Closing again waits for the
        same end, which comes when the first of the timeouts is over. If it is cancelled, the rest
        is given up at once.
        """
        check_timeout(timeout)
        return await self._core.close(timeout)

    # --- sending ---------------------------------------------------------------------------

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Put a record into memory to be sent; the future has its fate.

        Never blocks. ``key`` and ``value``: bytes-like, ``str`` (UTF-8), None, or what the
        serializers take. ``partition``: None lets the partitioner choose; one that the topic is not
        known to have is asked for, and waited for as metadata is (``max_block_ms``). ``headers``: a
        mapping or pairs, values bytes or None. ``timestamp_ms``: milliseconds since the epoch, None
        for now. A :class:`ProducerRecord` as the only argument carries all of these.

        Cancelling the future takes the record back only while it still waits for metadata or
        memory; once it is in a batch it is sent.

        In a transaction, RecordTooLargeError and BufferExhaustedError leave a gap: it can only be
        aborted then, even if its caller catches them. Errors that say what is wrong with the
        arguments (SerializationError, the Invalid… ones) leave it as it is, as in Java; in a
        ``send_many()`` every record that failed counts.

        Raises:
            SerializationError: key, value or headers can't be turned into bytes.
            RecordTooLargeError: over ``max_request_size`` or the memory for batches.
            InvalidPartitionError: no topic has it, or the partitioner named none of the topic's.
            InvalidTopicError, InvalidTimestampError: as they say.
            BufferExhaustedError: even the waiting line is full; ``await drain()`` between sends.
            ProducerClosedError, ProducerBrokenError, IllegalStateError, WrongLoopError: not now,
                not here, or not any more.
        """
        if headers is None and timestamp_ms is None:
            sent: asyncio.Future[RecordMetadata] | None
            sent = self._fast_path.send(topic, value, key, partition)
            if sent is not None:
                return sent
        core = self._core
        core.check_usable()
        fields: RecordFields = (topic, value, key, partition, headers, timestamp_ms)
        if isinstance(topic, ProducerRecord):
            fields = only_argument(topic, *fields[1:])
        future = core.new_future()
        core.put(fields, future)
        return future

    async def drain(self) -> None:
        """Return at once while there is memory for more records; else wait for it, in turn.

        Use it between sends whose futures you do not await. Source: ``StreamWriter.drain``. It
        waits for the brokers for which the caller's records had to stand in line, and for that of
        the record sent last; for no other. A broker that has delivered nothing for a second is
        waited for only where the caller's own records stand in line, while that line is half full,
        unless it leads all partitions. The caller is the task: bound the wait by
        ``asyncio.timeout()``, for ``asyncio.wait_for()`` of Python 3.11 makes a task of its own.

        While there is room it does not look where it is called: from another loop or thread it is
        refused only where it would wait, and ``send()`` always.

        Raises:
            ProducerClosedError, ProducerBrokenError: there will be no room any more.
            IllegalStateError, WrongLoopError: not now, or not here.
        """
        core = self._core
        if core.room.is_full and core.room.must_wait():
            await core.wait_for_room()

    async def check(
        self,
        timeout: float | None = None,
        *,
        topics: Iterable[str] = (),
        transactional_id: str | None = None,
    ) -> ClusterCheck:
        """Connect, log in, and find out whether this producer can write. It writes nothing.

        For the start of an application, and for health checks. Each topic has to exist, its leaders
        have to be reached, and the principal has to be allowed to write to it.

        Args:
            timeout: seconds; None: ``max_block_ms``.
            topics: the names of the topics that the application writes to.
            transactional_id: its coordinator is looked for, which needs DESCRIBE; the id is not
                taken, so a lack of WRITE is told by :meth:`init_transactions` alone.

        Raises:
            AuthenticationError: a broker refused the login, or TLS failed.
            ConfigError: a file that TLS needs can't be used.
            BootstrapError: it took longer; the message has each broker's last error.
            BrokerConnectionError: the leader of a topic can't be reached.
            KafkaError: a topic does not exist, or the principal lacks a right; one class each.
        """
        check_timeout(timeout)
        bound = self.config.max_block_ms / 1000 if timeout is None else timeout
        return await check(self._core.engine.queries, topics, transactional_id, bound)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before has its fate, delivered or failed.

        Raises:
            ProducerTimeoutError: not within ``timeout`` seconds; the records go on.
            AbortableTransactionError: it takes part in a transaction that others may commit, and a
                record failed.
        """
        check_timeout(timeout)
        await self._core.flush(timeout)

    async def send_many(
        self,
        topic: str,
        values: Any,
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> SendReport:
        """Send every value (or :class:`ProducerRecord`) of ``values`` and wait for all fates.

        ``values``: an iterable, which is read up to 500 values ahead (fewer where batches hold
        fewer), or an async iterable, or Arrow columns. Memory is waited for between records. What
        is wrong with a record counts as its failure and does not stop the others. In a transaction
        a record that failed makes the commit fail.

        If the producer is closed or breaks, or ``values`` raises, that is raised when all that was
        sent has its fate. If it is cancelled, no further record is sent, and what still waits for
        metadata or memory is taken back; it does not wait for the rest. In each case
        ``SendReport.of(error)`` has the report of what was sent.

        Arrow columns are a ``pyarrow.RecordBatch`` or ``Table`` with the column ``value``, and any
        of ``key`` (both binary, large_binary, string or large_string; nulls are None),
        ``partition`` (int32; null: as the key says), ``timestamp`` (timestamp, or int64 in ms since
        the epoch; null: now) and ``headers`` (list of struct<key: string, value: binary>). Or a
        ``pyarrow.Array`` or ``ChunkedArray`` of values. Without headers, rows get into batches
        without a Python object each; serializers and interceptors, if any, see bytes. The order is
        kept within each partition.

        Raises:
            SerializationError: ``values`` can't be iterated over, or is a single str or bytes; or
                ``headers`` can't be turned into bytes; or a column's name or type is none of these,
                or says what an argument says too.
            IllegalStateError: there is a ``transactional_id``, and no transaction is open.
            ProducerClosedError, ProducerBrokenError: there was an end to it midway.
        """
        return await send_many(self._core, topic, values, partition, headers)

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """The numbers of the topic's partitions, in order. Source: ``partitionsFor``.

        A topic that is not known yet is waited for as a record waits, ``max_block_ms`` at most.

        Raises:
            InvalidTopicError, TopicAuthorizationFailedError: no topic of that name, or not for us.
            MetadataTimeoutError, BootstrapError: it did not become known in time.
            ProducerClosedError, ProducerBrokenError, IllegalStateError, WrongLoopError: not now,
                not here, or not any more.
        """
        return await self._core.partitions_for(checked_topic(topic))

    async def partition_infos_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions with leader, replicas and in-sync replicas, in order.

        The cluster is asked with each call, for this topic alone: replicas come and go between
        refreshes, and nothing here keeps them. An answer is waited for as by
        :meth:`partitions_for`, and the call raises the same errors.
        """
        return await self._core.partition_infos_for(checked_topic(topic))

    # --- transactions ----------------------------------------------------------------------

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Get the producer id and an epoch; :meth:`start` does it, and doing it twice does nothing.

        A producer with the same ``transactional_id`` that is still there is fenced, and its open
        transaction aborted. ``timeout``: seconds, None for ``max_block_ms``.

        Raises:
            ProducerTimeoutError: no coordinator answered in time.
            FatalTransactionError: the brokers refuse the transactional id, or the timeout.
        """
        check_timeout(timeout)
        await self._core.transactions.initialize(timeout)

    def transaction(self, *, shared: bool = False) -> AbstractAsyncContextManager[None]:
        """A transaction: what is sent in its block becomes visible as a whole, or never.

        ::

            async with producer.transaction():
                producer.send("orders", order)
                producer.send("audit", entry)

        The end of the block commits, and waits until every record is delivered. Any exception
        aborts, cancellation included, and goes on. If the commit itself is cancelled, it goes on in
        the background, and the next transaction begins when it is done, or tells that it failed.
        ``shared``: see :meth:`begin_transaction`.

        ::

            try:
                async with producer.transaction(): ...
            except (FatalTransactionError, ProducerBrokenError, UsageError):
                raise                                 # to try again would not help
            except CommitUnconfirmedError:
                await producer.commit_transaction()   # waits on, and tells what came of it
            except ProducerError:
                ...                                   # aborted, nothing is visible: try again

        Raises:
            FatalTransactionError: fenced by a newer producer, or refused.
            AbortableTransactionError: a record was not delivered, so the transaction was aborted.
            CommitUnconfirmedError: the commit was not confirmed within ``max_block_ms``, or the
                producer was closed meanwhile. It goes on, if it can.
            IllegalStateError: a transaction is open already.
        """
        return self._core.transactions.block(shared=shared)

    async def begin_transaction(self, *, shared: bool = False) -> None:
        """Open a transaction; better :meth:`transaction`, which never forgets to end it.

        If a commit or an abort was cancelled before, or timed out, its end is waited for first.
        ``shared``: other producers will take part (:meth:`transaction_handle`).

        Raises:
            AbortableTransactionError: the commit before was cancelled, and failed: abort it.
            FatalTransactionError, ProducerTimeoutError, IllegalStateError: see
                :meth:`transaction`.
        """
        await self._core.transactions.begin(shared=shared)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver what was sent in the transaction, and commit it.

        ``timeout``: seconds, None for ``max_block_ms``. A commit that was cancelled or timed out
        goes on; calling this again waits for the same commit, and tells what became of it.

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
        """Drop what was not sent, wait for what was, and abort.

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

        ``offsets``: for each partition the offset of the next record to read, as an int, an
        :class:`OffsetAndMetadata` or another client's; or an iterable of objects with ``topic``,
        ``partition`` and ``offset``. ``group``: the group's id, or the consumer's group metadata,
        with which the group refuses a consumer that lost its partitions (KIP-447); without
        generation and member id it refuses nobody. Offsets whose wait was cancelled or timed out
        are still written with the transaction, unless it is aborted.

        Raises:
            InvalidOffsetError: these are no offsets, or no group.
            AbortableTransactionError: refused by the group: abort the transaction.
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
        """The committed offsets of the group ``group_id``, each that of the next record.

        A partition without one is left out. What an open transaction would change is waited for
        (KIP-447), even if the transaction is this producer's: end that first. Otherwise it is
        nothing to a transaction whether offsets are asked for, or refused. ``timeout``: seconds,
        None for ``max_block_ms``. Needs brokers of Kafka 2.5.

        Raises:
            InvalidOffsetError: this is no group, or these are no partitions.
            GroupAuthorizationFailedError, KafkaError: the group's coordinator refuses.
            UnsupportedVersionError: the brokers are older.
            ProducerTimeoutError: not known in time; the message says what was in the way.
            FatalTransactionError: fenced or refused: close the producer.
            IllegalStateError: there is no ``transactional_id``.
        """
        check_timeout(timeout)
        group, places = checked_group(group_id), checked_places(partitions)
        return await self._core.transactions.fetch_offsets(group.group_id, places, timeout)

    def transaction_handle(self, *, hand_over: bool = False) -> TransactionHandle:
        """The open transaction, for producers elsewhere: ``Producer(..., transaction=handle)``.

        For engines that coordinate many writers. The transaction has to be begun with
        ``shared=True``. Whoever has the handle can write into it, and can end it. Before it is
        committed, every writer has to have flushed, and its ``flush()`` raises if a record failed;
        a writer that died is not replaced, for brokers would take what its successor writes for
        duplicates: abort. An end that is asked for twice is the same end, so this producer may ask
        too, and has to before its own next transaction.

        ``hand_over``: from now on this producer is one of those who take part. Closing it leaves
        the transaction open, and so does the end of its :meth:`transaction` block, if that is where
        it was begun; it does no other transaction. If nobody ends it, the coordinator aborts it
        after ``transaction_timeout_ms``, or when a producer starts with this ``transactional_id``.

        Raises:
            IllegalStateError: no transaction is open, or it is not shared.
        """
        return self._core.transactions.share(over=hand_over)

    # --- looking at it ---------------------------------------------------------------------

    def metrics(self) -> MetricsSnapshot:
        """The Java producer's metrics by group and name; see ``docs/reference/metrics.md``."""
        return self._core.metrics()


def _joining(config: ProducerConfig, transaction: TransactionHandle) -> ProducerConfig:
    check_handle(transaction)
    named = config.transactional_id
    if named is not None and named != transaction.transactional_id:
        raise ConfigError(
            f"transactional_id={named!r} is not that of the transaction to take part in "
            f"({transaction.transactional_id!r}): leave it out"
        )
    return config.replace(transactional_id=transaction.transactional_id)
