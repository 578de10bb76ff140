"""The way of records from ``produce()`` into batches, and the thread of their event loop.

It is the blocking producer's (:mod:`aioproducer.sync.inbox`, :mod:`aioproducer.sync.pump`), but for
two things: no thread waits, because ``produce()`` counts records and refuses them by itself; and a
record for a topic that is not known yet waits here, because its partition is chosen as librdkafka
does. An :class:`AIOProducer` has no thread: its records are pumped on its own event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any, Final

from aioproducer.compat.confluent.cluster_metadata import describe
from aioproducer.compat.confluent.errors import (
    PurgedError,
    PurgedInFlightError,
    QueueFullError,
    UnknownTopicError,
)
from aioproducer.compat.confluent.options import Settings
from aioproducer.compat.confluent.partitions import LATER
from aioproducer.compat.confluent.records import EVERY_THREAD, Message, Outbox
from aioproducer.compat.confluent.watch import LogLines, start
from aioproducer.engine.accumulator import SerializedRecord
from aioproducer.engine.client.requests import ClusterDescription
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.errors import (
    AuthenticationError,
    BootstrapError,
    DeliveryTimeoutError,
    InvalidPartitionError,
    MetadataTimeoutError,
    ProducerError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from aioproducer.foundation.logs import counted, plain_logger
from aioproducer.foundation.runtime.tasks import new_visible_task
from aioproducer.sync.inbox import Chunk, Entry, Inbox, Marker
from aioproducer.sync.loop_thread import LoopThread
from aioproducer.sync.pump import Pump

__all__ = [
    "Intake",
    "RecordPump",
    "Worker",
]


_BETWEEN_LOGINS: Final = 0.1
"""Seconds between two looks at brokers that refuse the login."""


class Intake(Inbox):
    """Records of all threads, in the order of their ``produce()``."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__(0)
        self._outbox = outbox
        self._marked = False

    def add(self, entry: Entry) -> None:
        """Put a record at the end; there is always room."""
        entry_of_thread = (*entry, 0, EVERY_THREAD)  # first: see Inbox.entries
        self.entries += entry_of_thread

    def mark(self, marker: Marker) -> None:
        """Put ``marker`` at the end."""
        super().mark(marker)
        self._marked = True

    def take(self) -> deque[Chunk | Marker]:
        """Take everything, as one chunk unless there are markers."""
        self._outbox.is_asleep = True  # before the look: a record that comes now wakes the loop
        if self._marked:
            self._marked = False
            return super().take()
        self.takes += 1
        if not self.entries:
            return deque()
        return deque((Chunk(EVERY_THREAD, self._take_entries()),))


class _Waiting(deque[tuple[Entry, float]]):
    """The records that wait for a topic, in their order, each with the time when it came."""

    task: asyncio.Future[Any]
    """Done once none of them waits any more."""


