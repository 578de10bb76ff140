"""The producer that users hold. Everything else is put together here, and only here."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from asyncio import current_task
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import partial
from itertools import count
from time import monotonic, time_ns
from typing import Any, Final, Self, Unpack

from aioproducer.accumulator.pending_records import PendingRecord
from aioproducer.accumulator.producer_batch import RecordFuture
from aioproducer.bulk.column_sender import ColumnSender
from aioproducer.bulk.send_report import SendReport
from aioproducer.bulk.value_sender import Crowd
from aioproducer.config import (
    ProducerConfig,
    ProducerOptions,
    hidden_mapping,
    hide_secrets,
    type_name_of,
)
from aioproducer.core.arguments import (
    check_handle,
    check_partition,
    check_timeout,
    check_timestamp,
    checked_group,
    checked_offsets,
    checked_places,
    checked_topic,
    one_by_one,
    only_argument,
)
from aioproducer.core.check import ClusterCheck, check
from aioproducer.core.engine import Engine
from aioproducer.core.fast_path import FastPath
from aioproducer.core.transaction_api import TransactionApi
from aioproducer.errors import (
    ConfigError,
    IllegalStateError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
    WrongLoopError,
    anew,
)
from aioproducer.interceptors import InterceptedFuture, Interceptors, close_hooks, tell_partition
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
from aioproducer.records.acceleration import RouteCache
from aioproducer.records.arrow import is_arrow, read_columns
from aioproducer.serialization import checked_headers, serialize, shared_headers

logger = logging.getLogger(__name__)

_NUMBERS: Final = count(1)


class _Unstarted:
    """Stands for the accumulator where there is none, or another process has it: whoever looks
    waits, or is refused."""

    crowded = True
    stalled: Collection[object] = ()

    def last_has_room(self) -> bool:
        """No."""
        return False


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
        self.config = config
        self._joined = transaction
        self.client_id = config.client_id or f"producer-{next(_NUMBERS)}"
        self._made: list[Any] = []
        """Interceptors, and the other hooks that were classes."""
        try:
            for hook in config.interceptor_classes:
                self._made.append(hook() if isinstance(hook, type) else hook)
            self._interceptors = Interceptors(self._made)
            self._key_serializer = self._make(config.key_serializer)
            self._value_serializer = self._make(config.value_serializer)
        except BaseException:
            self.close_hooks()
            raise
        self._serializing = not (self._key_serializer is self._value_serializer is None)
        self._partitioning = config.partitioner is not None
        self._patience = min(config.max_block_ms, config.delivery_timeout_ms) / 1000
        """Seconds that a record stands in line at most."""
        self._engine: Engine | None = None
        self._transactions: TransactionApi | None = None
        self._crowd: Crowd = _Unstarted()
        self._closing: asyncio.Task[int] | None = None
        self._closed = False
        self._broken: ProducerBrokenError | None = None
        self._fast_path = FastPath()
        self._process = os.getpid()

    def _make(self, hook: Any) -> Any:
        """An instance of ``hook`` if it is a class."""
        if not isinstance(hook, type):
            return hook
        made = hook()
        self._made.append(made)
        return made

    def close_hooks(self) -> None:
        """Close interceptors, and the hooks that were made here; doing so twice does nothing."""
        made, self._made = self._made, []
        close_hooks(made)

    def __repr__(self) -> str:
        if not hasattr(self, "_process"):  # in a traceback, with an error of the configuration
            return "<Producer that is being made>"
        return f"<Producer {self.client_id!r} {self._state()}>"

    def _state(self) -> str:
        if self._broken is not None:
            return "broken"
        if self._closed:
            return "closed" if self._closing is None or self._closing.done() else "closing"
        return "not started" if self._engine is None else "started"

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start on the running event loop. No broker is asked yet: the first send does that.

        With a ``transactional_id`` it also does :meth:`init_transactions`, and raises what that
        raises; it is closed then.

        Raises:
            IllegalStateError: it was started before.
            ProducerClosedError: it was closed meanwhile.
        """
        if self._engine is not None or self._closed:
            raise IllegalStateError(
                f"the producer {self.client_id!r} is {self._state()}; it can be started once. "
                "Make a new Producer"
            )
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()
        try:
            partitioner = self._make(self.config.partitioner)
            self._engine = engine = Engine(
                self.config, self.client_id, partitioner, self._on_death, self._joined
            )
            await engine.resolve_bootstrap()
        except BaseException:
            self._engine = None
            self._closed = True
            self.close_hooks()
            raise
        if self._closed:
            raise ProducerClosedError(f"the producer {self.client_id!r} was closed as it started")
        self._transactions = engine.transactions
        self._accumulator = self._crowd = engine.accumulator
        self._append = engine.accumulator.append
        self._known_topics = engine.accumulator.routes.topics
        hooked = self._interceptors or self._serializing or self._partitioning
        engine.start()
        self._routes = RouteCache() if hooked else engine.accumulator.routes
        self._fast_path.open(self._loop, self._routes)
        _LIVING.add(self)
        if self._transactions is not None:
            try:
                await self._transactions.initialize(None)
            except BaseException:
                await self.close(0)
                raise

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
        engine = self._engine
        if engine is None:
            self._closed = True
            self.close_hooks()
            return 0
        if self._closing is None:
            if os.getpid() != self._process:
                raise WrongLoopError(self._why_forked())
            if asyncio.get_running_loop() is not self._loop:
                raise WrongLoopError(self._why_other_loop())
            self._fast_path.close()
            self._closed = True
            self._closing = self._loop.create_task(
                self._close(engine, timeout), name="aioproducer-close"
            )
        try:
            await asyncio.wait([self._closing], timeout=timeout)
        finally:
            if not self._closing.done():
                engine.hurry()
                await asyncio.wait([self._closing])
        return self._closing.result()

    async def _close(self, engine: Engine, timeout: float | None) -> int:
        bound = self.config.delivery_timeout_ms / 1000 if timeout is None else timeout
        error = ProducerClosedError(
            "the producer was closed before this record was delivered (close() waited for at most "
            f"{bound:g} s, or was cancelled); give close() more time, or flush() first"
        )
        try:
            undelivered = await engine.close(bound, error)
        finally:
            self.close_hooks()
        if undelivered:
            logger.error(
                "Producer %r was closed with %d records undelivered", self.client_id, undelivered
            )
        return undelivered

    def _on_death(self, cause: BaseException) -> None:
        if self._broken is not None or self._closed or self._engine is None:
            return
        self._fast_path.close()
        why = f"{type(cause).__name__}: {cause}"
        if isinstance(cause, asyncio.CancelledError):
            why = f"{cause}; was its event loop ended before `await producer.close()`?"
        error = ProducerBrokenError(
            f"the producer {self.client_id!r} is broken and sends no more: {why} "
            "Close it and make a new one"
        )
        error.__cause__ = cause
        self._broken = error
        logger.error("%s", error, exc_info=cause)
        self._engine.break_down(error)

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
        self.check_usable()
        if isinstance(topic, ProducerRecord):
            topic, value, key, partition, headers, timestamp_ms = only_argument(
                topic, value, key, partition, headers, timestamp_ms
            )
        future = self._loop.create_future()
        self.put(topic, value, key, partition, headers, timestamp_ms, future)
        return future

    def put(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        token: RecordFuture,
        *,
        over_capacity: bool = False,
        caller: object = None,
    ) -> None:
        """:meth:`send` for those who bring the future: ``token`` gets the record's fate.

        For ``send_many()`` and the blocking shell; called on the event loop, by a running producer.
        ``over_capacity``: a record that finds the line full is not refused, because its caller
        waits for room before the next one. ``caller``: who waits then, if not the present task.
        """
        if self._transactions is not None:
            self._transactions.check_open()
        hooked: InterceptedFuture | None = None
        try:
            if self._interceptors:
                record = self._interceptors.on_send(
                    ProducerRecord(topic, value, key, partition, headers, timestamp_ms)
                )
                topic, value, key, partition, headers, timestamp_ms = record.fields()
                token = hooked = InterceptedFuture(token, self._interceptors, record)
            self._put_serialized(
                topic, value, key, partition, headers, timestamp_ms, token, over_capacity, caller
            )
        except ProducerError as error:
            if hooked is not None:
                hooked.refused(error)
            if self._transactions is not None and not over_capacity:  # bulk tells at its end
                self._transactions.record_refused(error)
            raise

    def _put_serialized(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        token: RecordFuture,
        over_capacity: bool,
        caller: object,
    ) -> None:
        if type(topic) is not str or topic not in self._known_topics:
            topic = checked_topic(topic)
        if self._serializing or (value is not None and type(value) is not bytes):
            value = serialize(value, self._value_serializer, topic, "value")
        if self._serializing or (key is not None and type(key) is not bytes):
            key = serialize(key, self._key_serializer, topic, "key")
        pairs = () if headers is None else checked_headers(headers, topic)
        if timestamp_ms is None:
            timestamp_ms = _now_ms()
        else:
            check_timestamp(timestamp_ms, topic)
        if partition is not None:
            check_partition(partition, topic)
        elif self._partitioning:
            partition = self._accumulator.choose_partition(topic, key, value)
            tell_partition(token, partition)
        now = monotonic()
        if self._append(topic, partition, timestamp_ms, key, value, pairs, token, now) is not None:
            return
        record = PendingRecord(
            topic,
            partition,
            timestamp_ms,
            key,
            value,
            pairs,
            token,
            size=self._accumulator.sizes.checked(topic, key, value, pairs),
            sent=now,
            deadline=now + self._patience,
            caller=token.caller if isinstance(token, InterceptedFuture) else None,
        )
        engine = self._engine
        assert engine is not None
        engine.wait_in_line(record, now, caller or current_task(), over_capacity=over_capacity)
        if isinstance(record.caller, asyncio.Future):
            record.caller.add_done_callback(partial(self._on_caller_done, record))

    def _on_caller_done(self, record: PendingRecord, caller: asyncio.Future[Any]) -> None:
        if caller.cancelled() and self._engine is not None:
            self._engine.withdraw(record)

    def take_back_cancelled(self) -> None:
        """Take all records that were cancelled out of the line."""
        if self._engine is not None:
            self._engine.take_back_cancelled()

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
        crowd = self._crowd
        if crowd.crowded and (crowd.stalled or not crowd.last_has_room()):
            admission = self._running().memory_waiters
            await admission.drain(current_task())

    def turn(self, caller: object) -> asyncio.Future[None] | None:
        """A future for when ``caller`` may send more; None: now. For the blocking shell."""
        return (
            self._running().memory_waiters.turn(caller, patient=True)
            if self._crowd.crowded
            else None
        )

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
        engine = self._running()
        bound = self.config.max_block_ms / 1000 if timeout is None else timeout
        return await check(engine, topics, transactional_id, bound)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before has its fate, delivered or failed.

        Raises:
            ProducerTimeoutError: not within ``timeout`` seconds; the records go on.
            AbortableTransactionError: it takes part in a transaction that others may commit, and a
                record failed.
        """
        check_timeout(timeout)
        engine = self._running()
        future = self._loop.create_future()
        engine.accumulator.flush(future)
        began = monotonic()
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            raise ProducerTimeoutError(
                f"flush() gave up after {timeout} s: {len(engine.accumulator.incomplete)} batches "
                f"and {len(engine.accumulator.line)} waiting records have no fate yet"
            ) from None
        finally:
            engine.accumulator.flushes.give_up(future)
            now = monotonic()
            engine.metrics.flushed(now - began, now)
        if self._transactions is not None:
            self._transactions.check_own_part("flush")

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
        self._running()
        columns = read_columns(values) if is_arrow(values) else None
        if columns is None and not isinstance(values, AsyncIterable):
            values = one_by_one(values, "an iterable or async iterable")
        if headers is not None:
            headers = shared_headers(headers, topic)
        future = self._loop.create_future()
        sender = ColumnSender(self, self._fast_path, self._routes, future, _now_ms)
        with self.bulk():
            report: SendReport | None = None
            try:
                if columns is None:
                    report = await sender.send_all(topic, values, partition, headers)
                else:
                    report = await sender.send_columns(topic, columns, partition, headers)
                return report
            except BaseException as error:
                report = SendReport.of(error)
                raise
            finally:
                if report is not None and report.first_failure is not None:
                    self.record_failed(report.first_failure)

    def bulk(self) -> AbstractContextManager[None]:
        """A ``send_many()`` is under way in it; its transaction is not committed before."""
        return nullcontext() if self._transactions is None else self._transactions.bulk()

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """The numbers of the topic's partitions, in order. Source: ``partitionsFor``.

        A topic that is not known yet is waited for as a record waits, ``max_block_ms`` at most.

        Raises:
            InvalidTopicError, TopicAuthorizationFailedError: no topic of that name, or not for us.
            MetadataTimeoutError, BootstrapError: it did not become known in time.
            ProducerClosedError, ProducerBrokenError, IllegalStateError, WrongLoopError: not now,
                not here, or not any more.
        """
        info = await self._running().topic(checked_topic(topic), self._patience)
        return tuple(each.partition for each in info.partitions)

    async def partition_infos_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions with leader, replicas and in-sync replicas, in order.

        The cluster is asked with each call, for this topic alone: replicas come and go between
        refreshes, and nothing here keeps them. An answer is waited for as by
        :meth:`partitions_for`, and the call raises the same errors.
        """
        return await self._running().partition_infos(checked_topic(topic), self._patience)

    def record_failed(self, error: BaseException) -> None:
        """A record failed, and no call has raised it: a transaction can't be committed then.

        For ``send_many()`` and the blocking shell.
        """
        if self._transactions is not None and isinstance(error, ProducerError):
            self._transactions.record_failed(error)

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
        await self._transactional().initialize(timeout)

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
        return self._transactional().block(shared=shared)

    async def begin_transaction(self, *, shared: bool = False) -> None:
        """Open a transaction; better :meth:`transaction`, which never forgets to end it.

        If a commit or an abort was cancelled before, or timed out, its end is waited for first.
        ``shared``: other producers will take part (:meth:`transaction_handle`).

        Raises:
            AbortableTransactionError: the commit before was cancelled, and failed: abort it.
            FatalTransactionError, ProducerTimeoutError, IllegalStateError: see
                :meth:`transaction`.
        """
        await self._transactional().begin(shared=shared)

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
        await self._transactional().commit(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what was not sent, wait for what was, and abort.

        ``timeout``: as for :meth:`commit_transaction`.

        Raises:
            FatalTransactionError: fenced or refused: close the producer.
            ProducerTimeoutError: not confirmed in time; call it again.
            IllegalStateError: no transaction is open, or its commit is under way.
        """
        check_timeout(timeout)
        await self._transactional().abort(timeout)

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
        calls = self._transactional()
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
        return await self._transactional().fetch_offsets(group.group_id, places, timeout)

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
        return self._transactional().share(over=hand_over)

    def _transactional(self) -> TransactionApi:
        self.check_usable()
        if self._transactions is None:
            raise IllegalStateError(
                f"the producer {self.client_id!r} has no transactional_id: give it one, unique "
                "among the producers of the cluster and the same after a restart"
            )
        return self._transactions

    def check_usable(self) -> None:
        """Raise the reason if the producer can't be used here and now."""
        if not self._fast_path.serves():
            self._refuse()

    # --- looking at it ---------------------------------------------------------------------

    def metrics(self) -> MetricsSnapshot:
        """The Java producer's metrics by group and name; see ``docs/reference/metrics.md``."""
        if self._engine is None:
            raise IllegalStateError("the producer was not started, so there are no metrics yet")
        return self._engine.snapshot_metrics()

    # --- refusing --------------------------------------------------------------------------

    def _running(self) -> Engine:
        self.check_usable()
        assert self._engine is not None
        return self._engine

    def _refuse(self) -> None:
        """Raise the reason why the producer can't be used here and now."""
        if os.getpid() != self._process:
            raise WrongLoopError(self._why_forked())
        if self._broken is not None:
            raise anew(self._broken)
        if self._closed:
            raise ProducerClosedError(
                f"the producer {self.client_id!r} is {self._state()}; make a new Producer"
            )
        if self._engine is None:
            raise IllegalStateError(
                f"the producer {self.client_id!r} was not started: use `async with Producer(...)` "
                "or `await producer.start()`"
            )
        raise WrongLoopError(self._why_other_loop())

    def _why_forked(self) -> str:
        return (
            f"the producer {self.client_id!r} was made in another process (before a fork); "
            "make a new one in each process"
        )

    def _why_other_loop(self) -> str:
        return (
            f"the producer {self.client_id!r} belongs to the event loop it was started on, and "
            "was used from another loop or thread; make one there, or use aioproducer.sync.Producer"
        )


def _now_ms() -> int:
    return time_ns() // 1_000_000


def _joining(config: ProducerConfig, transaction: TransactionHandle) -> ProducerConfig:
    check_handle(transaction)
    named = config.transactional_id
    if named is not None and named != transaction.transactional_id:
        raise ConfigError(
            f"transactional_id={named!r} is not that of the transaction to take part in "
            f"({transaction.transactional_id!r}): leave it out"
        )
    return config.replace(transactional_id=transaction.transactional_id)


_LIVING: Final[weakref.WeakSet[Producer]] = weakref.WeakSet()


def _disown_after_fork() -> None:
    for producer in _LIVING:
        producer._fast_path.close()
        producer._crowd = _Unstarted()


os.register_at_fork(after_in_child=_disown_after_fork)
