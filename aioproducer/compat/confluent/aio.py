"""confluent-kafka's ``AIOProducer``, on the event loop itself: there are no worker threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from time import time_ns
from typing import Any, Final, Self

from aioproducer.compat.confluent.arguments import (
    as_bytes,
    deadline_seconds,
    header_pairs,
    name,
    timestamp_ms,
    whole,
)
from aioproducer.compat.confluent.cluster_metadata import (
    ClusterMetadata,
    cluster_metadata,
    describe,
)
from aioproducer.compat.confluent.errors import (
    KafkaException,
    record_error,
    translating,
)
from aioproducer.compat.confluent.options import configuration, hide_arguments, settings_of
from aioproducer.compat.confluent.partitions import LATER, UNASSIGNED
from aioproducer.compat.confluent.records import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Outbox,
    delivered_message,
)
from aioproducer.compat.confluent.transactions import (
    group_of,
    not_configured,
    not_flushed,
    offsets_of,
)
from aioproducer.compat.confluent.watch import Call, LogLines, start
from aioproducer.compat.confluent.worker import Intake, RecordPump
from aioproducer.engine.core.arguments import checked_group, checked_offsets
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.transaction_api import TransactionApi
from aioproducer.engine.records.acceleration import hide, show
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.tasks import new_visible_task
from aioproducer.foundation.secret import Secret, hidden

__all__ = ["AIOProducer"]

logger = plain_logger("aioproducer.compat.confluent")

_MEMORY: Final = 64 * 1024 * 1024
_TURN: Final = 500
"""Records of one caller after which the event loop may run other tasks."""

_set_result = asyncio.Future.set_result
_set_exception = asyncio.Future.set_exception


class _RecordFuture(asyncio.Future[Any]):
    """The future of one record, whose result is a :class:`Message`."""

    __slots__ = ("_fields", "_sent_ns")
    _fields: tuple[str, bytes | None, bytes | None]
    _sent_ns: int

    def set_result(self, result: Any) -> None:
        """Take the core's metadata."""
        self.set_results((self,), (result,), False)

    def set_exception(self, exception: Any) -> None:
        """Take the core's error, unless the caller has cancelled this."""
        if self.done():
            return
        show(self)  # the error leads to frames
        _set_exception(self, KafkaException(record_error(exception)))

    @staticmethod
    def set_results(
        futures: Any, results: Any, is_log_append_time: bool = False, *_: object
    ) -> None:
        """Set the results of the futures of one batch, but of those that are done."""
        kind = TIMESTAMP_LOG_APPEND_TIME if is_log_append_time else TIMESTAMP_CREATE_TIME
        now_ns = time_ns()
        for future, result in zip(futures, results, strict=True):
            if not future.done():
                message = delivered_message(future._fields, result, kind, future._sent_ns, now_ns)
                _set_result(future, message)