class RecordPump(Pump):
    """Moves records into batches; those of unknown topics wait here until they are late."""

    def __init__(
        self, core: ProducerCore, intake: Intake, settings: Settings, outbox: Outbox
    ) -> None:
        super().__init__(core, intake)
        self._settings = settings
        self._outbox = outbox
        self._choose = settings.choice
        self._begins = settings.config.transactional_id is None
        """True: a batch begins on a short way. In a transaction the long way checks for each batch
        that no record has failed."""
        self._timeout = settings.config.delivery_timeout_ms / 1000
        self._topics: dict[str, _Waiting] = {}
        """The records that wait for their topic."""
        self.waiting = 0
        """The number of them."""
        self._waiting_bytes = 0
        """The bytes of their keys and values."""
        self._in_a_hurry = 0
        """The number of callers that flush."""

    def hurry(self, more: int) -> None:
        """Let no batch linger while at least one caller flushes; ``more``: 1, or -1."""
        self._in_a_hurry += more
        with suppress(ProducerError):  # it has ended, and fails all records
            self._flush()

    def _flush(self) -> None:
        if self._in_a_hurry > 0:
            flushed = asyncio.get_running_loop().create_future()
            flushed.add_done_callback(_read)
            self._core.engine.accumulator.flush(flushed)

    def purge(self, *, in_queue: bool, in_flight: bool) -> None:
        """Fail records that wait, here and in batches, and records on their way."""
        queued = PurgedError("purge() removed the record") if in_queue else None
        sent = PurgedInFlightError("purge() abandoned the record") if in_flight else None
        if queued is not None:
            self.discard(queued)
        self._core.engine.purge(queued, sent)
        self._outbox.publish()

    def awaits(self, topic: str) -> bool:
        """True if records wait for ``topic``, so that later ones have to wait as well."""
        return topic in self._topics

    def put(self, entry: Entry) -> None:
        """Put a record of the event loop's own thread into a batch, or let it wait."""
        if entry[1] in self._topics and self._core.engine.accumulator.knows(entry[1]):
            self._release(entry[1])
        self._put_one(entry, EVERY_THREAD)

    async def topics_known(self) -> None:
        """Wait until no record waits for its topic."""
        while self._topics:
            await asyncio.wait([each.task for each in self._topics.values()])

    def discard(self, error: ProducerError | None = None) -> None:
        """Fail the records that wait for their topics; None: their transaction is aborted."""
        error = error or TransactionAbortedError("the transaction was aborted")
        waiting, self._topics = self._topics, {}
        for entry, _ in self._taken(waiting.values()):
            entry[0].set_exception(error)
            self._core.record_failed(error)

    def rest(self) -> Iterator[Entry | Marker]:
        """Take everything that remains, at the end."""
        waiting, self._topics = self._topics, {}
        for entry, _ in self._taken(waiting.values()):
            yield entry
        yield from super().rest()

    def _put(self, chunk: Chunk, most: int) -> None:
        """Put records into batches, or let them wait; nobody waits for room."""
        for topic in [each for each in self._topics if self._core.engine.accumulator.knows(each)]:
            self._release(topic)
        routes, entries = self._core.routes, chunk.entries
        end = min(len(chunk), chunk.passed + most)
        while chunk.passed < end:
            chunk.passed += routes.append_entries(entries, chunk.passed, end)
            if chunk.passed < end:
                chunk.passed += 1
                self._put_one(chunk.entry(chunk.passed - 1), chunk.thread)
        self._flush()

    def _put_one(self, entry: Entry, thread: Thread, sent: float | None = None) -> None:
        """Put a record into a batch, or let it wait; ``sent``: when it came, if it has waited."""
        record, topic, value, key, partition, headers, timestamp, sent_ns = entry
        accumulator, pipeline = self._core.engine.accumulator, self._core.pipeline
        try:
            if topic in self._topics or not accumulator.knows(topic):
                self._await_topic(entry)
                return
            count = len(self._core.routes.topics[topic].partitions)
            if partition == LATER:
                partition = self._choose(key, count)
                if partition is not None and isinstance(record, Message):
                    record._partition = partition
            elif partition is not None and partition >= count:
                raise InvalidPartitionError(
                    f"{topic}: partition {partition} does not exist, the topic has {count}"
                )
            if self._begins and headers is None and sent is None:
                now_ms = sent_ns // 1_000_000 if timestamp is None else timestamp
                now = self._core.engine.clock()
                serialized = SerializedRecord(
                    topic, partition, now_ms, key, value, (), record, sent_ns=sent_ns
                )
                if accumulator.append(serialized, now) is None:
                    pipeline.enqueue(serialized, now, thread, over_capacity=True)
                return
            pipeline.put(
                (topic, value, key, partition, headers, timestamp),
                record,
                over_capacity=True,
                caller=thread,
                sent_ns=sent_ns,
                sent=sent,
            )
        except Exception as error:
            record.set_exception(error)
            self._core.record_failed(error)

    # --- unknown topics ------------------------------------------------------------------------

    def _await_topic(self, entry: Entry) -> None:
        topic, size = entry[1], _size(entry)
        most, most_bytes = self._settings.max_messages, self._settings.max_bytes
        if self.waiting >= most or self._waiting_bytes + size > most_bytes:
            raise QueueFullError(f"{topic}: too many records wait for unknown topics already")
        waiting = self._topics.get(topic)
        if waiting is None:
            waiting = self._topics[topic] = _Waiting()
            waiting.task = asyncio.get_running_loop().create_future()
            self._core.engine.tasks.start(self._follow(topic, waiting), f"confluent-topic-{topic}")
        waiting.append((entry, self._core.engine.clock()))
        self.waiting += 1
        self._waiting_bytes += size

    async def _follow(self, topic: str, waiting: _Waiting) -> None:
        try:
            await self._until_known(topic, waiting)
        finally:
            waiting.task.set_result(None)

    async def _until_known(self, topic: str, waiting: _Waiting) -> None:
        """Wait for the metadata of ``topic``, and fail the records that are late meanwhile."""
        engine = self._core.engine
        unknown_since = engine.clock()
        while self._topics.get(topic) is waiting and waiting:
            first_late = waiting[0][1] + self._timeout
            decided = unknown_since + self._settings.unknown_topic_seconds
            left = max(0.0, min(first_late, decided) - engine.clock())
            try:
                if self._settings.offline:
                    await asyncio.sleep(left)
                    raise MetadataTimeoutError("bootstrap.servers is not set")
                await engine.queries.topic(topic, left)
            except AuthenticationError as error:  # the next login may have other credentials
                await asyncio.sleep(min(left, _BETWEEN_LOGINS))
                unknown_since = engine.clock()
                self._fail_late(topic, waiting, error)
            except ProducerError as error:
                if not isinstance(error, MetadataTimeoutError | BootstrapError):
                    self._fail_waiting(topic, waiting, error)
                    return
                said = engine.metadata.errors.get(topic)
                if engine.clock() >= decided:
                    if isinstance(said, UnknownTopicOrPartitionError):
                        self._fail_waiting(topic, waiting, UnknownTopicError(str(error)))
                        return
                    unknown_since = engine.clock()  # nobody has told whether it exists
                self._fail_late(topic, waiting, error)
            else:
                if self._topics.get(topic) is waiting:
                    self._release(topic)
                return
        if self._topics.get(topic) is waiting:
            del self._topics[topic]

    def _release(self, topic: str) -> None:
        """Put the records of a topic that is known now into batches."""
        for entry, sent in self._taken([self._topics.pop(topic)]):
            self._put_one(entry, EVERY_THREAD, sent)
        self._flush()

    def _fail_waiting(self, topic: str, waiting: _Waiting, error: ProducerError) -> None:
        if self._topics.get(topic) is waiting:
            del self._topics[topic]
        for entry, _ in self._taken([waiting]):
            entry[0].set_exception(error)
            self._core.record_failed(error)

    def _fail_late(self, topic: str, waiting: _Waiting, cause: ProducerError) -> None:
        now, error = self._core.engine.clock(), DeliveryTimeoutError(f"{topic}: {cause}")
        while waiting and waiting[0][1] + self._timeout <= now:
            entry, _ = self._take(waiting)
            entry[0].set_exception(error)
            self._core.record_failed(error)

    def _taken(self, queues: Iterable[_Waiting]) -> Iterator[tuple[Entry, float]]:
        """The records, each of which waits no more: whoever still has the queue finds it empty."""
        for waiting in queues:
            while waiting:
                yield self._take(waiting)

    def _take(self, waiting: _Waiting) -> tuple[Entry, float]:
        first = waiting.popleft()
        self.waiting -= 1
        self._waiting_bytes -= _size(first[0])
        return first


