"""The way of records from ``produce()`` into batches, and the thread of their event loop.

It is the blocking producer's (:mod:`aioproducer.sync.inbox`, :mod:`aioproducer.sync.pump`), but no
thread waits, because ``produce()`` counts records and refuses them by itself. An
:class:`AIOProducer` has no thread: its records are pumped on its own event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from aioproducer.compat.confluent.cluster_metadata import describe
from aioproducer.compat.confluent.errors import (
    PurgedError,
    PurgedInFlightError,
    QueueFullError,
    UnknownTopicError,
)
from aioproducer.compat.confluent.options import Settings
from aioproducer.compat.confluent.partitions import UNASSIGNED
from aioproducer.compat.confluent.records import EVERY_THREAD, Outbox
from aioproducer.compat.confluent.watch import LogLines, start
from aioproducer.engine.accumulator import PendingQueue, PendingRecord, SerializedRecord
from aioproducer.engine.client.arguments import checked_topic
from aioproducer.engine.client.requests import ClusterDescription
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.records.routes import ENTRY
from aioproducer.errors import (
    BootstrapError,
    InvalidPartitionError,
    MetadataTimeoutError,
    ProducerError,
    UnknownTopicOrPartitionError,
)
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import counted, plain_logger
from aioproducer.foundation.runtime.tasks import new_visible_task
from aioproducer.sync.inbox import Chunk, Inbox, Marker
from aioproducer.sync.loop_thread import LoopThread
from aioproducer.sync.pump import Pump

__all__ = [
    "Intake",
    "RecordPump",
    "Worker",
]


_FIELDS: Final = 9
"""The fields of a record in the :class:`Intake`."""
_LEAST_WAIT: Final = 0.1
"""Seconds for an answer about a topic, whatever ``topic.metadata.propagation.max.ms`` is."""


class Intake(Inbox):
    """Records of all threads, in the order of their ``produce()``.

    Each has the partition that its caller named, or :data:`UNASSIGNED`, in the place of its size.
    """

    def __init__(self, outbox: Outbox) -> None:
        super().__init__(0)
        self._outbox = outbox
        self._marked = False

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


class RecordPump(Pump):
    """Moves records into batches, or lets them wait."""

    def __init__(
        self, core: ProducerCore, intake: Intake, settings: Settings, outbox: Outbox
    ) -> None:
        super().__init__(core, intake)
        self._settings = settings
        self._outbox = outbox
        self._followed: set[str] = set()
        """The topics with a task of :meth:`_follow`."""
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
        """Fail records that wait, and records on their way."""
        queued = PurgedError("purge() removed the record") if in_queue else None
        sent = PurgedInFlightError("purge() abandoned the record") if in_flight else None
        self._core.engine.purge(queued, sent)
        self._outbox.publish()

    def _put(self, chunk: Chunk, most: int) -> None:
        """Put records into batches, or let them wait; nobody waits for room."""
        routes, entries = self._core.routes, chunk.entries
        end = min(len(chunk), chunk.passed + most)
        while chunk.passed < end:
            chunk.passed += routes.append_entries(entries, chunk.passed, end)
            if chunk.passed < end:
                first = chunk.passed * ENTRY
                chunk.passed += 1
                self.put(tuple(entries[first : first + _FIELDS]), EVERY_THREAD)
        self._flush()

    def put(self, entry: tuple[Any, ...], caller: object) -> None:
        """Put a record into a batch, or let it wait.

        ``caller``: None: the present task, which waits for room. Others have counted their records.
        """
        record, topic, value, key, partition, headers, timestamp, sent_ns, named = entry
        chosen = named == UNASSIGNED and partition is not None
        try:
            engine = self._core.engine
            if engine.transactions is not None:
                engine.transactions.check_open()
            accumulator, now = engine.accumulator, engine.clock()
            pending = accumulator.pending
            if not accumulator.knows(topic):
                checked_topic(topic)
            if chosen:
                partition = accumulator.choose_partition(topic, key, value)
            serialized = SerializedRecord(
                topic,
                partition,
                sent_ns // 1_000_000 if timestamp is None else timestamp,
                key,
                value,
                headers or (),
                record,
                sent_ns=sent_ns,
                by_partitioner=chosen,
            )
            if accumulator.append(serialized, now) is not None:
                return
            if caller is None:
                self._check_room(topic, pending)
            engine.pipeline.enqueue(serialized, now, caller, over_capacity=True)
            if topic in pending.awaiting_metadata and topic not in self._followed:
                self._followed.add(topic)
                engine.tasks.start(self._follow(topic), f"confluent-topic-{topic}")
        except Exception as error:
            record.set_exception(error)
            self._core.record_failed(error)

    def _check_room(self, topic: str, pending: PendingQueue) -> None:
        settings = self._settings
        if len(pending) >= settings.max_messages or pending.size >= settings.max_bytes:
            raise QueueFullError(f"{topic}: {counted(len(pending), 'record')} wait already")

    async def _follow(self, topic: str) -> None:
        """Fail the records of a topic that does not exist, and those for partitions it lacks."""
        engine = self._core.engine
        pending = engine.accumulator.pending
        waiting = pending.awaiting_metadata
        seconds = max(self._settings.unknown_topic_seconds, _LEAST_WAIT)
        try:
            while topic in waiting:
                try:
                    known = await engine.queries.topic(topic, seconds)
                except (MetadataTimeoutError, BootstrapError) as late:
                    said = engine.metadata.errors.get(topic)
                    if isinstance(said, UnknownTopicOrPartitionError):  # else nobody has told
                        await self._refuse(waiting.of(topic), UnknownTopicError(str(late)))
                except ProducerError:
                    return  # the engine fails the records as well
                else:
                    self._refuse_lost(pending, topic, len(known.partitions))
                    return
        finally:
            self._followed.discard(topic)

    async def _refuse(self, records: Sequence[PendingRecord], error: ProducerError) -> None:
        """Fail those of ``records`` whose topic stays unknown, in several turns."""
        pending = self._core.engine.accumulator.pending
        for first in range(0, len(records), tuning.RECORDS_PER_SLICE):
            some = records[first : first + tuning.RECORDS_PER_SLICE]
            pending.refuse([each for each in some if each.awaits_metadata], error)
            await asyncio.sleep(0)

    def _refuse_lost(self, pending: PendingQueue, topic: str, count: int) -> None:
        """Fail the records for partitions that ``topic`` lacks, which has ``count``."""
        for each in pending.awaiting_metadata.of(topic):
            if each.partition is not None and not 0 <= each.partition < count:
                said = f"partition {each.partition} does not exist, the topic has {count}"
                pending.refuse([each], InvalidPartitionError(f"{topic}: {said}"))


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

    def describe(self, topic: str | None, timeout: float | None) -> ClusterDescription:
        """The cluster with one topic, or with all: see :func:`describe`."""
        return self.ask(lambda: describe(self.core.engine.queries, topic, timeout))
