"""What an ``AIOKafkaConsumer`` reads from one ``subscribe()`` or ``assign()`` to the next.

:class:`Reading` is a Consumer of this project. In a group it is a member. With ``assign()``, or
without a group, it has a :class:`LoneMember`, which gives itself its partitions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from itertools import islice
from typing import Any, Final, NamedTuple

from aioproducer import errors as ours
from aioproducer.compat.aiokafka.errors import translated
from aioproducer.compat.aiokafka.options import ConsumerOptions
from aioproducer.compat.aiokafka.structs import (
    ConsumerRecord,
    TopicPartition,
)
from aioproducer.config import ProducerConfig
from aioproducer.consumer import Consumer
from aioproducer.consumer.classic import ClassicMember
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.member import MISSING_TOPIC_SECONDS, Member, MemberSurroundings
from aioproducer.engine.groups.requests import FetchedOffsets, Membership
from aioproducer.errors.client import anew
from aioproducer.foundation import logs, tuning
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import OffsetAndMetadata
from aioproducer.model import TopicPartition as Place
from aioproducer.reader.partition import NO_POSITION, Cursor
from aioproducer.reader.positions import find_offsets, reset_position

logger = logs.ModuleLogger(__name__)

_NO_GROUP: Final = "(none)"
"""Stands for the group in the log of a consumer without one."""
_LONGEST_TAKE: Final = 0.05
"""Seconds after which ``getmany()`` returns what it has, so that other tasks have a turn."""
_LOOK: Final = 0.005
"""Seconds between two looks for the position of a partition that was just assigned."""
_WAKE: Final = 0.1
"""Seconds for which a call waits at least after the member has left its group: it joins again when
it is asked for records."""
_PREFIX_OF_FLAGS: Final = re.compile(r"\(\?[aiLmsux]+\)")
_TIMESTAMP_TYPES: Final = {"CreateTime": 0, "LogAppendTime": 1}

Partitions = frozenset[Place]


def theirs(partitions: Iterable[Place]) -> set[Any]:
    """The partitions, of aiokafka's class."""
    return {TopicPartition(*each) for each in partitions}


class Wanted(NamedTuple):
    """What an application has subscribed to, or assigned."""

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    partitions: Partitions | None = None
    """The partitions of ``assign()``."""
    listener: Any = None

    @property
    def kind(self) -> str:
        """The kind of call: only after ``unsubscribe()`` another one can follow."""
        if self.partitions is not None:
            return "assign()"
        return "subscribe(topics)" if self.pattern is None else "subscribe(pattern=...)"

    @property
    def of_consumer(self) -> tuple[str | re.Pattern[str], ...]:
        """The topics of a Consumer. aiokafka's patterns match the beginning of a name."""
        if self.pattern is None:
            return tuple(sorted(self.topics))
        text = _PREFIX_OF_FLAGS.sub("", self.pattern.pattern, count=1)
        return (re.compile(f"(?:{text}).*", self.pattern.flags | re.DOTALL),)


class Listener:
    """Tells the application's listener of each rebalance, also of one without partitions.

    ``had``: the partitions of the last subscription, which the new one revokes.
    """

    def __init__(self, listener: Any, had: Partitions) -> None:
        self.first = asyncio.Event()
        """Set from the first assignment on, and by an error that ends the membership."""
        self.is_silent = False
        """True: the application does not want these partitions any more."""
        self._listener = listener
        self._had = had
        self._is_revoked = False

    async def assigned(self, partitions: Collection[Place]) -> None:
        """The group has given these partitions."""
        self._is_revoked = False
        self.first.set()
        await self._call("on_partitions_assigned", partitions)

    async def revoked(self, partitions: Collection[Place]) -> None:
        """The group takes these partitions."""
        if self._is_revoked and not partitions:
            return
        had, self._had, self._is_revoked = self._had, frozenset(), True
        await self._call("on_partitions_revoked", {*partitions, *had})

    async def _call(self, name: str, partitions: Collection[Place]) -> None:
        if self._listener is None or self.is_silent:
            return
        try:
            result = getattr(self._listener, name)(theirs(partitions))
            if isawaitable(result):
                await result
        except Exception as error:
            logger.error("The listener's %s() failed: %r", name, error, error=error)