class _Callbacks(Outbox):
    """Calls the callbacks of the configuration on the event loop; they may be asynchronous."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(only_errors=False)
        self._loop = loop

    def put(self, event: Any) -> None:
        """Call soon, and log what a callback raises; lines for a logger come from any thread."""
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._begin, event)

    def _begin(self, event: Call) -> None:
        new_visible_task(self._call(event), "confluent-callback")

    @staticmethod
    async def _call(event: Call) -> None:
        try:
            answer = event.serve()
            if isinstance(answer, Awaitable):
                await answer
        except Exception:
            logger.exception("a callback has failed")


class AIOProducer:
    """Sends records to Kafka, with the interface of ``confluent_kafka.aio.AIOProducer``.

    Args:
        producer_conf: librdkafka's options.
        max_workers, executor, batch_size, buffer_timeout: they have no effect. There are no
            workers, and records leave after ``linger.ms``; see ``docs``.

    Raises:
        RuntimeError: no event loop is running.
        KafkaException, TypeError: as for :class:`Producer`.
    """

    def __init__(
        self,
        producer_conf: Mapping[str, Any],
        max_workers: int = 4,
        executor: Any = None,
        batch_size: int = 1000,
        buffer_timeout: float = 1.0,
    ) -> None:
        conf, _ = hide_arguments((producer_conf,), {})
        del producer_conf  # a traceback shows the values of this frame
        asyncio.get_running_loop()
        if (max_workers, executor, batch_size, buffer_timeout) != (4, None, 1000, 1.0):
            logger.info(
                "max_workers, executor, batch_size and buffer_timeout have no effect: records go "
                "into batches at once, which are sent after linger.ms"
            )
        self._settings = settings = settings_of(configuration(conf, {}), memory=_MEMORY)
        self._core = core = ProducerCore(settings.config, None)
        self._loop = asyncio.get_running_loop()
        self._outbox = _Callbacks(self._loop)
        self._lines: LogLines | None = None
        if settings.logger is not None:
            self._lines = LogLines(settings.logger, self._outbox, core.client_id)
            self._lines.begin()
        self._pump = RecordPump(core, Intake(self._outbox), settings, self._outbox)
        self._choose = settings.choice
        self._default = settings.transaction_seconds
        self._closed = False
        self._turn = 0
        self._started: asyncio.Task[None] | None = new_visible_task(
            self._start(), "confluent-start"
        )

    async def _start(self) -> None:
        await start(self._core, self._settings, self._outbox)

    async def _ready(self) -> None:
        """Wait for the start, and raise its error."""
        started = self._started
        if started is not None:
            with translating():
                await asyncio.shield(started)
            self._started = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __len__(self) -> int:
        """The number of records without an outcome."""
        if self._closed or self._started is not None:
            return 0
        return self._core.engine.accumulator.records_without_outcome

    def __bool__(self) -> bool:
        return True

    # --- records -------------------------------------------------------------------------------

    async def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: Any = None,
    ) -> asyncio.Future[Any]:
        """Put a record into a batch; returns a future, whose result is its :class:`Message`.

        The call waits for memory, also once a part of it holds records of the same task whose
        topics are not known yet. Unlike in confluent-kafka, headers are sent. A record that no
        batch takes fails with ``_QUEUE_FULL`` if as many as the queue may hold wait already, as
        those of topics that are not known yet do. Each counts for the bytes of its batch.

        Raises:
            TypeError: an argument is of a wrong type.
            RuntimeError: the producer is closed.
            KafkaException: the producer could not start, or is broken.

        The future's error is a :class:`KafkaException`; without an open transaction it has
        ``_STATE``.
        """
        if value is not None and value.__class__ is not bytes:
            value = as_bytes(value)
        if key is not None and key.__class__ is not bytes:
            key = as_bytes(key)
        if topic.__class__ is not str or partition.__class__ is not int:
            topic, partition = name(topic), whole(partition)
        pairs = None if headers is None else header_pairs(headers)
        core = self._core
        if self._started is not None:
            await self._ready()
        if self._closed:
            raise RuntimeError("Producer has been closed")
        self._turn += 1
        if self._turn >= _TURN:
            self._turn = 0
            await asyncio.sleep(0)
        if core.back_pressure.is_full:
            with translating():
                await core.drain()
        future = _RecordFuture(loop=self._loop)
        hide(future)
        future._fields = topic, value, key
        future._sent_ns = sent_ns = time_ns()
        chosen: int | None = partition
        if partition == UNASSIGNED:
            builders = core.routes.topics.get(topic)
            chosen = self._choose(key, 0 if builders is None else len(builders.partitions))
        if (
            pairs is None
            and not timestamp
            and chosen != LATER
            and core.fast_path.append(future, topic, value, key, chosen)
        ):
            return future
        stamp = timestamp_ms(timestamp)
        self._pump.put((future, topic, value, key, chosen, pairs, stamp, sent_ns, partition), None)
        return future

    async def poll(self, timeout: float = 0, *_: object, **__: object) -> int:
        """Let the event loop run once; returns 0. Callbacks and futures need no poll here."""
        deadline_seconds(timeout)
        await asyncio.sleep(0)
        return 0

    async def flush(self, timeout: float = -1, *_: object) -> int:
        """Wait until all records have their outcomes.

        Args:
            timeout: seconds; negative: without limit.

        Returns:
            the number of records without an outcome; 0: there are none.
        """
        await self._ready()
        left = deadline_seconds(timeout)
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                with translating():
                    await self._core.engine.flush(None)
            return 0
        return len(self)

    async def purge(
        self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True
    ) -> None:
        """Drop records: their futures get ``_PURGE_QUEUE`` or ``_PURGE_INFLIGHT``."""
        await self._ready()
        with translating():
            self._pump.purge(in_queue=bool(in_queue), in_flight=bool(in_flight))

    async def close(self) -> None:
        """Flush, without limit, and end the producer; a second call does nothing.

        If the producer could not start, another call has raised the error. If the call is
        cancelled, the producer continues: close it again.

        Raises:
            KafkaException: the producer is broken; it has ended.
        """
        if self._closed:
            return
        try:
            if await self._has_started():
                await self.flush()
        except KafkaException:
            await self._end()
            raise
        await self._end()

    async def _end(self) -> None:
        self._closed = True
        try:
            with suppress(ProducerError):
                await self._core.close(0)
        finally:
            if self._lines is not None:
                self._lines.close()

    async def _has_started(self) -> bool:
        started = self._started
        if started is not None:
            await asyncio.wait([started])
        return started is None or started.exception() is None

    # --- the cluster ---------------------------------------------------------------------------

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Ask a broker about the cluster: see :meth:`Producer.list_topics`."""
        await self._ready()
        with translating():
            described = await describe(
                self._core.engine.queries,
                None if topic is None else name(topic),
                deadline_seconds(timeout),
            )
        return cluster_metadata(described)

    async def cluster_id(self, timeout: float = -1) -> str | None:
        """The id of the cluster."""
        return (await self.list_topics(timeout=timeout)).cluster_id

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        """Log in with these from now on: see :meth:`Producer.set_sasl_credentials`."""
        secret = hidden(password)
        del password  # a traceback shows the values of this frame
        if not isinstance(username, str) or not isinstance(secret, Secret):
            raise TypeError("username and password must be str")
        self._settings.credentials.replace(username, secret)

    # --- transactions --------------------------------------------------------------------------

    async def init_transactions(self, timeout: float = -1) -> None:
        """Get a producer id: see :meth:`Producer.init_transactions`, which lists the errors."""
        left = self._seconds(timeout)
        await self._transactional(lambda api: api.initialize(left))

    async def begin_transaction(self) -> None:
        """Flush, and begin a transaction."""
        await self.flush()
        await self._transactional(lambda api: api.begin(shared=False))

    async def send_offsets_to_transaction(
        self, positions: list[Any], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Commit offsets with the transaction: see :meth:`Producer.send_offsets_to_transaction`."""
        group, offsets = group_of(group_metadata), offsets_of(positions)
        left = self._seconds(timeout)
        await self._transactional(
            lambda api: api.send_offsets(checked_offsets(offsets), checked_group(group), left)
        )

    async def commit_transaction(self, timeout: float = -1) -> None:
        """Flush and commit the transaction, both within ``timeout`` seconds."""
        left = self._seconds(timeout)
        deadline = self._loop.time() + left
        if waiting := await self.flush(left):
            raise not_flushed(waiting)
        await self._transactional(lambda api: api.commit(max(0.0, deadline - self._loop.time())))

    async def abort_transaction(self, timeout: float = -1) -> None:
        """Drop the records that were not sent, and abort the transaction."""
        left = self._seconds(timeout)
        await self._transactional(lambda api: api.abort(left))

    def _seconds(self, timeout: float) -> float:
        left = deadline_seconds(timeout)
        return self._default if left is None else left

    async def _transactional(
        self, call: Callable[[TransactionApi], Coroutine[Any, Any, None]]
    ) -> None:
        await self._ready()
        if self._settings.config.transactional_id is None:
            raise not_configured()
        with translating():
            await call(self._core.transactions)
