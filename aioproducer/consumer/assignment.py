"""The partitions of a member: what its group gives it, takes from it, and gives away without it.

An error of a callback ends the membership, except those of ``on_revoked`` that are usual in a
rebalance (:meth:`Assignment._passes`), and ours about partitions that were lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isawaitable
from itertools import count
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from aioproducer.consumer.assigned_partition import NO_HANDLER, AssignedPartition, Hold
from aioproducer.consumer.commits import Commits
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.member import NO_IDS, Topics
from aioproducer.consumer.metrics import ConsumerStats, MemberCounts
from aioproducer.consumer.progress import Progress
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.offset_lookup import divided
from aioproducer.engine.client.requests import IsolationLevel
from aioproducer.engine.groups.requests import Membership, Reaction, reaction_to
from aioproducer.engine.metrics.counts import Summary
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    ConfigError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
    ProducerError,
    ProducerTimeoutError,
    TopicAuthorizationFailedError,
    TopicRecreatedError,
    UnknownTopicOrPartitionError,
)
from aioproducer.errors.broker import error_about
from aioproducer.foundation.logs import ModuleLogger, counted, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import is_being_cancelled, new_task
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.reader.positions import Position, find_offsets, reset_position
from aioproducer.reader.record_source import RecordSource

logger = ModuleLogger(__name__)

Callback: TypeAlias = Callable[[Collection[TopicPartition]], Awaitable[None] | None]
"""A function or coroutine function that is called with partitions."""

_CALL: Final[ContextVar[object]] = ContextVar("aioproducer_callback", default=None)
"""The call of a callback, in it and in the tasks that it starts."""
_REMEMBERED: Final = 10_000
"""The partitions that went of which the ids of their topics are known."""
_AT_ONCE: Final = 500
"""Partitions that begin or end in one turn of the event loop. Each takes some microseconds."""
_OF_ONE_TOPIC: Final = (TopicAuthorizationFailedError, UnknownTopicOrPartitionError)
"""The errors that concern one topic of a request."""
_QUICK_LOOKUP_SECONDS: Final = 5.0
"""Seconds after which the offsets of partitions are looked up one by one."""


class Handlers(Protocol):
    """The handlers that work on records side by side, if there are some."""

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with no further record of ``partitions``, but for those that fill gaps."""

    def works_on(self, partitions: Collection[TopicPartition]) -> bool:
        """True while records of ``partitions`` wait for their turn, which comes."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with no record of ``partitions`` until they are resumed."""

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Go on with ``partitions``."""

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with no further record of ``partitions``."""

    def cancel(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel what works on ``partitions``, which are lost."""

    def close(self, seconds: float) -> None:
        """End within ``seconds``, also if handlers ignore their cancellation."""


@dataclass(frozen=True, slots=True)
class AssignmentSettings:
    """The settings of an assignment. Times are seconds."""

    offset_reset: str
    """``auto_offset_reset``: where to begin without an offset of the group."""
    isolation: IsolationLevel
    longest_revocation: float
    """See :class:`SessionTimes`."""
    longest_call: float
    """``max_block_ms``: for offsets that are looked up or committed."""
    auto_commit: Callable[[], bool]
    on_assigned: Callback | None = None
    on_revoked: Callback | None = None
    on_lost: Callback | None = None


class Assignment:
    """Keeps the fetcher's partitions as the group wants them. A member calls it.

    ``fail`` gets an error that the application has to see, ``stats`` the times of callbacks.
    Source: Kafka's ``ConsumerCoordinator`` (``onJoinComplete``, ``onJoinPrepare``) and
    ``ConsumerRebalanceListener``.
    """

    def __init__(
        self,
        client: ClusterClient,
        link: CoordinatorLink,
        source: RecordSource,
        progress: Progress,
        commits: Commits,
        member: Callable[[], Membership],
        topics: Topics,
        settings: AssignmentSettings,
        fail: Callable[[Exception], None],
        stats: ConsumerStats,
    ) -> None:
        self.handlers: Handlers | None = None
        self._client = client
        self._link = link
        self._source = source
        self._progress = progress
        self._commits = commits
        self._member = member
        self._topics = topics
        self._settings = settings
        self._fail = fail
        self._stats = stats
        self._owned: dict[TopicPartition, AssignedPartition] = {}
        self._turn = asyncio.Lock()
        """One callback runs at a time."""
        self._calls: dict[object, tuple[Callback, float]] = {}
        """The callbacks that run now, and the clock's times at which they began."""
        self._beginning: set[asyncio.Task[None]] = set()
        self._before: dict[TopicPartition, tuple[UUID, int | None]] = {}
        """The ids of the topics of partitions that went, and the group's offsets then."""
        self._lost: set[TopicPartition] = set()
        """Lost partitions that were not yet reported to the application."""

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """The partitions that the group has given to this member."""
        return tuple(self._owned)

    def owns(self, where: TopicPartition) -> bool:
        """True if the group has given a partition to this member."""
        return where in self._owned

    # --- given -------------------------------------------------------------------------------

    async def assigned(
        self, partitions: Collection[TopicPartition], ids: Mapping[str, UUID] = NO_IDS
    ) -> None:
        """Read these partitions as well, once they are reported to the application."""
        new = [AssignedPartition(where, ids.get(where.topic)) for where in partitions]
        for each in new if ids else ():
            topic_id, committed = self._before.get(each.where, (each.topic_id, None))
            if topic_id != each.topic_id:
                each.former = committed
        self._owned.update((each.where, each) for each in new)
        self._hold_unwanted(partitions)  # the member may have asked before it was resubscribed
        try:
            await self._tell(
                self._settings.on_assigned, lambda: partitions, lambda counts: counts.assigned_calls
            )
        except ProducerError as error:
            if any(map(self._is_owned, new)):
                raise
            self._warn(self._settings.on_assigned, error)  # they were lost meanwhile
        self._start(new)

    def _is_owned(self, partition: AssignedPartition) -> bool:
        """True if the group has not taken ``partition`` meanwhile."""
        return self._owned.get(partition.where) is partition

    def _start(self, partitions: Collection[AssignedPartition]) -> None:
        if partitions:
            task = new_task(self._begin(partitions))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, wanted: Collection[AssignedPartition]) -> None:
        """Read ``wanted`` from the group's offsets on, as long as they are this member's."""
        backoff = self._client.backoff()
        for failures in count(1):
            begun = self._source.fetcher.partitions
            wanted = [each for each in wanted if self._is_owned(each) and each.where not in begun]
            if not wanted:
                return
            try:
                await self._begin_once({each.where: each for each in wanted})
            except Exception as error:
                if isinstance(error, TopicAuthorizationFailedError):
                    self.tell(error)
                elif not isinstance(error, ProducerError) or not self._link.may_pass(error):
                    self._fail(error)
                    return
                else:
                    logger.repeated(
                        logging.WARNING,
                        "offsets",
                        "Group %r: the offsets of %s are not known yet: %s",
                        self._link.group_id,
                        counted(len(wanted), "partition"),
                        error,
                        error=error,
                    )
                topics = {each.where.topic for each in wanted}
                if isinstance(error, _OF_ONE_TOPIC) and len(topics) > 1:  # the others begin
                    for topic in topics:
                        self._start([each for each in wanted if each.where.topic == topic])
                    return
            await asyncio.sleep(backoff.delay(failures))

    async def _begin_once(self, wanted: Mapping[TopicPartition, AssignedPartition]) -> None:
        found = await self._link.fetch_offsets(self._member(), frozenset(wanted))
        reaction = self._link.react(found.error_code)
        if reaction is Reaction.FAIL:
            what = f"the offsets of group {self._link.group_id!r}"
            raise error_about(what, found.error_code, Api.OFFSET_FETCH)
        if reaction is not Reaction.DONE:  # the member's next heartbeat says what else is to do
            return
        position = reset_position(self._settings.offset_reset)
        reset: dict[TopicPartition, AssignedPartition] = {}
        for number, (where, committed) in enumerate(found.offsets.items(), start=1):
            partition = wanted[where]
            own = partition.own(committed)
            place = partition.place(own, position)
            if isinstance(place, OffsetAndMetadata):
                self._add(partition, place, own)
            else:
                reset[where] = partition
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        if reset:
            await self._reset(await self._places(reset, position), reset)

    async def _places(
        self, partitions: Mapping[TopicPartition, AssignedPartition], reset: Position | None
    ) -> dict[TopicPartition, Position]:
        """The positions of partitions without an offset. Without a reset each is refused.

        The new ones among them are looked up, unless all begin at their beginning anyway.
        """
        new: Mapping[TopicPartition, bool] = {}
        if reset != "beginning":
            new = await self._topics.new_among(partitions)
        places: dict[TopicPartition, Position] = {}
        for number, (where, partition) in enumerate(partitions.items(), start=1):
            place = partition.place(None, reset, is_new=where in new)
            if isinstance(place, OffsetAndMetadata):  # it was sought meanwhile
                self._add(partition, place, None)
            elif place is None:
                again = partition.is_recreated or new.get(where, False)
                self._refuse(partition, created_again=again)
            else:
                places[where] = place
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        return places

    def _refuse(self, partition: AssignedPartition, *, created_again: bool) -> None:
        """Raise the error of a partition that can't begin, in its turn, until it is sought."""
        if not self._is_owned(partition):
            return
        where = partition.where
        advice = "seek() to an offset, or set auto_offset_reset to 'earliest' or 'latest'"
        error = (
            TopicRecreatedError(
                f"{where}: the topic was deleted and created again: its offsets mean other "
                f"records. {advice}"
            )
            if created_again
            else OffsetOutOfRangeError(
                f"group {self._link.group_id!r} has no offset for {where}: {advice}"
            )
        )
        self._source.fetcher.refuse(where, error)

    async def _reset(
        self,
        places: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, AssignedPartition],
    ) -> None:
        """Begin partitions at their places, each as soon as it can be."""
        try:
            await self._reset_some(places, partitions, _QUICK_LOOKUP_SECONDS)
        except ProducerTimeoutError:  # one of the leaders must not keep the others waiting
            outcomes = await asyncio.gather(
                *(
                    new_task(
                        self._reset_some({each: places[each] for each in some}, partitions, None)
                    )
                    for some in await divided(self._client, places)
                ),
                return_exceptions=True,
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome from None

    async def _reset_some(
        self,
        places: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, AssignedPartition],
        timeout: float | None,
    ) -> None:
        found = await find_offsets(
            self._client,
            places,
            self._settings.isolation,
            self._settings.longest_call if timeout is None else timeout,
        )
        for number, (where, offset) in enumerate(found.items(), start=1):
            place, from_beginning = OffsetAndMetadata(offset), places[where] == "beginning"
            self._add(partitions[where], place, None, from_beginning=from_beginning)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)

    def _add(
        self,
        partition: AssignedPartition,
        place: OffsetAndMetadata,
        committed: OffsetAndMetadata | None,
        *,
        from_beginning: bool = False,
    ) -> None:
        where = partition.where
        if not self._is_owned(partition) or where in self._progress.partitions:
            return  # it was lost meanwhile
        self._stop(where)
        partition.begin(place, committed, from_beginning=from_beginning)
        self._progress.add(partition)
        self._source.fetcher.add([partition.state])
        if partition.holds:
            self._source.fetcher.pause(where)

    # --- taken -------------------------------------------------------------------------------

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of ``partitions``, wait for what is in work, and commit.

        All of it may take ``max_poll_interval_ms`` less two heartbeats, so that the member answers
        in time. After that no handler begins, nothing is committed, and the handlers that still run
        are not cancelled: their records are another member's, which reads them again.
        """
        self.hold(partitions, Hold.REVOKED)
        if self.handlers is not None:
            self.handlers.stop(partitions)
        longest = self._settings.longest_revocation
        bound = PatientTimeout(longest)
        try:
            async with bound:
                await self._finished(partitions)
                if self.handlers is not None:
                    self.handlers.drop(partitions)  # paused ones wait for no turn
                await self._tell_of_revocation(partitions)
                if self._settings.auto_commit():
                    timeout = self._settings.longest_call
                    await self._commits.commit_if_possible(partitions, timeout)
        except TimeoutError:
            if not bound.expired():
                raise
            logger.warning(
                "Group %r: records of revoked partitions, or on_revoked, have taken longer than %s "
                "(max_poll_interval_ms less two heartbeats): another member will read them again",
                self._link.group_id,
                duration(longest),
            )
            if self.handlers is not None:
                self.handlers.drop(partitions)
            self._lost.update(self._untold(partitions))
        listed = [*partitions]
        for at in range(0, len(listed), _AT_ONCE):
            if at:
                await asyncio.sleep(0)
            self._release(listed[at : at + _AT_ONCE])
        await self._tell_of_losses()

    async def _finished(self, partitions: Collection[TopicPartition]) -> None:
        left = [*partitions]
        while left := [each for each in left if self._is_in_work(each)]:
            await self._progress.more()

    def _is_in_work(self, where: TopicPartition) -> bool:
        return self._progress.works_on((where,)) or (
            self.handlers is not None and self.handlers.works_on((where,))
        )

    def lost(self) -> None:
        """Read nothing any longer, and commit nothing: other members may do so already."""
        partitions = self.owned
        if self.handlers is not None:
            self.handlers.cancel(partitions)
        self._lost.update(self._untold(partitions))
        self._release(partitions)

    async def settled(self, idle: Callable[[], bool]) -> None:
        """Tell the application what was lost, once the callback that runs has ended; while ``idle``
        says so, wait until it has no record and asks for more."""
        await self.call_ended()
        await self._tell_of_losses()
        while idle() and not (self._progress.is_idle and self._source.is_asked):
            await self._progress.more()

    def _release(self, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            partition = self._owned.pop(where, None)
            if where in self._progress.partitions and partition is not None and partition.topic_id:
                topic_id = partition.state.served_id or partition.topic_id
                self._before[where] = topic_id, partition.committed
                if len(self._before) > _REMEMBERED:
                    del self._before[next(iter(self._before))]
            self._stop(where)

    def _stop(self, where: TopicPartition) -> None:
        """Read a partition no longer."""
        if where in self._progress.partitions:
            self._progress.release(where)
            self._source.cursor.leave(where)
        if where in self._source.fetcher.partitions:
            self._source.fetcher.release(where)

    async def _tell(
        self,
        callback: Callback | None,
        partitions: Callable[[], Collection[TopicPartition]],
        times: Callable[[MemberCounts], Summary],
    ) -> None:
        """Call ``callback`` with ``partitions()``, as they are when its turn comes."""
        if callback is None:
            partitions()
            return
        async with self._turn:
            found = frozenset(partitions())
            if not found:
                return
            began = self._client.clock()
            await self._call(callback, found)
            now = self._client.clock()
            times(self._stats.at(now)).add(now - began)

    async def _call(self, callback: Callback, partitions: frozenset[TopicPartition]) -> None:
        call = object()
        self._calls[call] = callback, self._client.clock()
        token = _CALL.set(call)
        try:
            result = callback(partitions)
            if isawaitable(result):
                await result
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise IllegalStateError(f"the callback {callback!r} was cancelled") from error
        finally:
            del self._calls[call]
            with suppress(ValueError):  # an ended loop's task is thrown away in any context
                _CALL.reset(token)

    @property
    def in_callback(self) -> bool:
        """True in a callback that runs, and in the tasks that it has started."""
        return _CALL.get() in self._calls

    @property
    def oldest_call(self) -> tuple[Callback, float] | None:
        """The callback that has run for the longest time, and when it began."""
        return next(iter(self._calls.values()), None)

    async def call_ended(self) -> None:
        """Wait until the callback that runs has ended."""
        async with self._turn:
            pass

    def tell(self, error: ProducerError) -> None:
        """Raise ``error`` in a next read, once: it may be mended meanwhile."""
        self._source.fetcher.tell(error)

    # --- held --------------------------------------------------------------------------------

    def hold(self, partitions: Collection[TopicPartition], reason: Hold) -> None:
        """Hand out nothing of ``partitions`` until they are let go."""
        begun, bit = self._progress.partitions, reason.value
        paused = []
        for each in self._those(partitions):
            if not each.holds and each.where in begun:
                paused.append(each.where)
            each.holds |= bit
        if (open_one := self._source.cursor.where) is not None and open_one in paused:
            self._source.cursor.put_back(open_one)
        self._source.fetcher.pause(*paused)
        if reason in NO_HANDLER:
            if self.handlers is not None:
                self.handlers.pause(partitions)
            self._progress.tell()  # nothing waits for what is paused

    def let_go(self, partitions: Collection[TopicPartition], reason: Hold) -> None:
        """One reason no longer applies."""
        begun, bit = self._progress.partitions, reason.value
        resumed = []
        for each in self._those(partitions):
            if each.holds == bit and each.where in begun:
                resumed.append(each.where)
            each.holds &= ~bit
        self._source.fetcher.resume(*resumed)
        if reason in NO_HANDLER and self.handlers is not None:
            self.handlers.resume(partitions)

    def _those(self, partitions: Iterable[TopicPartition]) -> list[AssignedPartition]:
        owned = self._owned
        return [owned[where] for where in partitions if where in owned]

    def silence(self) -> None:
        """Hand out nothing: the coordinator may have given the partitions away."""
        self.hold(self.owned, Hold.SILENT)

    def end_of_silence(self) -> None:
        """Go on: the coordinator has answered, and the member is in the group."""
        self.let_go(self.owned, Hold.SILENT)

    def resubscribed(self) -> None:
        """Hand out nothing of topics that the application does not want any more."""
        self.let_go(self.owned, Hold.UNWANTED)
        self._hold_unwanted(self.owned)

    def _hold_unwanted(self, partitions: Collection[TopicPartition]) -> None:
        topics = {each.topic for each in partitions}
        if unwanted := {each for each in topics if not self._topics.has(each)}:
            self.hold([each for each in partitions if each.topic in unwanted], Hold.UNWANTED)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of ``partitions`` until :meth:`resume`."""
        self.hold(partitions, Hold.PAUSED)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Resume paused partitions."""
        self.let_go(partitions, Hold.PAUSED)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that the application has paused."""
        bit = Hold.PAUSED.value
        return frozenset(where for where, each in self._owned.items() if each.holds & bit)

    # --- moved -------------------------------------------------------------------------------

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Hand out the record at ``offset`` next."""
        if where not in self._progress.partitions:
            partition = self._owned[where]
            partition.sought = offset
            if where in self._source.fetcher.partitions:  # it was refused
                self._add(partition, OffsetAndMetadata(offset), None)
            return
        if self.handlers is not None:
            self.handlers.drop((where,))
        self._progress.sought(where)
        self._source.cursor.leave(where)
        self._source.fetcher.seek(where, offset)

    def seek_to_committed(self, where: TopicPartition, committed: OffsetAndMetadata | None) -> None:
        """Go on at the group's offset; None: there is none, so where this member began."""
        if committed is not None:
            self.seek(where, committed.offset)
        elif where in self._progress.partitions:
            self.seek(where, self._owned[where].start)
        else:
            self._owned[where].sought = None

    def rewind(self) -> None:
        """Hand out again what is unacknowledged."""
        for where, offset in self._progress.rewind().items():
            self._source.cursor.leave(where)
            self._source.fetcher.seek(where, offset)

    def start_over(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Return the records after the group's offsets, or from ``offsets`` on if it has none."""
        again = [self._again(where) for where in self.owned if where in offsets]
        for partition in again:
            partition.fallback = offsets[partition.where]
        self.rewind()
        self._start(again)

    def _again(self, where: TopicPartition) -> AssignedPartition:
        """Stop reading a partition, which is to be begun once more."""
        self._stop(where)
        self._owned[where] = again = self._owned[where].again()
        return again

    def recreated(self, topic: str) -> bool:
        """A topic was deleted and created again: read it from its beginning.

        Without a reset, the application has to decide: its partitions are refused.
        """
        wheres = [where for where in self._owned if where.topic == topic]
        resets = reset_position(self._settings.offset_reset) is not None
        logger.warning(
            "Group %r: topic %r was deleted and created again: its offsets mean other records, "
            "and %s",
            self._link.group_id,
            topic,
            "it is read from its beginning" if resets else "each partition waits for a seek()",
        )
        if self.handlers is not None:
            self.handlers.drop(wheres)
        again = [self._again(where) for where in wheres]
        for partition in again:
            partition.sought = partition.fallback = None
            partition.is_anew = True
        self._start(again)
        return True

    def leave_cluster(self) -> None:
        """Another cluster answers: its topics have other ids, and are not new for that."""
        self._before.clear()

    def handlers_ended(self) -> None:
        """No handler works any more."""
        self.handlers = None
        self._progress.tell()

    def end(self) -> None:
        """Begin with no further partition."""
        for task in self._beginning:
            task.cancel()

    async def tell_of_end(self) -> None:
        """Tell the application that it has no partition any more."""
        await self._tell_of_losses()
        await self._tell_of_revocation(self.owned)

    def _untold(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """This member's partitions among ``partitions`` whose end is still to be reported."""
        return frozenset(each.where for each in self._those(partitions) if not each.is_told)

    async def _tell_of_losses(self) -> None:
        def take() -> frozenset[TopicPartition]:
            lost = frozenset(self._lost)
            self._lost.clear()
            return lost

        try:
            await self._tell(self._settings.on_lost, take, lambda counts: counts.lost_calls)
        except ProducerError as error:  # a commit or a seek is too late for them
            if not (isinstance(error, ConfigError) or self._passes(error)):
                raise
            self._warn(self._settings.on_lost, error)

    async def _tell_of_revocation(self, partitions: Collection[TopicPartition]) -> None:
        def take() -> frozenset[TopicPartition]:
            revoked = self._untold(partitions)  # others were lost meanwhile
            for each in self._those(revoked):
                each.is_told = True
            return revoked

        try:
            await self._tell(self._settings.on_revoked, take, lambda counts: counts.revoked_calls)
        except ProducerError as error:
            if not self._passes(error):
                raise
            self._warn(self._settings.on_revoked, error)  # the records come again

    def _passes(self, error: ProducerError) -> bool:
        """True for what is usual around rebalances, such as a commit that comes too late."""
        if isinstance(error, KafkaError):
            return reaction_to(error.code) is not Reaction.FAIL
        return self._link.may_pass(error)

    def _warn(self, callback: Callback | None, error: ProducerError) -> None:
        logger.warning(
            "Group %r: the callback %r failed: %s",
            self._link.group_id,
            callback,
            error,
            error=error,
        )
