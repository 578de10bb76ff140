"""aiokafka's ``AIOKafkaConsumer``, implemented by aioproducer."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextvars import copy_context
from typing import Any, Final, Self, Unpack

from aioproducer import errors as ours
from aioproducer.compat.aiokafka import options
from aioproducer.compat.aiokafka.client import WHOLE_CLUSTER, ClusterMetadata, LoopBound, bootstrap
from aioproducer.compat.aiokafka.errors import CLASSES, WrongTypeError, translated, translating
from aioproducer.compat.aiokafka.options import ConsumerOptions
from aioproducer.compat.aiokafka.reading import Partitions, Reading, Wanted, theirs
from aioproducer.compat.aiokafka.structs import (
    ConsumerRebalanceListener,
    OffsetAndTimestamp,
    TopicPartition,
)
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.offset_lookup import lookup_offsets
from aioproducer.engine.client.requests import EARLIEST, LATEST, DescribeRequest, IsolationLevel
from aioproducer.engine.cluster.snapshot import ClusterView
from aioproducer.errors.broker import error_about
from aioproducer.foundation import logs
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.model import OffsetAndMetadata
from aioproducer.model import TopicPartition as Place
from aioproducer.reader.positions import Position, find_offsets

logger = logs.ModuleLogger(__name__)

_MOVED_ON: Final = (ours.IllegalGenerationError, ours.UnknownMemberIdError, ours.UnlistedKafkaError)
"""A group has gone on without the member that commits."""
_NOWHERE: Final = ClusterView({})
_ALL: Final[Partitions] = frozenset()


class AIOKafkaConsumer(LoopBound):
    """Reads records from Kafka, with the interface of aiokafka's consumer."""

    __signature__ = options.signature(ConsumerOptions)
    _name = "AIOKafkaConsumer"

    def __init__(
        self,
        *topics: str,
        loop: asyncio.AbstractEventLoop | None = None,
        **keywords: Unpack[options.AIOKafkaConsumerOptions],
    ) -> None:
        options.hide_keywords(keywords, ConsumerOptions)
        self._options = given = ConsumerOptions(**keywords)
        if loop is not None:
            warnings.warn(
                "loop has no effect: a consumer belongs to the event loop that starts it",
                DeprecationWarning,
                stacklevel=2,
            )
        given.check()
        self._config = given.config()
        self._timeout = given.request_timeout_ms / 1000
        self._isolation = IsolationLevel[given.isolation_level.upper()]
        self._bind(loop)
        self._client = self._made_client()
        self._cluster = ClusterMetadata(lambda: _NOWHERE)
        self._started = False
        self._context = copy_context()
        self._wanted: Wanted | None = None
        self._reading: Reading | None = None
        self._changed = asyncio.Event()
        self._change: asyncio.Task[None] | None = None
        """The end of the last reading, and the start of the present one."""
        if topics:
            self.subscribe(topics)
        else:
            self._made_reading(Wanted(frozenset(["any"])))  # checks the options
        self._closed = False

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster, and join the group if there are topics.

        This waits for the topics, which brokers may create, and for the member's first partitions.
        After an error you can call this again.

        Raises:
            KafkaConnectionError: none of the bootstrap servers responded.
            UnknownTopicOrPartitionError: a topic does not exist.
        """
        with translating():
            if self._started:
                raise ours.IllegalStateError("Did you call `start` twice?")
            self._loop = asyncio.get_running_loop()
            client = self._client
            try:
                await client.start(client.close)
                self._cluster.take(await bootstrap(client, self._timeout))
                self._started = True
                max_age = self._config.metadata_max_age_ms / 1000
                client.start_task(_follow(client, self._cluster, max_age), "aiokafka-client")
                if (reading := self._reading) is not None:
                    if reading.wanted.topics:
                        await self._wait_for(reading.wanted.topics)
                    self._begin(None, reading)
                    await reading.first_assignment()
            except BaseException:
                self._started, self._client = False, self._made_client()
                failed, self._reading = self._reading, None
                self._begin(failed, None)
                await self._ended()
                await client.close()
                self._reading = self._made_reading(self._wanted)
                raise

    def _made_client(self) -> ClusterClient:
        return ClusterClient(self._config, self._config.client_id or "", "AIOKafkaConsumer")

    async def _wait_for(self, topics: Collection[str]) -> None:
        """Wait until the topics exist; brokers may create them. Raises UnknownTopicOrPartition."""
        client, cluster = self._client, self._cluster

        async def attempt() -> None:
            found = await client.request(DescribeRequest(tuple(topics), creates=True))
            for name, topic in found.topics.items():
                if topic.error_code:
                    raise error_about(f"topic {name!r}", topic.error_code)
            cluster.take(await client.request(WHOLE_CLUSTER))

        try:
            doing = f"waiting for the topics {', '.join(sorted(topics))}"
            await client.retry(attempt, timeout=self._timeout, doing=doing)
        except ours.ProducerTimeoutError as error:
            raise ours.MetadataTimeoutError(str(error)) from error

    async def stop(self) -> None:
        """Commit the positions with ``enable_auto_commit``, leave the group, and close all
        connections."""
        if self._closed:
            return
        self._closed = True
        self._changed.set()
        with translating():
            try:
                self._begin(self._reading, None)
                await self._ended()
            finally:
                await self._client.close()

    async def _ended(self) -> None:
        if self._change is not None:
            await asyncio.wait({self._change})

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- what is read ----------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: Any = None,
    ) -> None:
        """Read ``topics``, or those whose name begins with a match of ``pattern``.

        This replaces the last subscription. ``listener``: called at each rebalance of the group.

        Raises:
            IllegalStateError: partitions are assigned, or the last subscription was of the other
                kind: call :meth:`unsubscribe` first.
        """
        if not (topics or pattern):
            raise WrongTypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise WrongTypeError("You can't provide both `topics` and `pattern`")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise WrongTypeError("listener should be an instance of ConsumerRebalanceListener")
        if pattern is None:
            if not isinstance(topics, (tuple, set, list, frozenset)):
                raise WrongTypeError("Topics should be list of strings")
            self._want(Wanted(topics=frozenset(topics), listener=listener))
            return
        if not self._options.exclude_internal_topics:
            raise ours.ConfigError(
                "exclude_internal_topics=False has no counterpart: a pattern never matches an "
                "internal topic; subscribe to it by its name"
            )
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ours.ConfigError(f"{pattern!r} is not a valid pattern: {error}") from error
        self._want(Wanted(pattern=compiled, listener=listener))

    def assign(self, partitions: Iterable[Any]) -> None:
        """Read these partitions instead of those assigned before, without joining the group.

        With a ``group_id`` the group's offsets are read and committed.

        Raises:
            IllegalStateError: there is a subscription: call :meth:`unsubscribe` first.
        """
        places = frozenset(Place(*each) for each in partitions)
        topics = frozenset(each.topic for each in places)
        self._want(Wanted(topics=topics, partitions=places))

    def unsubscribe(self) -> None:
        """Stop reading, and leave the group."""
        self._want(None)

    def _want(self, wanted: Wanted | None) -> None:
        with translating():
            before = self._wanted
            if wanted and before and wanted.kind != before.kind:
                raise ours.IllegalStateError(
                    f"{before.kind} is in force, and excludes {wanted.kind}: unsubscribe() first"
                )
            had = self._assigned() if before and before.partitions is None else frozenset()
            made = self._made_reading(wanted, had)
            last, self._wanted, self._reading = self._reading, wanted, made
            if last is not None:
                last.drop()
            if self._started:
                self._begin(last, made)
        self._changed.set()

    def _made_reading(self, wanted: Wanted | None, had: Partitions = frozenset()) -> Reading | None:
        if wanted is None or not wanted.of_consumer:
            return None
        return Reading(wanted, self._options, self._config, had)

    def _begin(self, last: Reading | None, reading: Reading | None) -> None:
        topics = () if reading is None or not reading.wanted.topics else reading.wanted.topics
        change = _replace(self._client, self._change, last, reading, topics)
        # A listener may subscribe: the change is no part of its call, which may end later.
        self._change = new_task(change, context=self._context.copy())
        self._change.add_done_callback(_see)
        if reading is not None:
            reading.begun = self._change

    def subscription(self) -> frozenset[str]:
        """The subscribed or assigned topics; with a pattern, the known topics that match it."""
        if self._wanted is None:
            return frozenset()
        if (pattern := self._wanted.pattern) is None:
            return self._wanted.topics
        return frozenset(each for each in self._cluster.topics() if pattern.match(each))

    def assignment(self) -> set[Any]:
        """The partitions that are assigned to this consumer now."""
        return theirs(self._assigned())

    def _assigned(self) -> Partitions:
        if self._wanted is not None and self._wanted.partitions is not None:
            return self._wanted.partitions
        return frozenset() if self._reading is None else self._reading.assigned

    async def topics(self) -> set[str]:
        """Return the topics of the cluster."""
        with translating():
            self._cluster.take(await self._client.request(WHOLE_CLUSTER))
        return self._cluster.topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of the topic's partitions; None: the topic is not known yet."""
        return self._cluster.partitions_for_topic(topic)

    # --- reading ---------------------------------------------------------------------------

    async def getone(self, *partitions: Any) -> Any:
        """Return the next record, of ``partitions`` or of any.

        Raises:
            ConsumerStoppedError: the consumer is stopped.
            OffsetOutOfRangeError, NoOffsetForPartitionError: there is no such record, and
                ``auto_offset_reset`` is ``none``.
        """
        wanted = _checked(partitions) if partitions else _ALL
        try:
            while True:
                reading = self._reading
                if reading is None or self._closed or not reading.is_started:
                    reading = await self._started_reading()
                try:
                    return await reading.one(wanted)
                except ours.ClientClosedError:
                    if reading is self._reading and not self._closed:
                        raise
        except ours.ProducerError as error:
            raise translated(error) from error.__cause__

    async def _started_reading(self) -> Reading:
        """The reading that is to be used now, once there is one."""
        while True:
            if self._closed:
                raise stopped()
            self._changed.clear()
            if (reading := self._reading) is None:
                await self._changed.wait()
                continue
            try:
                await reading.ready()
            except ours.ProducerError:
                if reading is self._reading and not self._closed:
                    raise
            else:
                if reading is self._reading and not self._closed:
                    return reading

    async def getmany(
        self, *partitions: Any, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[Any, list[Any]]:
        """Return records by partition, of ``partitions`` or of all; none after ``timeout_ms``.

        A partition returns up to ``max_partition_fetch_bytes``, or one batch if it is larger.
        """
        wanted = _checked(partitions) if partitions else _ALL
        if max_records is not None and (type(max_records) is not int or max_records < 1):
            raise ours.ConfigError("`max_records` must be a positive Integer")
        if self._closed:
            raise stopped()
        most = max_records or self._options.max_poll_records
        until = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            while True:
                left = until - asyncio.get_running_loop().time()
                reading = self._reading
                if reading is None or not reading.is_started:
                    try:
                        async with PatientTimeout(max(left, 0)):
                            reading = await self._started_reading()
                    except TimeoutError as error:
                        if isinstance(error, ours.ProducerError):
                            raise
                        return {}
                    continue
                try:
                    return await reading.many(wanted, left, most)
                except ours.ClientClosedError:
                    if self._closed:
                        return {}
                    if reading is self._reading:
                        raise
        except ours.ProducerError as error:
            if self._closed and isinstance(error, CLASSES["ConsumerStoppedError"]):
                return {}
            raise translated(error) from error.__cause__

    def __aiter__(self) -> Self:
        if self._closed:
            raise stopped()
        return self

    async def __anext__(self) -> Any:
        """Return the next record, until the consumer is stopped."""
        try:
            return await self.getone()
        except CLASSES["ConsumerStoppedError"]:
            raise StopAsyncIteration from None

    def pause(self, *partitions: Any) -> None:
        """Return no records of ``partitions`` until :meth:`resume`."""
        self._present(partitions).halt(_places(partitions))

    def resume(self, *partitions: Any) -> None:
        """Continue with paused partitions."""
        self._present(partitions).go_on(_places(partitions))

    def paused(self) -> set[Any]:
        """The partitions paused by :meth:`pause`."""
        return set() if self._reading is None else theirs(self._reading.paused)

    # --- positions -------------------------------------------------------------------------

    def _present(self, partitions: Iterable[Any]) -> Reading:
        """The reading of the partitions. Raises IllegalStateError if one is not assigned."""
        assigned = self._assigned()
        with translating():
            for each in _places(partitions):
                if each not in assigned:
                    raise ours.IllegalStateError(f"Partition {each} is not assigned")
            if self._reading is None:
                raise ours.IllegalStateError("No partitions are currently assigned")
        return self._reading

    def _chosen(self, partitions: Iterable[Any]) -> Partitions:
        """``partitions``, or all that are assigned."""
        places = _places(partitions) or self._assigned()
        self._present(places)
        if not places:
            with translating():
                raise ours.IllegalStateError("No partitions are currently assigned")
        return places

    async def position(self, partition: Any) -> int:
        """Return the offset of the next record of ``partition``, once it is known."""
        [place] = _places([partition])
        with translating():
            while True:
                reading = self._present([place])
                try:
                    await reading.ready()
                    if (found := await reading.position_of(place)) is not None:
                        return found
                except ours.ProducerError:
                    if reading is self._reading:
                        raise

    def highwater(self, partition: Any) -> int | None:
        """The end of the partition's log at the last fetch; None: there was none yet."""
        [place] = _places([partition])
        state = self._present([place]).state(place)
        return None if state is None else state.high_watermark

    def last_stable_offset(self, partition: Any) -> int | None:
        """The offset of the first record of an open transaction at the last fetch.

        -1 with ``read_uncommitted``; None: the log was not fetched yet.
        """
        [place] = _places([partition])
        state = self._present([place]).state(place)
        return None if state is None else state.last_stable_offset

    def last_poll_timestamp(self, partition: Any) -> int | None:
        """When :meth:`highwater` was last reported, in ms since the epoch; None: not yet."""
        [place] = _places([partition])
        state = self._present([place]).state(place)
        told = None if state is None else state.answered_ns
        return None if told is None else told // 1_000_000

    def seek(self, partition: Any, offset: int) -> None:
        """Continue with the record at ``offset``."""
        if not isinstance(offset, int) or offset < 0:
            raise ours.ConfigError("Offset must be a positive integer")
        [place] = _places([partition])
        self._present([place]).move(place, offset)

    async def seek_to_beginning(self, *partitions: Any) -> bool:
        """Continue with the first records that exist; False: they were not found in time."""
        return await self._seek_to("beginning", partitions)

    async def seek_to_end(self, *partitions: Any) -> bool:
        """Continue with new records; False: the ends were not found in time.

        With ``read_committed`` the end is the last stable offset.
        """
        return await self._seek_to("end", partitions)

    async def _seek_to(self, position: Position, partitions: tuple[Any, ...]) -> bool:
        places = self._chosen(partitions)
        wanted = dict.fromkeys(places, position)
        try:
            with translating():
                found = await find_offsets(self._client, wanted, self._isolation, self._timeout)
        except ours.ProducerTimeoutError:
            return False
        self._move(found)
        return True

    def _move(self, offsets: Mapping[Place, int]) -> None:
        assigned = self._assigned()  # a partition may have gone meanwhile
        for place, offset in offsets.items():
            if place in assigned and self._reading is not None:
                self._reading.move(place, offset)

    async def seek_to_committed(self, *partitions: Any) -> dict[Any, int | None]:
        """Continue with the group's offsets, and return them; None: there is none."""
        places = self._chosen(partitions)
        found = {place: await self._committed(place) for place in sorted(places)}
        self._move({place: offset for place, offset in found.items() if offset})
        return {TopicPartition(*place): offset for place, offset in found.items()}

    # --- offsets ---------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[Any, Any] | None = None) -> None:
        """Commit the position of each partition, or ``offsets``: the next ones to read.

        ``offsets``: by partition an int, or a pair of it and metadata.

        Raises:
            CommitFailedError: the group has continued without this member.
            IllegalOperation: there is no ``group_id``.
            IllegalStateError: a partition is not assigned.
        """
        with translating("CommitFailedError", _MOVED_ON):
            self._check_group()
            if self._wanted is None:
                raise ours.IllegalStateError("Not subscribed to any topics")
            reading = self._reading
            if reading is None or not reading.has_assignment:
                raise ours.IllegalStateError("No partitions assigned")
            given = None if offsets is None else _checked_offsets(offsets)
            self._present(() if given is None else given)
            await reading.ready()
            await reading.write(given)

    async def committed(self, partition: Any) -> int | None:
        """Return the group's offset of ``partition``; None: there is none."""
        [place] = _places([partition])
        return await self._committed(place)

    async def _committed(self, place: Place) -> int | None:
        with translating():
            self._check_group()
            if self._reading is not None:
                return await (await self._started_reading()).offset(place)
            if not self._started:
                raise ours.IllegalStateError("the consumer was not started: await start()")
            wanted = Wanted(topics=frozenset([place.topic]), partitions=frozenset())
            async with Reading(wanted, self._options, self._config, frozenset()) as reading:
                return await reading.offset(place)

    def _check_group(self) -> None:
        if self._options.group_id is None:
            raise ours.IllegalStateError("Requires group_id")

    async def offsets_for_times(self, timestamps: Mapping[Any, float]) -> dict[Any, Any]:
        """Return the first record that is not older than each time, milliseconds since the epoch.

        Each is an ``OffsetAndTimestamp``, or None if all records are older.

        Raises:
            KafkaTimeoutError: a partition does not exist, or there is no response in time.
        """
        for each, time in timestamps.items():
            if time < 0:
                raise ours.ConfigError(
                    f"The target time for partition {each} is {time}. "
                    "The target time cannot be negative."
                )
        found = await self._offsets({Place(*each): int(at) for each, at in timestamps.items()})
        return {
            each: None if offset < 0 else OffsetAndTimestamp(offset, time)
            for each, (offset, time) in found.items()
        }

    async def beginning_offsets(self, partitions: Iterable[Any]) -> dict[Any, int]:
        """Return the first offset of each partition; raises as :meth:`offsets_for_times`."""
        found = await self._offsets(dict.fromkeys(_places(partitions), EARLIEST))
        return {each: offset for each, (offset, _) in found.items()}

    async def end_offsets(self, partitions: Iterable[Any]) -> dict[Any, int]:
        """Return the offset of each partition's next record; raises as :meth:`offsets_for_times`.

        With ``read_committed`` it is the last stable offset.
        """
        found = await self._offsets(dict.fromkeys(_places(partitions), LATEST))
        return {each: offset for each, (offset, _) in found.items()}

    async def _offsets(self, wanted: Mapping[Place, int]) -> dict[Any, tuple[int, int]]:
        if not wanted:
            return {}
        with translating():
            try:
                found = await lookup_offsets(
                    self._client, wanted, isolation=self._isolation, timeout=self._timeout
                )
            except ours.UnknownTopicOrPartitionError as error:  # aiokafka waits for it
                raise ours.MetadataTimeoutError(str(error)) from error
        return {
            TopicPartition(*each): (offset.offset, offset.timestamp_ms)
            for each, offset in found.items()
        }


async def _replace(
    client: ClusterClient,
    before: asyncio.Task[None] | None,
    last: Reading | None,
    reading: Reading | None,
    topics: Collection[str],
) -> None:
    """End ``last`` after the change ``before``, and start ``reading``."""
    if before is not None:
        await asyncio.wait({before})
    if last is not None:
        try:
            await last.end()
        except Exception as error:
            logger.warning("%r did not end cleanly: %s", last, error, error=error)
    if reading is None:
        return
    if topics:  # brokers may create them
        try:
            await client.request(DescribeRequest(tuple(topics), creates=True))
        except ours.ProducerError as error:
            logger.debug("Topics could not be requested: %s", error, error=error)
    await reading.start()


def _see(task: asyncio.Task[None]) -> None:
    """A call that waits for the task raises its error."""
    if not task.cancelled():
        task.exception()


async def _follow(client: ClusterClient, cluster: ClusterMetadata, max_age: float) -> None:
    while True:
        await asyncio.sleep(max_age)
        try:
            cluster.take(await client.request(WHOLE_CLUSTER))
        except ours.ProducerError as error:
            logger.debug("The cluster was not described again: %s", error, error=error)


def stopped() -> Exception:
    """The error of a call to a consumer that is stopped."""
    error = ours.ClientClosedError("the consumer is stopped; make a new one")
    return translated(error, "ConsumerStoppedError")


def _checked(partitions: Iterable[Any]) -> Partitions:
    assert all(isinstance(each, TopicPartition) for each in partitions), (
        f"partitions must be TopicPartition instances, not {partitions!r:.200}"
    )
    return frozenset(Place(*each) for each in partitions)


def _places(partitions: Iterable[Any]) -> Partitions:
    listed = list(partitions)
    if not all(isinstance(each, tuple) and len(each) == 2 for each in listed):
        raise WrongTypeError("partitions must be TopicPartition instances")
    return frozenset(Place(*each) for each in listed)


def _checked_offsets(offsets: Any) -> dict[Place, OffsetAndMetadata]:
    """The offsets of ``commit()``. Raises the errors of aiokafka: ValueError and TypeError."""
    if not offsets or not isinstance(offsets, dict):
        raise ours.InvalidOffsetError(f"offsets are a dict that is not empty, not {offsets!r:.200}")
    found: dict[Place, OffsetAndMetadata] = {}
    for each, given in offsets.items():
        if not isinstance(each, tuple) or len(each) != 2:
            raise WrongTypeError("Key should be TopicPartition instance")
        said = (given, "") if isinstance(given, int) else given
        if not isinstance(said, tuple | list) or len(said) != 2 or not isinstance(said[0], int):
            raise ours.InvalidOffsetError(f"an offset is an int, or (int, metadata): {given!r:.80}")
        if not isinstance(said[1], str):
            raise WrongTypeError("Metadata should be a string")
        found[Place(*each)] = OffsetAndMetadata(said[0], said[1])
    return found