def _size(entry: Entry) -> int:
    """The bytes of key and value."""
    _, _, value, key, *_ = entry
    return len(value or b"") + len(key or b"")


def _read(flushed: asyncio.Future[Any]) -> None:
    """Read the error of a producer that has ended, which its records have as well."""
    if not flushed.cancelled():
        flushed.exception()


logger = plain_logger("aioproducer.compat.confluent")


class Worker(LoopThread):
    """Runs the event loop of one producer; it knows no :class:`Producer`, so that one can be
    collected."""

    def __init__(self, settings: Settings, outbox: Outbox) -> None:
        self.core = ProducerCore(settings.config, None)
        self.intake = Intake(outbox)
        self.pump = RecordPump(self.core, self.intake, settings, outbox)
        self._outbox = outbox
        self._settings = settings
        self._lines: LogLines | None = None
        if settings.logger is not None:
            self._lines = LogLines(settings.logger, outbox, self.core.client_id)
        super().__init__(self.core, self.intake, self.pump)

    def start(self, *, close_at_exit: bool) -> None:
        """Start the thread, and let ``produce()`` take records."""
        if self._lines is not None:
            self._lines.begin()
        super().start(close_at_exit=close_at_exit)
        self._outbox.takes_records = self.writer.is_open

    def _end(self, error: ProducerError, undelivered: int) -> None:
        super()._end(error, undelivered)
        if self._lines is not None:
            self._lines.close()
        self._outbox.publish()

    def purge(self, *, in_queue: bool, in_flight: bool, waits: bool) -> None:
        """Give up records that wait, or those on their way."""

        async def purge() -> None:
            await self.catch_up()
            self.pump.purge(in_queue=in_queue, in_flight=in_flight)

        if waits:
            self.ask(purge)
        else:
            self._check(waits=False)
            self.call_soon(lambda: new_visible_task(purge(), "confluent-purge"))

    def _shut(self) -> None:
        super()._shut()
        self._outbox.takes_records = False

    def _close_at_exit(self) -> None:
        if self.forked:
            return
        if left := len(self._outbox):
            logger.warning(
                "%s: the process ends with %s without an outcome; call flush() first",
                self.core.client_id,
                counted(left, "record"),
            )
        self.close(0)

    async def _serve(self) -> None:
        self._outbox.soon = asyncio.get_running_loop().call_soon
        await super()._serve()

    async def _start_core(self) -> None:
        await start(self.core, self._settings, self._outbox)

    def describe(
        self, topic: str | None, timeout: float | None, *, offline: bool
    ) -> ClusterDescription:
        """The cluster with one topic, or with all: see :func:`describe`."""
        return self.ask(lambda: describe(self.core.engine.queries, topic, timeout, offline=offline))