class Reading(Consumer):
    """What a consumer reads from one ``subscribe()`` or ``assign()`` to the next.

    Its position is that of the application: a record counts as done when it is returned.
    """

    def __init__(
        self, wanted: Wanted, given: ConsumerOptions, config: ProducerConfig, had: Partitions
    ) -> None:
        group, alone = given.group_id, wanted.partitions is not None or given.group_id is None
        self.wanted = wanted
        self.begun: asyncio.Task[None] | None = None
        """Ends when this is started."""
        self._listener = listener = Listener(None if alone else wanted.listener, had)
        super().__init__(
            *wanted.of_consumer,
            group_id=_NO_GROUP if group is None else group,
            config=config,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._revoked,
            **given.reading(),
        )
        member: Callable[[MemberSurroundings], Member] = (
            partial(LoneMember, wanted.partitions, listener)
            if alone
            else partial(GroupMember, given.rebalance_timeout, listener)
        )
        self._setup = replace(self._setup, member=member)
        if group is None:
            self._link = NoCoordinator(self.config, self.client_id, _NO_GROUP, 1)
        self.converted = _record_of(given)
        """Makes aiokafka's record of one of ours."""
        self._most_bytes = given.max_partition_fetch_bytes
        self._open: dict[Place, Cursor] = {}
        """The batches of which the application has a part."""
        self._wants: list[Partitions] = []
        """The partitions that each waiting call wants; none: all."""
        self._one_waits = asyncio.Lock()
        self._turn_ends = 0.0
        """The real clock's time from which on other tasks have a turn, and the session a look."""
        self._sought: dict[Place, int] = {}
        """The positions that were sought before the partitions were read. They count until then."""
        self._paused: set[Place] = set()
        """Partitions that were paused before they were assigned."""

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start to read."""
        await super().start()
        self._source.has_open = lambda: bool(self._open)

    @property
    def is_started(self) -> bool:
        """True if there may be records now."""
        return self._state == "started"

    async def ready(self) -> None:
        """Wait until this is started. Raises the error of its start."""
        if self.begun is None:
            raise ours.IllegalStateError("the consumer was not started: await start()")
        await asyncio.wait({self.begun})
        self.begun.result()

    def drop(self) -> None:
        """Return nothing any more, and tell the listener nothing."""
        self._listener.is_silent = True
        if self.is_started:
            with suppress(ours.ProducerError):  # it can't go on anyway
                self.finish()
            self._open.clear()

    async def end(self) -> None:
        """Commit the positions with ``enable_auto_commit``, and leave the group."""
        self.drop()
        await self.close()

    async def first_assignment(self) -> None:
        """Wait for the first partitions, and raise the error if there are none."""
        await self.ready()
        await self._listener.first.wait()
        if (failure := self._source.fetcher.failure) is not None:
            raise anew(failure)

    def _fail(self, error: Exception) -> None:
        super()._fail(error)
        self._listener.first.set()

    # --- partitions ------------------------------------------------------------------------

    @property
    def assigned(self) -> Partitions:
        """The partitions that this member has."""
        return frozenset() if self._state == "not started" else frozenset(self._assignment.owned)

    @property
    def has_assignment(self) -> bool:
        """True once partitions were assigned, if only none."""
        return self.wanted.partitions is not None or self._listener.first.is_set()

    async def _assigned(self, partitions: Collection[Place]) -> None:
        for where in partitions:
            if (offset := self._sought.get(where)) is not None:
                self._assignment.seek(where, offset)
        if paused := self._paused.intersection(partitions):
            self._paused -= paused
            self._assignment.pause(paused)
        await self._listener.assigned(partitions)

    async def _revoked(self, partitions: Collection[Place]) -> None:
        for where in partitions:
            self._sought.pop(where, None)
        await self._listener.revoked(partitions)

    def halt(self, places: Partitions) -> None:
        """Return no records of ``places``, also if they are not assigned yet."""
        now = places & self.assigned
        self._paused |= places - now
        if now:
            self._assignment.pause(now)

    def go_on(self, places: Partitions) -> None:
        """Continue with ``places``."""
        now = places & self.assigned
        self._paused -= places
        if now:
            self._assignment.resume(now)

    @property
    def paused(self) -> Partitions:
        """The paused partitions."""
        now = frozenset[Place]() if self._state == "not started" else self._assignment.paused
        return now | self._paused

    # --- reading ---------------------------------------------------------------------------

    async def one(self, wanted: Partitions) -> Any:
        """The next record of ``wanted``."""
        await self._have_turn()
        while True:
            for where, cursor in self._readable(wanted):
                for record in cursor.records:
                    made = self._convert(where, record)
                    cursor.last = record
                    self._advance(where, cursor)
                    return made
            await self._open_next(wanted)

    async def many(self, wanted: Partitions, timeout: float, most: int | None) -> dict[Any, Any]:
        """Up to ``most`` records of ``wanted``; none after ``timeout`` seconds."""
        await self._have_turn()
        loop = asyncio.get_running_loop()
        until = loop.time() + (max(timeout, _WAKE) if self._member.gave_up else timeout)
        while True:
            if found := self._take(wanted, most):
                return found
            left = until - loop.time()
            if left <= 0 and not self._source.fetcher.read_ahead.has(self._is_wanted_by(wanted)):
                return {}
            try:
                # A batch that is there takes a while to be unpacked, whatever the time.
                async with PatientTimeout(left if left > 0 else self._timeout):
                    await self._open_next(wanted)
            except TimeoutError as error:
                if isinstance(error, ours.ProducerError):
                    raise

    async def _have_turn(self) -> None:
        """Let other tasks run if they had no turn for long, and look if the session is over."""
        self._check()
        self._source.ask()
        session = self._member.session
        if session.real_clock() >= self._turn_ends:
            await self._source.pause()
            session.look()
            self._turn_ends = min(session.real_clock() + tuning.LONGEST_LOOP_TURN, session.ends)

    def _readable(self, wanted: Partitions) -> Iterator[tuple[Place, Cursor]]:
        """The open batches of ``wanted``. Those of partitions that are held come again later."""
        for where, cursor in [*self._open.items()]:
            state = self._source.fetcher.partitions.get(where)
            if not cursor.is_of(state):  # sought, or lost
                del self._open[where]
            elif state is not None and state.paused:
                del self._open[where]
                self._source.put_back(cursor)
            elif not wanted or where in wanted:
                yield where, cursor

    def _is_wanted_by(self, *wants: Partitions) -> Callable[[Place], bool]:
        def is_wanted(where: Place) -> bool:
            if where == self._source.unpacking:
                return False
            if not any(not each or where in each for each in wants):
                return False
            cursor = self._open.get(where)
            return cursor is None or not cursor.is_of(self._source.fetcher.partitions.get(where))

        return is_wanted

    async def _open_next(self, wanted: Partitions) -> None:
        """Wait until a batch of ``wanted`` is open.

        One of the waiting calls opens batches for all of them, since a call that waits for one
        partition must not hold up another call.
        """
        self._wants.append(wanted)
        self._source.fetcher.choose_again()
        try:
            async with self._one_waits:
                if any(True for _ in self._readable(wanted)):
                    return
                cursor = await self._source.next_cursor(
                    lambda where: self._is_wanted_by(*self._wants)(where)
                )
                if cursor is None or cursor.where is None:
                    raise ours.ClientClosedError("the consumer reads something else now")
                self._open[cursor.where] = cursor
        except ours.OffsetOutOfRangeError as error:
            where = Place(error.topic or "", -1 if error.partition is None else error.partition)
            state = self._source.fetcher.partitions.get(where)
            if state is not None and state.position == NO_POSITION:
                raise translated(error, "NoOffsetForPartitionError") from error.__cause__
            raise
        finally:
            self._wants.remove(wanted)

    def _take(self, wanted: Partitions, most: int | None) -> dict[Any, list[Any]]:
        """The records that are there, without a pause: a cancellation loses none."""
        found: dict[Any, list[Any]] = {}
        sizes: dict[Place, int] = {}
        full: set[Place] = set()
        left = most
        clock = self._member.session.real_clock
        until = clock() + _LONGEST_TAKE
        is_wanted = self._is_wanted_by(wanted)
        cursors = [*self._readable(wanted)]
        while True:
            for where, cursor in cursors:
                records = found.setdefault(TopicPartition(*where), [])
                sizes[where] = size = sizes.get(where, 0) + cursor.size
                if records and size > self._most_bytes:
                    full.add(where)
                    continue
                before = len(records)
                try:
                    for record in islice(cursor.records, left):
                        records.append(self._convert(where, record))
                        cursor.last = record
                except Exception:
                    found = {each: listed for each, listed in found.items() if listed}
                    if not found:
                        raise
                    return found  # the error comes with the next call
                self._advance(where, cursor)
                if left is not None:
                    left -= len(records) - before
                    if not left:
                        return found
            more = None
            if not found or clock() < until:
                more = self._source.cursor_now(lambda where: where not in full and is_wanted(where))
            if more is None or more.where is None:
                return found
            self._open[more.where] = more
            cursors = [(more.where, more)]

    def _convert(self, where: Place, record: Any) -> Any:
        """``record`` as the application gets it; one that can't be deserialized comes again."""
        try:
            return self.converted(record)
        except BaseException:
            self._assignment.seek(where, record.offset)
            raise

    def _advance(self, where: Place, cursor: Cursor) -> None:
        """The application has the records up to the cursor's last one."""
        if not cursor.advance():
            del self._open[where]

    # --- positions and offsets -------------------------------------------------------------

    def state(self, where: Place) -> Any:
        """The state of a partition; None: it is not read yet."""
        return self._source.fetcher.partitions.get(where) if self.is_started else None

    def move(self, where: Place, offset: int) -> None:
        """Continue with the record at ``offset``."""
        if not self.is_started or not self._assignment.owns(where):
            self._sought[where] = offset
            return
        if where not in self._progress.partitions:
            self._sought[where] = offset
        self._assignment.seek(where, offset)

    async def position_of(self, where: Place) -> int | None:
        """The offset of the next record; None: it is not known yet.

        A callback comes before the partition is read: there the position is looked up, and stays.
        """
        self._enter()
        if where in self._progress.partitions:
            return self._progress.position(where)
        if (failure := self._source.fetcher.failure) is not None:
            raise anew(failure)
        if not self._assignment.in_callback:
            await asyncio.sleep(_LOOK)
            return None
        if where in self._sought:
            return self._sought[where]
        offset = None if self.wanted.partitions is not None else await self.offset(where)
        if offset is None:
            reset = reset_position(self._reading.auto_offset_reset)
            if reset is None:
                raise translated(
                    ours.OffsetOutOfRangeError(f"there is no offset for {where}"),
                    "NoOffsetForPartitionError",
                )
            found = await find_offsets(self._client, {where: reset}, self._isolation, self._timeout)
            offset = found[where]
        self.move(where, offset)
        return offset

    async def write(self, offsets: dict[Place, OffsetAndMetadata] | None) -> None:
        """Commit the positions, or ``offsets``."""
        self._enter()
        if offsets is None:
            await self._commits.commit(self._assignment.owned, self._timeout)
            begun = self._progress.partitions
            offsets = {
                where: OffsetAndMetadata(offset)
                for where, offset in self._sought.items()
                if where not in begun
            }
        if offsets:
            await self._commits.commit_offsets(offsets, self._timeout)

    async def offset(self, where: Place) -> int | None:
        """The group's offset; None: there is none."""
        self._enter()
        found = (await self._commits.committed(frozenset([where]), self._timeout))[where]
        return None if found is None else found.offset


