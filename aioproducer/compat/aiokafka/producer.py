"""aiokafka's ``AIOKafkaProducer``: its methods over the core of a producer."""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Self, Unpack

from aioproducer.client.environment import SYSTEM
from aioproducer.cluster.snapshot import TopicInfo
from aioproducer.compat.aiokafka import options
from aioproducer.compat.aiokafka.batch_builder import BatchBuilder
from aioproducer.compat.aiokafka.errors import NoFieldsError, translated, translating
from aioproducer.compat.aiokafka.results import BatchToken, RecordFuture, UnacknowledgedFuture
from aioproducer.core.arguments import checked_group, checked_offsets
from aioproducer.core.check import check
from aioproducer.core.producer_core import ProducerCore
from aioproducer.errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidPartitionError,
    ProducerError,
    SerializationError,
)
from aioproducer.model import Header

_BYTES = (bytes, bytearray, memoryview)


class AIOKafkaProducer:
    """Sends records to Kafka, with the interface of aiokafka's producer."""

    __signature__ = options.signature()
    _closed: bool | None = None  # None: in the making, for __del__
    _source_traceback: Any = None

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        **keywords: Unpack[options.AIOKafkaOptions],
    ) -> None:
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
        self._core = ProducerCore(self._config, None, SYSTEM)
        self._future = UnacknowledgedFuture if given.effective_acks == "0" else RecordFuture
        self._key_serializer = given.key_serializer
        self._value_serializer = given.value_serializer
        self._partitioner = given.partitioner
        self._loop = _running_loop() if loop is None else loop
        if self._loop is not None and self._loop.get_debug():
            self._source_traceback = traceback.extract_stack(sys._getframe(1))
        self._closed = False

    def __repr__(self) -> str:
        return f"<AIOKafkaProducer {self._config.client_id!r}>"

    def __del__(self, _warnings: Any = warnings) -> None:
        if self._closed is not False:
            return
        _warnings.warn(f"Unclosed AIOKafkaProducer {self!r}", ResourceWarning, source=self)
        if self._loop is not None and not self._loop.is_closed():
            context = {"producer": self, "message": "Unclosed AIOKafkaProducer"}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            self._loop.call_exception_handler(context)

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster. After an error it may be called again."""
        self._loop = asyncio.get_running_loop()
        core = self._core
        try:
            await core.start()
            await check(core.engine.queries, (), None, self._timeout)
        except BaseException as error:
            if isinstance(error, IllegalStateError):  # started before
                raise translated(error) from None
            self._core = ProducerCore(self._config, None, SYSTEM)
            await core.close(0)
            if isinstance(error, ProducerError):
                raise translated(error) from error.__cause__
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
        """Wait until every record sent before has its outcome."""
        with translating():
            await self._core.flush(None)

    async def partitions_for(self, topic: str) -> set[int]:
        """The numbers of the topic's partitions."""
        with translating():
            return set(await self._core.partitions_for(topic))

    # --- sending ---------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[Header] | None = None,
    ) -> asyncio.Future[Any]:
        """Put a record into memory, once there is room; the future gets its outcome."""
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
        timestamp_ms: int | None = None,
        headers: Iterable[Header] | None = None,
    ) -> Any:
        """Send a record, and wait for its outcome."""
        future = self._send_at_once(topic, value, key, partition, timestamp_ms, headers)
        if future is None:
            future = await self._send(topic, value, key, partition, timestamp_ms, headers)
        return await future

    def _send_at_once(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Iterable[Header] | None,
    ) -> asyncio.Future[Any] | None:
        """The future of a record that needs no step but the fast path; None: it goes on."""
        core = self._core
        if (
            headers
            or timestamp_ms is not None
            or self._key_serializer is not None
            or self._value_serializer is not None
            or (self._partitioner is not None and partition is None)
            or core.tracing is not None
            or core.back_pressure.is_full
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
            or (value is None and key is None)
        ):
            return None
        future = self._future(loop=self._loop)
        if not core.fast_path.append(future, topic, value, key, partition):
            return None
        core.routes.taken += 1
        return future

    async def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Iterable[Header] | None,
    ) -> asyncio.Future[Any]:
        if value is None and key is None:
            raise NoFieldsError("Need at least one: key or value")
        core = self._core
        with translating():
            core.check_usable()
            info = await self._topic(topic)
            key, value = self._serialized(key, value)
            pairs = None if headers is None else list(headers)
            partition = self._partition(info, partition, key)
            await self._wait_for_room()
            future = self._future(loop=self._loop)
            core.send((topic, value, key, partition, pairs, timestamp_ms), future)
        return future

    async def _topic(self, topic: str) -> TopicInfo:
        return await self._core.engine.queries.topic(topic, self._timeout)

    async def _wait_for_room(self) -> None:
        core = self._core
        if not (core.back_pressure.is_full and core.back_pressure.must_wait()):
            return
        try:
            async with asyncio.timeout(self._timeout):
                await core.wait_for_room()
        except TimeoutError as error:
            if isinstance(error, ProducerError):
                raise
            raise BufferExhaustedError(
                f"no memory for the record within {self._timeout:g} s (request_timeout_ms): the "
                "brokers take records more slowly than they are sent"
            ) from None

    def _serialized(self, key: Any, value: Any) -> tuple[Any, Any]:
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        for name, field in (("key", key), ("value", value)):
            if field is not None and not isinstance(field, _BYTES):
                raise SerializationError(f"Not supported type for {name}: {type(field)}")
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
        """An empty batch, for :meth:`send_batch`."""
        return BatchBuilder(
            self._options.max_batch_size, self._key_serializer, self._value_serializer
        )

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[Any]:
        """Send the records of ``batch``; the future gets the metadata of the first one."""
        core = self._core
        with translating():
            core.check_usable()
            chosen = self._partition(await self._topic(topic), partition, None)
            await self._wait_for_room()
            batch.close()
            future: asyncio.Future[Any] = self._future(loop=self._loop)
            token = BatchToken(future, batch.record_count())
            for key, value, headers, timestamp_ms in batch.records():
                fields = (topic, value, key, chosen, headers or None, timestamp_ms)
                core.put(fields, token, over_capacity=True)
        return future

    # --- transactions ----------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        """Open a transaction."""
        with translating():
            await self._core.transactions.begin(shared=False)

    async def commit_transaction(self) -> None:
        """Deliver the records of the transaction, and commit it."""
        with translating():
            await self._core.transactions.commit(None)

    async def abort_transaction(self) -> None:
        """Drop the unsent records of the transaction, and abort it."""
        with translating():
            await self._core.transactions.abort(None)

    def transaction(self) -> TransactionContext:
        """A transaction that is committed at the end of its block, or aborted by an error."""
        return TransactionContext(self)

    async def send_offsets_to_transaction(self, offsets: Mapping[Any, Any], group_id: str) -> None:
        """Write consumed offsets with the transaction."""
        if not isinstance(group_id, str) or not group_id:
            raise InvalidOffsetError(f"group_id is the name of a consumer group, not {group_id!r}")
        if not offsets or not isinstance(offsets, dict):
            raise InvalidOffsetError(
                f"offsets are a dict of TopicPartition to offset, not {offsets!r}"
            )
        with translating():
            await self._core.transactions.send_offsets(
                checked_offsets(offsets), checked_group(group_id), None
            )


class TransactionContext:
    """The block of one transaction."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._producer.commit_transaction()
        else:
            await self._producer.abort_transaction()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
