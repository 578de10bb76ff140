"""The consumer that users hold."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from itertools import count
from typing import Any, Final, Self, Unpack, cast

from aioproducer.config import ProducerConfig, ProducerOptions, hidden_mapping, hide_secrets
from aioproducer.config.reader_options import READER_OPTIONS, ReaderKeywords, ReaderOptions
from aioproducer.consumer.classic import ClassicMember, MemberSettings
from aioproducer.consumer.coordinator import CoordinatorLink, patient_config
from aioproducer.consumer.options import CONSUMER_OPTIONS, ConsumerKeywords, ConsumerOptions
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.list_offsets import IsolationLevel
from aioproducer.engine.client.options import client_config
from aioproducer.engine.groups.assignors import PartitionCounts
from aioproducer.engine.groups.requests import Membership
from aioproducer.errors import (
    ClientBrokenError,
    ClientClosedError,
    ConfigError,
    IllegalStateError,
    OffsetOutOfRangeError,
    ProducerError,
    error_about,
)
from aioproducer.errors.codes import ErrorCode
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.foundation.wording import duration
from aioproducer.model import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aioproducer.reader.fetcher import Fetcher, FetchSettings
from aioproducer.reader.iteration import Records
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.positions import Position
from aioproducer.reader.record_source import RecordSource
from aioproducer.reader.start import find_offsets

logger = RoomLogger(__name__)

_NUMBERS: Final = count(1)
_CLOSE_SECONDS: Final = 5.0
"""Seconds for the last commit and the farewell, each."""


class _Arguments(ProducerOptions, ReaderKeywords, ConsumerKeywords):
    """The keywords of a Consumer."""


class Consumer:
    """Reads topics as a member of a group, which shares their partitions.

    ::

        async with Consumer("orders", group_id="billing", bootstrap_servers=...) as consumer:
            async for record in consumer:
                await handle(record)

    Asking for the next record acknowledges the last one. Acknowledged records are committed each
    second, before partitions go to another member, and on close. A record that was being worked on
    when the loop ended, by an exception or a cancellation, is read again by whoever goes on.

    Options are a producer's for connections and logins, as keywords or as a ``config`` that they
    override, a reader's for fetching (:class:`~aioproducer.config.ReaderOptions`; a group without
    an offset begins at the end of the log, unless ``auto_offset_reset="earliest"``), and those of
    :class:`~aioproducer.consumer.options.ConsumerOptions`. Source: Kafka's ``KafkaConsumer``.

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str,
        config: ProducerConfig | None = None,
        group_instance_id: str | None = None,
        **options: Unpack[_Arguments],
    ) -> None:
        given = cast("dict[str, Any]", options)
        own = {name: given.pop(name) for name in CONSUMER_OPTIONS.keys() & given.keys()}
        reading = {name: given.pop(name) for name in READER_OPTIONS.keys() & given.keys()}
        hide_secrets(given)
        self._options = ConsumerOptions(**own)
        self._reading = ReaderOptions(**{"auto_offset_reset": "latest", **reading})
        self._topics = _checked(topics, group_id, self._options)
        config = hidden_mapping(config)
        self.config: ProducerConfig = client_config(config, given, "Consumer")
        self.client_id: str = self.config.client_id or f"consumer-{next(_NUMBERS)}"
        self._client = ClusterClient(self.config, self.client_id, "Consumer")
        patient = patient_config(self.config, self._options.max_poll_interval_ms)
        self._link = CoordinatorLink(
            ClusterClient(patient, self.client_id, "Consumer"),
            self._client,
            group_id,
            self.config.request_timeout_ms / 1000,
        )
        self._member = ClassicMember(
            self._link,
            Membership(group_id, instance_id=group_instance_id),
            MemberSettings(
                self._topics,
                self._options.partition_assignment_strategy,
                self._options.session_timeout_ms,
                self._options.heartbeat_interval_ms,
                self._options.max_poll_interval_ms,
            ),
            self,
        )
        self._source: RecordSource | None = None
        self._work: ConsumerRecord | None = None
        """The record that the application works on."""
        self._acknowledged = asyncio.Event()
        """Set when the application has finished a record."""
        self._committed: dict[TopicPartition, int] = {}
        self._committing = asyncio.Lock()
        """Commits overtake each other else, and the older offset would count."""
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Consumer {getattr(self, 'client_id', 'that is being made')!r}>"

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to join the group; the first read waits until it has.

        Raises:
            IllegalStateError: the consumer was started before.
            BootstrapError: no name in ``bootstrap_servers`` could be resolved in time.
        """
        await self._client.start()
        try:
            await self._link.client.start()
        except BaseException:
            await self._client.close()
            raise
        settings = FetchSettings.of(self._reading, self.config)
        fetcher = Fetcher(self._client, (), Leaders(()), settings)
        limit = self._reading.max_batch_bytes
        self._source = RecordSource(self._client, fetcher, limit, "Consumer")
        self._client.start_task(fetcher.run(), "aioproducer-consumer")
        self._tasks = {new_task(self._run_member())}
        if self._options.auto_commit:
            self._tasks.add(new_task(self._commit_regularly()))

    @property
    def _timeout(self) -> float:
        return self.config.max_block_ms / 1000

    async def _run_member(self) -> None:
        """Be a member; an error that no retry can mend is raised by the next read."""
        try:
            await self._member.run()
        except Exception as error:
            logger.warning("%r has left its group: %s", self, error)
            self.lost()
            if isinstance(error, ProducerError):
                self._started().fetcher.fail(error)
                return
            broken = ClientBrokenError(f"the member died of {type(error).__name__}: {error}")
            broken.__cause__ = error
            self._started().fetcher.fail(broken)

    async def close(self) -> None:
        """Commit what was acknowledged, leave the group, and end every connection.

        Takes ten seconds at most, and about as long as two round trips usually.
        """
        if self._source is None:
            await self._client.close()
            await self._link.client.close()
            return
        if not self._client.has_ended:
            self._client.check_usable()  # not in another process, or on another loop
        self._closed = True
        for task in self._tasks:
            task.cancel()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
            if not self._link.client.has_ended:
                await self._say_farewell()
        finally:
            await self._link.client.close()
            await self._client.close()

    async def _say_farewell(self) -> None:
        if self._options.auto_commit:
            await self._at_the_end("commit", lambda: self._commit(self.owned, _CLOSE_SECONDS))
        await self._at_the_end("leave", lambda: self._member.leave(_CLOSE_SECONDS))

    async def _at_the_end(self, doing: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            async with PatientTimeout(_CLOSE_SECONDS):
                await step()
        except (ProducerError, TimeoutError) as error:
            why = str(error) or f"no answer within {duration(_CLOSE_SECONDS)}"
            logger.warning("%r could not %s at its end: %s", self, doing, why)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _started(self) -> RecordSource:
        if self._source is None:
            self._client.check_usable()
            raise IllegalStateError("the Consumer has not finished its start")
        return self._source

    # --- reading ---------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """The records, one by one.

        A record that another loop had in work when it ended comes again.
        """
        source = self._started()
        if (work := self._work) is not None:
            where = TopicPartition(work.topic, work.partition)
            self._work = None
            if where in source.fetcher.partitions:
                source.cursor.leave(where)
                source.fetcher.seek(where, work.offset)
        return _Acknowledging(self, source.records())

    def _finish(self) -> None:
        """The application has finished its record."""
        self._work = None
        self._acknowledged.set()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads now."""
        return frozenset(self._started().fetcher.partitions)

    # --- commits ---------------------------------------------------------------------------

    async def commit(self) -> None:
        """Acknowledge every record that was handed out, and commit.

        Raises the error of a partition; with a rebalance under way that is one of the group's.
        """
        self._client.check_usable()
        self._finish()
        await self._commit(self.owned, self._timeout)

    def _to_commit(self) -> dict[TopicPartition, int]:
        """The first unacknowledged offset of each partition, where it was not committed yet."""
        found = self._started().positions
        if self._work is not None:
            where = TopicPartition(self._work.topic, self._work.partition)
            if where in found:
                found[where] = self._work.offset
        return {where: at for where, at in found.items() if self._committed.get(where) != at}

    async def _commit(self, partitions: Collection[TopicPartition], timeout: float) -> None:
        async with self._committing:
            offsets = {where: at for where, at in self._to_commit().items() if where in partitions}
            if not offsets:
                return
            wanted = {where: OffsetAndMetadata(offset) for where, offset in offsets.items()}
            await self._link.commit(lambda: self._member.member, wanted, timeout)
            owned = self.owned
            self._committed.update((where, at) for where, at in offsets.items() if where in owned)

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._options.auto_commit_interval_ms / 1000)
            await self._commit_what_can_be(self.owned)

    async def _commit_what_can_be(self, partitions: Collection[TopicPartition]) -> None:
        try:
            await self._commit(partitions, self._timeout)
        except ProducerError as error:
            rebalance = getattr(error, "code", 0) == ErrorCode.REBALANCE_IN_PROGRESS
            logger.repeated(
                logging.DEBUG if rebalance else logging.WARNING,
                "commit",
                "%r could not commit: %s",
                self,
                error,
                error=error,
            )

    # --- the partitions, for the member ----------------------------------------------------

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that are read."""
        return tuple(self._started().fetcher.partitions)

    async def counts(self, topics: Iterable[str]) -> PartitionCounts:
        """The number of partitions of each topic that exists."""
        found = await self._client.describe(tuple(topics))
        for name, topic in found.topics.items():
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                logger.warning("Group %r: there is no topic %r", self._link.group_id, name)
            elif topic.error_code:
                raise error_about(f"topic {name!r}", topic.error_code)
        return {
            name: len(topic.partitions)
            for name, topic in found.topics.items()
            if not topic.error_code
        }

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Read ``partitions`` from the group's offsets on."""
        if not partitions:
            return
        wanted = frozenset(partitions)
        member = self._member.member
        committed = await self._link.committed(member, wanted, self._timeout)
        offsets = {where: at.offset for where, at in committed.items() if at is not None}
        self._committed.update(offsets)
        offsets |= await self._reset_offsets(wanted - offsets.keys())
        if self._member.member != member:
            return  # the partitions were lost meanwhile
        self._started().fetcher.add(
            PartitionState(where, offsets[where], None) for where in sorted(wanted)
        )

    async def _reset_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The offsets of partitions for which the group has none."""
        reset = self._reading.auto_offset_reset
        if not partitions:
            return {}
        if reset == "none":
            raise OffsetOutOfRangeError(
                f"group {self._link.group_id!r} has no offset for {min(partitions)}: set "
                "auto_offset_reset to 'earliest' or 'latest'"
            )
        place: Position = "beginning" if reset == "earliest" else "end"
        isolation = IsolationLevel[self._reading.isolation_level.upper()]
        return await find_offsets(
            self._client, dict.fromkeys(partitions, place), isolation, self._timeout
        )

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of ``partitions``, wait for the record in work, and commit."""
        source = self._started()
        for where in partitions:
            if where in source.fetcher.partitions:
                source.fetcher.pause(where)
            if source.cursor.where == where:
                source.cursor.interrupt()
        await self._finished(partitions)
        if self._options.auto_commit:
            await self._commit_what_can_be(partitions)
        self._release(partitions)

    async def _finished(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for the record in work, for ``max_poll_interval_ms`` at most."""
        bound = self._options.max_poll_interval_ms / 1000
        with suppress(TimeoutError):
            async with PatientTimeout(bound):
                while (work := self._work) and (work.topic, work.partition) in partitions:
                    self._acknowledged.clear()
                    await self._acknowledged.wait()
                return
        logger.warning(
            "%r works on a record for longer than %s (max_poll_interval_ms): another member of "
            "group %r will read it again",
            self,
            duration(bound),
            self._link.group_id,
        )

    def lost(self) -> None:
        """Read nothing any longer, and commit nothing."""
        self._release(self.owned)

    def _release(self, partitions: Collection[TopicPartition]) -> None:
        source = self._started()
        for where in partitions:
            if where in source.fetcher.partitions:  # it may have been lost meanwhile
                source.cursor.leave(where)
                source.fetcher.release(where)
            self._committed.pop(where, None)
        if (work := self._work) and (work.topic, work.partition) in partitions:
            self._work = None  # another member may have it
            self._acknowledged.set()


class _Acknowledging:
    """The records of a consumer; asking for the next one acknowledges the last one."""

    def __init__(self, consumer: Consumer, records: Records) -> None:
        self._consumer = consumer
        self._records = records
        self._record: ConsumerRecord | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        consumer = self._consumer
        if consumer._work is self._record:
            consumer._finish()
        elif consumer._work is not None:
            raise IllegalStateError(
                "another loop works on a record of this Consumer: one at a time can"
            )
        if consumer._closed:
            raise ClientClosedError("the Consumer is closed; make a new one")
        record = await self._records.__anext__()
        consumer._work = self._record = record
        return record


def _checked(topics: tuple[str, ...], group_id: str, options: ConsumerOptions) -> tuple[str, ...]:
    """The topics, each once. Raises :class:`ConfigError`."""
    if not topics or not all(isinstance(each, str) and each.strip() for each in topics):
        raise ConfigError("name at least one topic: Consumer('orders', group_id='billing')")
    if not isinstance(group_id, str) or not group_id.strip():
        raise ConfigError("group_id is the name of the group, a text that is not empty")
    if options.heartbeat_interval_ms * 3 > options.session_timeout_ms:
        raise ConfigError(
            "heartbeat_interval_ms has to be a third of session_timeout_ms at most: one lost "
            "heartbeat must not end the session"
        )
    return tuple(dict.fromkeys(topics))