# --- members -----------------------------------------------------------------------------------


class GroupMember(ClassicMember):
    """A member of a group that also tells of rebalances without partitions, as aiokafka does."""

    def __init__(
        self, rebalance_timeout: int, listener: Listener, surroundings: MemberSurroundings
    ) -> None:
        super().__init__(surroundings)
        self.session.times = self.session.times._replace(rebalance_ms=rebalance_timeout)
        self._listener = listener

    async def _settle(self) -> None:
        await super()._settle()
        await self._listener.revoked(())

    async def _take(self, partitions: Partitions) -> None:
        await super()._take(partitions)
        if not partitions:
            await self._listener.assigned(())


class LoneMember(Member):
    """Gives itself ``partitions``, or if that is None, all of its topics. It is in no group."""

    def __init__(
        self, partitions: Partitions | None, listener: Listener, surroundings: MemberSurroundings
    ) -> None:
        identity = surroundings.identity._replace(instance_id=None)
        super().__init__(surroundings._replace(identity=identity))
        self._given = partitions
        self._listener = listener
        self._due = asyncio.Event()

    def _jobs(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {"partitions": self._follow()}

    def _lasting(self) -> Collection[str]:
        return ()

    async def _follow(self) -> None:
        """Keep the partitions up to date: topics can get more of them, appear, and go."""
        backoff, failures = self._link.client.backoff(), 0
        while not self._ends:
            self._due.clear()
            try:
                wanted, some_are_missing = await self._look()
            except ours.ProducerError as error:
                if not self._link.may_pass(error):
                    raise
                failures += 1
                await asyncio.sleep(backoff.delay(failures))
                continue
            failures = 0
            await self._take(wanted)
            if self._given is not None:
                return
            interval = self._settings.topics_interval
            if some_are_missing:
                interval = min(interval, MISSING_TOPIC_SECONDS)
            try:
                async with asyncio.timeout(interval):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def _look(self) -> tuple[Partitions, bool]:
        """The partitions, and True if a topic is missing."""
        if self._given is not None:
            return self._given, False
        topics = await self._topics.subscribed()
        counts = await self._topics.counts(topics)
        found = (Place(topic, each) for topic, count in counts.items() for each in range(count))
        return frozenset(found), len(counts) < len(topics)

    async def _take(self, wanted: Partitions) -> None:
        owned = frozenset(self._partitions.owned)
        if gone := owned - wanted:
            await self._partitions.revoked(sorted(gone))
        if new := wanted - owned:
            await self._partitions.assigned(sorted(new))
        else:
            await self._listener.assigned(())

    def miss_topic(self, topic: str) -> None:
        """The brokers do not know ``topic``, whose partitions the member has."""
        self._due.set()

    def resubscribe(self) -> None:
        """The application wants other topics."""
        self._due.set()

    def refused(self, code: int) -> bool:
        """A commit was refused: the group has members, to whom the partitions belong."""
        return True

    def lose(self, why: str, *, new: bool) -> None:
        """There is no group to go on without the member."""

    async def give_up(self, reason: str) -> None:
        """There is no group to leave."""

    async def _send_leave(
        self, identity: Membership, reason: str, timeout: float | None = None
    ) -> int:
        return 0  # there is no group to leave


class NoCoordinator(CoordinatorLink):
    """Takes the place of a link to the coordinator, for a consumer without a group."""

    async def start(self) -> None:
        """Take requests for metadata from now on."""
        await self.client.start()

    async def close(self) -> None:
        """End the connections."""
        await self.client.close()

    async def fetch_offsets(self, member: Membership, partitions: Partitions) -> FetchedOffsets:
        """No partition has an offset."""
        return FetchedOffsets(0, dict.fromkeys(partitions))


def _record_of(given: ConsumerOptions) -> Callable[[Any], Any]:
    """A function that makes aiokafka's record of one of ours."""
    read_key, read_value = given.key_deserializer, given.value_deserializer

    def made(record: Any) -> Any:
        topic, partition, offset, timestamp, kind, key, value, headers = record[:8]
        return ConsumerRecord(
            topic,
            partition,
            offset,
            timestamp,
            _TIMESTAMP_TYPES.get(kind, 0),
            key if read_key is None else read_key(key),
            value if read_value is None else read_value(value),
            None,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            headers,
        )

    return made
