"""aiokafka's ``AIOKafkaProducer``, implemented by aioproducer."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Self, Unpack

from aioproducer.compat.aiokafka import options
from aioproducer.compat.aiokafka.batch_builder import (
    BatchBuilder,
    bytes_of,
    check_bytes,
    check_records,
    send_encoded,
    whole,
)
from aioproducer.compat.aiokafka.client import AIOKafkaClient, LoopBound
from aioproducer.compat.aiokafka.errors import NoFieldsError, translating
from aioproducer.compat.aiokafka.results import RecordFuture, UnacknowledgedFuture
from aioproducer.engine.client.environment import current_environment
from aioproducer.engine.cluster.snapshot import TopicInfo
from aioproducer.engine.core.arguments import checked_group, checked_offsets, checked_topic
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.queries import ClusterQueries
from aioproducer.engine.records.acceleration import hide
from aioproducer.errors import (
    BufferExhaustedError,
    InvalidOffsetError,
    InvalidPartitionError,
    MetadataTimeoutError,
    NetworkError,
    ProducerClosedError,
    ProducerError,
)
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import Header
from aioproducer.serialization.serializer import checked_headers


class TransactionContext:
    """Begins a transaction, commits it at the end, and aborts it after any exception."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._make = make
        self._block: AbstractAsyncContextManager[None]

    async def __aenter__(self) -> Self:
        with translating():
            self._block = self._make()
            await self._block.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        with translating():
            await self._block.__aexit__(kind, error, frames)


_NO_FIELDS: Final = "Need at least one: key or value"


class AIOKafkaProducer(LoopBound):
    """Sends records to Kafka, with the interface of aiokafka's producer."""

    __signature__ = options.signature(options.Options)
    _name = "AIOKafkaProducer"

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        **keywords: Unpack[options.AIOKafkaOptions],
    ) -> None:
        options.hide_keywords(keywords)
        self._options = given = options.Options(**keywords)
        if loop is not None:
            warnings.warn(
                "loop has no effect: a producer belongs to the event loop that starts it",
                DeprecationWarning,
                stacklevel=2,
            )
        given.check()
        self._config = given.config()
        self._timeout = given.request_timeout_ms / 1000
        self._core = ProducerCore(self._config, None)
        self._future = UnacknowledgedFuture if given.effective_acks == "0" else RecordFuture
        self._key_serializer = given.key_serializer
        self._value_serializer = given.value_serializer
        self._serializes = not (given.key_serializer is None and given.value_serializer is None)
        self._partitioner = given.partitioner
        self._random = current_environment().random()
        self._bind(loop)
        self._closed = False

    @cached_property
    def client(self) -> AIOKafkaClient:
        """Information about the cluster, for applications."""
        this = weakref.ref(self)  # a task of the client keeps no producer that nobody closed

        def queries() -> ClusterQueries:
            producer = this()
            if producer is None:
                raise ProducerClosedError("the producer of this client is gone")
            return producer._core.engine.queries

        return AIOKafkaClient(queries, self._config.bootstrap_servers, self._timeout)

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster. A transactional producer gets its epoch.

        After an error you can call this again.

        Raises:
            KafkaConnectionError: none of the bootstrap servers responded.
        """
        self._loop = asyncio.get_running_loop()
        core = self._core
        with translating():
            await core.start(initialize=False)
            try:
                await self.client.bootstrap()
                core.engine.tasks.start(
                    self.client.follow(self._config.metadata_max_age_ms / 1000), "aiokafka-client"
                )
                if self._config.transactional_id is not None:
                    await core.transactions.initialize(None)
            except BaseException:
                self._core = ProducerCore(self._config, None)
                await core.close(0)
                raise

    async def stop(self) -> None:
        """Deliver the buffered records, and close all connections."""
        if self._closed:
            return
        self._closed = True
        with translating():
            await self._core.close(None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed."""
        if self._closed:
            await self._core.close(None)  # has no more records, or waits for the call in progress
            return
        with translating():
            await self._core.engine.flush(None)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of the topic's partitions."""
        with translating():
            return {each.partition for each in (await self._topic(topic)).partitions}

    # --- sending ---------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Iterable[Header] | None = None,
    ) -> asyncio.Future[Any]:
        """Buffer a record for sending, and return a future for its outcome.

        The call waits for the topic's metadata and for memory. If it is cancelled, the record is
        not sent. Cancelling the future does not withdraw a record that is in a batch.
        """
        if self._serializes:
            key, value = self._serialized(key, value)
        future = self._send_at_once(topic, value, key, partition, timestamp_ms, headers)
        if future is not None:
            return future
        return await self._send(topic, value, key, partition, timestamp_ms, headers)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Iterable[Header] | None = None,
    ) -> Any:
        """Send a record and wait for its outcome, aiokafka's ``RecordMetadata``.

        This calls :meth:`send`, which a subclass, a mock or a tracer may have replaced.
        """
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def _send_at_once(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: float | None,
        headers: Iterable[Header] | None,
    ) -> RecordFuture | None:
        """The future of a record that needs no step but the fast path; None: it goes on."""
        core = self._core
        if (
            (value.__class__ is not bytes and (value is not None or key is None))
            or (key.__class__ is not bytes and key is not None)
            or headers
            or timestamp_ms is not None
            or (self._partitioner is not None and partition is None)
            or core.back_pressure.is_full
            or core.tracing is not None
        ):
            return None
        future = self._future(loop=self._loop)
        hide(future)
        if not core.fast_path.append(future, topic, value, key, partition):
            return None
        return future

    async def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: float | None,
        headers: Iterable[Header] | None,
    ) -> RecordFuture:
        """Send a record of bytes, after a wait for metadata and memory where needed."""
        if value is None and key is None and not self._serializes:
            raise NoFieldsError(_NO_FIELDS)
        check_bytes(key, value)
        key, value = bytes_of(key), bytes_of(value)
        core = self._core
        with translating():
            given: Any = headers  # an iterable, as aiokafka takes it
            pairs = None if headers is None else checked_headers(given, topic)
            info = await self._topic(topic)
            partition = self._partition(info, partition, key)
            await self._wait_for_room()
            future = self._future(loop=self._loop)
            core.send((topic, value, key, partition, pairs, whole(timestamp_ms)), future)
        return future

    async def _topic(self, topic: str) -> TopicInfo:
        try:
            return await self._core.engine.queries.topic(checked_topic(topic), self._timeout)
        except NetworkError as error:
            raise MetadataTimeoutError(str(error)) from error

    async def _wait_for_room(self) -> None:
        core = self._core
        if not core.back_pressure.is_full:
            return
        try:
            async with PatientTimeout(self._timeout):
                await core.drain()
        except TimeoutError as error:
            if isinstance(error, ProducerError):
                raise
            raise BufferExhaustedError(
                f"no memory for the record within {duration(self._timeout)} (request_timeout_ms): "
                "the brokers take records more slowly than they are sent"
            ) from None

    def _serialized(self, key: Any, value: Any) -> tuple[Any, Any]:
        """The fields as bytes; serializers may make None of both."""
        if value is None and key is None:
            raise NoFieldsError(_NO_FIELDS)
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        return key, value

    def _partition(self, info: TopicInfo, partition: int | None, key: Any) -> int | None:
        """The named partition, or the one that the partitioner chooses; None: the core chooses."""
        if partition is None:
            if self._partitioner is None:
                return None
            numbers = list(range(len(info.partitions)))
            led = [each.partition for each in info.partitions if each.leader is not None]
            partition = self._partitioner(key, numbers, led)
        if type(partition) is not int or not 0 <= partition < len(info.partitions):
            raise InvalidPartitionError(
                f"Unrecognized partition: topic {info.name!r} has the partitions 0 to "
                f"{len(info.partitions) - 1}, not {partition!r}"
            )
        return partition

    # --- batches ---------------------------------------------------------------------------

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch for :meth:`send_batch`."""
        return BatchBuilder(
            self._options.max_batch_size, self._key_serializer, self._value_serializer
        )

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int | None
    ) -> asyncio.Future[Any]:
        """Close and send ``batch``. The future gets the metadata of its first record.

        ``partition`` None: the partitioner chooses for the whole batch, without a key; by default
        at random. The call waits like :meth:`send`.
        """
        core = self._core
        with translating():
            chosen = self._partition_of_batch(await self._topic(topic), partition)
            if self._config.transactional_id is not None:
                core.transactions.check_open()
            check_records(topic, batch.encoded, core.engine.accumulator.settings)
            await self._wait_for_room()
            batch.close()
            future = self._future(loop=self._loop)
            if batch.record_count():
                send_encoded(core, topic, chosen, batch.encoded, future)
            else:
                core.check_usable()
                future.set_nothing()
        return future

    def _partition_of_batch(self, info: TopicInfo, partition: int | None) -> int:
        """The named partition, or else one at random, whatever keys the records have."""
        chosen = self._partition(info, partition, None)
        if chosen is None:
            led = [each.partition for each in info.partitions if each.leader is not None]
            chosen = self._random.choice(led or range(len(info.partitions)))
        return chosen

    # --- transactions ----------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        """Open a transaction. Prefer :meth:`transaction`, which always ends it."""
        with translating():
            await self._core.transactions.begin(shared=False)

    async def commit_transaction(self) -> None:
        """Deliver the records of the transaction, and commit it.

        A cancelled commit continues in the background; a second call waits for it.
        """
        with translating():
            await self._core.transactions.commit(None)

    async def abort_transaction(self) -> None:
        """Drop the unsent records of the transaction, and abort it."""
        with translating():
            await self._core.transactions.abort(None)

    def transaction(self) -> TransactionContext:
        """Open a transaction that is committed at the end of its block, and aborted by an
        exception."""
        return TransactionContext(lambda: self._core.transactions.block(shared=False))

    async def send_offsets_to_transaction(self, offsets: Mapping[Any, Any], group_id: str) -> None:
        """Write consumed offsets in the transaction.

        ``offsets``: the next offset to read by ``TopicPartition``, an int or an
        ``OffsetAndMetadata``.
        """
        with translating():
            transactions = self._core.transactions
            transactions.check_open()
            if not offsets or not isinstance(offsets, dict):
                raise InvalidOffsetError(
                    f"offsets are a dict by TopicPartition that is not empty, not {offsets!r:.200}"
                )
            group = checked_group(group_id)
            await transactions.send_offsets(checked_offsets(offsets), group, None)
