"""The requests of a reader: records are fetched ahead from each broker, within a bound of bytes.

Source: Kafka's ``Fetcher``, with a task in place of the calls of ``poll()``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from aioproducer.config import ProducerConfig
from aioproducer.config.reader_options import ReaderOptions
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import IsolationLevel
from aioproducer.engine.network.frames import MAX_RESPONSE_BYTES
from aioproducer.engine.network.timeouts import MOST_TIMEOUTS
from aioproducer.engine.protocol import Api
from aioproducer.errors import ConfigError, KafkaError, ProducerError, TopicRecreatedError
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.errors.client import anew
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.foundation.runtime.tasks import in_turns, new_task
from aioproducer.model import TopicPartition
from aioproducer.reader.fetch_plan import FetchPlan
from aioproducer.reader.leaders import LeaderRefresh, Leaders
from aioproducer.reader.partition import NO_POSITION, Item, PartitionState
from aioproducer.reader.positions import PositionCheck
from aioproducer.reader.read_ahead import Choice, ReadAhead
from aioproducer.reader.requests import (
    Fetched,
    FetchedPartition,
    FetchLimits,
    FetchPartition,
    FetchRequest,
    FetchSession,
    Turn,
)

logger = ModuleLogger(__name__)

_LARGEST_RESPONSE: Final = MAX_RESPONSE_BYTES // 2
"""Bytes of records: a connection ends at a response of more than ``MAX_RESPONSE_BYTES``."""
_LONGEST_FAREWELL: Final = 1.0
"""Seconds in which brokers can answer when the fetcher ends."""
_OTHER_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


class FetchSettings(NamedTuple):
    """The settings of a fetcher. Times are seconds."""

    isolation: IsolationLevel
    limits: FetchLimits
    read_ahead: int
    """Bytes that may be read ahead, of all partitions."""
    check_crcs: bool
    offset_reset: str
    """``none``, ``earliest``, ``latest`` or ``by_duration:`` with a duration."""
    lookup_timeout: float
    fetch_timeout: float
    """More than ``request_timeout_ms``: a large response may pass (:class:`ConnectionTimeouts`)."""
    metadata_max_age: float
    patience: float
    """Seconds for which a topic may be unknown before its partitions fail."""
    rack: str = ""
    """The rack of the client; empty: leaders are fetched from."""

    @classmethod
    def of(cls, options: ReaderOptions, config: ProducerConfig) -> FetchSettings:
        """The settings by a reader's options.

        Raises:
            ConfigError: requests that wait for new records would time out.
        """
        wait, timeout = options.fetch_max_wait_ms, config.request_timeout_ms
        if wait >= timeout:
            raise ConfigError(
                f"fetch_max_wait_ms={wait} has to be less than request_timeout_ms={timeout}: a "
                "broker without new records responds after that time"
            )
        return cls(
            IsolationLevel[options.isolation_level.upper()],
            FetchLimits(
                wait,
                options.fetch_min_bytes,
                options.fetch_max_bytes,
                options.max_partition_fetch_bytes,
            ),
            options.read_ahead_bytes,
            options.check_crcs,
            options.auto_offset_reset,
            config.max_block_ms / 1000,
            MOST_TIMEOUTS * timeout / 1000,
            config.metadata_max_age_ms / 1000,
            config.max_block_ms / 1000,
            config.client_rack,
        )


class Fetcher:
    """Fetches for all partitions of a reader.

    One request at a time is on its way to each broker, for all partitions that are fetched there. A
    broker gets the next one when half of its share of the read-ahead is free again.

    ``missed`` is called when the brokers do not know a topic. ``recreated`` is called when a topic
    was deleted and created again, and returns True if it has begun its partitions anew.
    """

    def __init__(
        self,
        client: ClusterClient,
        partitions: Iterable[PartitionState],
        leaders: Leaders,
        settings: FetchSettings,
        missed: Callable[[str], None] = lambda _: None,
        recreated: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._client = client
        self._leaders = leaders
        self._settings = settings
        self.committed_only = settings.isolation is IsolationLevel.READ_COMMITTED
        """True: records of open and aborted transactions are not handed out."""
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self.read_ahead = ReadAhead(
            partitions, settings.read_ahead, self._arrived.set, self._wake.set
        )
        self._plan = FetchPlan(self.read_ahead, leaders, settings.metadata_max_age)
        self._busy: dict[int, asyncio.Event] = {}
        """The ids of brokers with a request on its way, and what is set at its end."""
        self._backoff = client.backoff()
        self._refresh = LeaderRefresh(settings.metadata_max_age, client.backoff(), client.clock())
        self._missed = missed
        self._recreated = recreated
        self._unknown: dict[str, float] = {}
        """The topics that brokers do not describe, and since when."""
        self._check = PositionCheck(
            client,
            self.read_ahead,
            self._failed,
            settings.isolation,
            settings.offset_reset,
            settings.lookup_timeout,
        )
        self._failure: ProducerError | None = None
        self._told: dict[str, ProducerError] = {}
        """The errors that the next reads raise, by their texts."""
        self.is_finished = False
        """True: nothing is handed out any more."""
        self._ends = False
        """True: no further request is sent."""
        self._waits_since: float | None = None
        """The time from which on the application waits; None: it does not."""
        self._of_topics = Counter(state.where.topic for state in self.partitions.values())
        """The number of partitions of each topic."""
        self.fetches = 0
        """The number of answers."""
        self.fetched_bytes = 0
        client.on_end = self._arrived.set
        self.on_take: Callable[[], None] = lambda: None
        """Called before a batch is handed out; it may pause partitions."""

    # --- the application's side --------------------------------------------------------------

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionState]:
        """The partitions."""
        return self.read_ahead.partitions

    async def next_item(self, choice: Choice | None = None) -> tuple[PartitionState, Item] | None:
        """Wait for a batch; None: every partition is read up to its end.

        ``choice``: says which partitions are wanted; call :meth:`choose_again` when it says others.
        Raises the error of a partition, which is tried again afterwards.
        """
        while not self.is_finished:
            if self._told:
                raise self._told.pop(next(iter(self._told)))
            self.on_take()
            found = self.read_ahead.take(choice)
            if found is not None:
                return found
            if self.read_ahead.is_done:
                return None
            self._client.check_usable()
            if self._failure is not None:
                raise anew(self._failure)
            self._arrived.clear()
            self._waits_since = self._client.clock()
            try:
                await self._arrived.wait()
            finally:
                self.count_wait()
                self._waits_since = None
        return None

    def choose_again(self) -> None:
        """The read that waits wants other partitions now."""
        self._arrived.set()

    def finish(self) -> None:
        """Hand out nothing any more, as if every partition were read up to its end."""
        self.is_finished = True
        self._arrived.set()

    def count_wait(self) -> None:
        """Count the time for which the application has waited since it was counted last."""
        if (since := self._waits_since) is not None:
            self._waits_since = now = self._client.clock()
            self._client.metrics.read_waited(now - since, now)

    @property
    def failure(self) -> ProducerError | None:
        """The error that each read raises."""
        return self._failure

    def fail(self, error: ProducerError) -> None:
        """Raise ``error`` in each read that would wait from now on."""
        self._failure = error
        self._arrived.set()

    def tell(self, error: ProducerError) -> None:
        """Raise ``error`` in the next read, once. If there are several, each read raises one."""
        self._told[str(error)] = error
        self._arrived.set()

    def seek(self, where: TopicPartition, offset: int, *, in_log: bool = True) -> None:
        """Read ``where`` from ``offset`` on; ``in_log``: see :class:`PartitionState`."""
        self.partitions[where].seek(offset, in_log=in_log)
        self._wake.set()
        self._arrived.set()  # it may be the end

    def fetch_again(self, state: PartitionState) -> None:
        """Drop what was read ahead of a partition, and fetch it from its position on."""
        state.restart(state.position)
        self._wake.set()

    # --- the partitions ----------------------------------------------------------------------

    def add(self, states: Iterable[PartitionState]) -> None:
        """Read more partitions from now on."""
        for state in states:
            self.read_ahead.add(state)
            self._of_topics[state.where.topic] += 1
            self._leaders.add(state.where.topic)
        self._wake.set()

    def refuse(self, where: TopicPartition, error: ProducerError) -> None:
        """Raise ``error`` in each turn of a partition without a position, until its release."""
        state = PartitionState(where, NO_POSITION, None)
        self.add([state])
        self.read_ahead.fail(state, error)

    def release(self, where: TopicPartition) -> None:
        """Read a partition no longer. Its read-ahead is dropped."""
        self.read_ahead.release(where)
        self._of_topics[where.topic] -= 1
        if not self._of_topics[where.topic]:
            del self._of_topics[where.topic]
            self._leaders.leave(where.topic)

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetch and hand out nothing of partitions until :meth:`resume`."""
        self.read_ahead.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions."""
        self.read_ahead.resume(*partitions)

    # --- rounds ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch until the client ends, or :meth:`end` is called."""
        while not (self._client.has_ended or self._ends):
            self._wake.clear()
            due = self._round(self._client.clock())
            if self._plan.is_behind:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(None if due is None else due - self._client.clock()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _round(self, now: float) -> float | None:
        """Send the requests that are due. Returns the time of the next round by the clock."""
        plan = self._plan
        plan.update(now)
        if plan.is_behind:
            return now
        if plan.lacks_leaders:
            self._refresh.request()
        doubts = plan.doubts
        for leader, doubted in doubts.items():
            if leader.id not in self._busy:
                self._start(leader.id, partial(self._check.validate, leader, doubted))
        sessions = {broker: session for broker, session in plan.sessions.items() if session}
        self.read_ahead.share(len(sessions.keys() | {leader.id for leader in doubts}))
        for broker, session in sessions.items():
            if broker not in self._busy:
                room = self.read_ahead.room_beside(session.buffered)
                if room > 0:
                    self._start(broker, partial(self._fetch, session, room))
        refresh = self._refresh.due
        if refresh is not None and refresh <= now:
            self._refresh.begin()
            self._client.start_task(self._refresh_leaders(), "aioproducer-refresh")
            refresh = None
        moments = (plan.next_look, refresh)
        return min((moment for moment in moments if moment is not None), default=None)

    def doubt_topic(self, where: TopicPartition) -> None:
        """A coordinator does not know the topic's id: another one may have its name now.

        The leaders know better, unless nothing is fetched from them.
        """
        state = self.partitions.get(where)
        if state is not None and state.paused and state.served_id is not None:
            self._leaders.refused(state.served_id)
        self._refresh.request()
        self._wake.set()

    def leave_cluster(self) -> None:
        """Another cluster answers. Positions stay; where a log lacks the offset, reading continues
        at the place that ``auto_offset_reset`` means."""
        self._leaders.leave_cluster()
        for state in self.partitions.values():
            state.leave_cluster()
        self._refresh.request()
        self._wake.set()

    def _start(self, broker: int, job: Callable[[], Awaitable[None]]) -> None:
        """Do ``job`` in a task; no other request goes to ``broker`` meanwhile."""
        done = self._busy[broker] = asyncio.Event()

        async def run() -> None:
            try:
                await job()
            finally:
                del self._busy[broker]
                done.set()
                self._wake.set()

        self._client.start_task(run(), f"aioproducer-fetch-{broker}")

    def _start_lookup(self, state: PartitionState) -> None:
        """Look for the range of a partition's offsets in a task; it is not fetched meanwhile."""
        self._plan.hold(state.where)

        async def run() -> None:
            try:
                await self._check.find_range(state)
            finally:
                self._plan.let_go(state.where)
                self._wake.set()

        self._client.start_task(run(), f"aioproducer-fetch-{state.where}")

    # --- leaders -----------------------------------------------------------------------------

    async def _refresh_leaders(self) -> None:
        failure: ProducerError | None = None
        errors: dict[str, ProducerError] = {}
        try:
            description = await self._client.describe(self._leaders.topics)
            failing = {each.where.topic for each in self.partitions.values() if each.failures}
            taking = self._leaders.taking(description, self._client.clock(), failing)
            errors = await in_turns(taking)
            for topic, error in [*errors.items()]:
                if isinstance(error, TopicRecreatedError) and self._recreated(topic):
                    self._leaders.renew(topic)
                    del errors[topic]
        except ProducerError as error:
            failure = error
        if self._client.has_ended:
            return
        now = self._client.clock()
        again = failure is not None or self._leaders.is_doubtful
        for state in self.partitions.values():
            topic = state.where.topic
            found = failure or errors.get(topic)
            if found is None:
                self._unknown.pop(topic, None)
            elif state.wants_records:
                passes = self._client.may_pass(found)
                again = again or passes
                if not passes or self._is_missing(topic, found, now):
                    self.read_ahead.fail(state, found)
        self._refresh.end(now, again=again)
        self._plan.look_again()
        self._wake.set()

    def _is_missing(self, topic: str, error: ProducerError, now: float) -> bool:
        """True if brokers have not known ``topic`` for so long that its partitions fail."""
        logger.debug("Leaders of topic %r are asked for again: %s", topic, error)
        if not isinstance(error, KafkaError):
            return False
        self._missed(topic)
        return now - self._unknown.setdefault(topic, now) > self._settings.patience

    # --- the end -----------------------------------------------------------------------------

    async def end(self) -> None:
        """Fetch no more, and let the brokers forget their sessions (KIP-227), within a second.

        A broker that is not connected is left alone. Source: Kafka's ``maybeCloseFetchSessions``.
        """
        self._ends = True
        self._wake.set()
        jobs = [new_task(self._end(each)) for each in self._plan.sessions.values()]
        try:
            if jobs:
                await asyncio.wait(jobs, timeout=_LONGEST_FAREWELL)
        finally:
            for job in jobs:
                job.cancel()

    async def _end(self, session: FetchSession) -> None:
        node = session.node
        if (busy := self._busy.get(node.id)) is not None:  # the broker answers that one first
            await busy.wait()
        place = session.farewell
        if place is None or not self._client.is_connected(node):
            return
        limits = self._settings.limits._replace(max_wait_ms=0)
        request = FetchRequest((), self._settings.isolation, limits, {}, place)
        try:
            await self._client.request(request, node, _LONGEST_FAREWELL)
        except ProducerError as error:
            logger.debug("The fetch session of %s is left open: %s", node, error, error=error)

    # --- fetching ----------------------------------------------------------------------------

    async def _fetch(self, session: FetchSession, room: int) -> None:
        node, limits = session.node, self._settings.limits
        turn = session.next_turn()
        request = FetchRequest(
            turn.named,
            self._settings.isolation,
            limits._replace(
                max_wait_ms=0 if turn.has_more else limits.max_wait_ms,
                max_bytes=min(limits.max_bytes, room, _LARGEST_RESPONSE),
            ),
            session.topics,
            turn.place,
            turn.forgotten,
            self._settings.rack,
            turn.has_ids,
        )
        try:
            timeout = self._settings.fetch_timeout
            fetched: Fetched = await self._client.request(request, node, timeout)
        except ProducerError as error:
            session.fail()
            self._failed_all(session, error)
            return
        goes_on = session.take(turn, fetched)
        if fetched.error_code and goes_on:
            refused = error_about(f"{node} refused a fetch", fetched.error_code)
            self._failed_all(session, refused)
        elif not fetched.error_code:
            await self._take(session, turn, fetched)

    def _failed_all(self, session: FetchSession, error: ProducerError) -> None:
        """A whole request failed."""
        for where in session:
            self._plan.failed(where)
        states = [self.partitions[where] for where in session if where in self.partitions]
        self._failed(states, error)

    async def _take(self, session: FetchSession, turn: Turn, fetched: Fetched) -> None:
        """Take a response, with pauses for other tasks."""
        self.fetches += 1
        session.answered_ns = self._client.wall_clock_ns()
        if not turn.is_full and not fetched.is_withheld:
            self._take_silence(turn, fetched)
        turn_began = self._client.clock()
        for where, found in fetched.partitions.items():
            state, said = self.partitions.get(where), session.said(where)
            if state is None or said is None:
                continue
            for _ in self._taking(state, said, found, by_ids=fetched.by_ids):
                if self._client.clock() - turn_began > tuning.LONGEST_READ_TURN:
                    await asyncio.sleep(0)
                    turn_began = self._client.clock()

    def _take_silence(self, turn: Turn, fetched: Fetched) -> None:
        """The partitions that were named, and left out by the response, have nothing to fetch."""
        for said in turn.named:
            state = self.partitions.get(said.where)
            if said.where not in fetched.partitions and state is not None and _still(state, said):
                state.found_nothing()
                self.read_ahead.announce(state)

    def _taking(
        self,
        state: PartitionState,
        said: FetchPartition,
        fetched: FetchedPartition,
        *,
        by_ids: bool,
    ) -> Iterator[None]:
        """Take a partition's response in steps, until fetching restarts at another place."""
        yield
        if not _still(state, said):
            if not fetched.error_code:  # a session does not repeat them
                state.see_ends(fetched)
            return
        if fetched.error_code:
            self._take_error(state, fetched.error_code)
            return
        if said.topic_id is not None:
            state.served_id = said.topic_id
            self._leaders.served(state.where.topic, said.topic_id, by_id=by_ids)
        if fetched.preferred_read_replica not in (-1, self._plan.sources.get(state.where)):
            self._take_preference(state, fetched)
        else:
            yield from self._taking_batches(state, fetched)

    def _take_error(self, state: PartitionState, code: int) -> None:
        follower = self._plan.failed(state.where)
        if code in _OTHER_TOPIC and not follower and state.served_id is not None:
            self._leaders.refused(state.served_id)
        if code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._failed([state], error_about(state.where, code, Api.FETCH))
        elif follower:  # its log may begin and end elsewhere than the leader's
            self._wait_after_failure([state])
        else:
            self._start_lookup(state)

    def _take_preference(self, state: PartitionState, fetched: FetchedPartition) -> None:
        """The leader gives no records, and names the follower that does (KIP-392)."""
        state.see_ends(fetched)
        if self._plan.prefer(state, fetched.preferred_read_replica, self._client.clock()):
            state.succeeded()
        else:
            error = error_about(state.where, ErrorCode.REPLICA_NOT_AVAILABLE)
            self._failed([state], error)

    def _taking_batches(self, state: PartitionState, fetched: FetchedPartition) -> Iterator[None]:
        before, restarts = state.fetch_offset, state.restarts
        self.fetched_bytes += len(fetched.records)
        for _ in state.taking(
            fetched,
            committed_only=self.committed_only,
            check_crcs=self._settings.check_crcs,
        ):
            yield
            if state.restarts != restarts:
                return
        if fetched.records and state.fetch_offset == before:  # more such batches would come
            self._wait_after_failure([state])
        else:
            state.succeeded()
        self.read_ahead.announce(state)

    def _failed(self, states: Collection[PartitionState], error: ProducerError) -> None:
        """Try again after a backoff, or give the application an error that does not pass."""
        if self._client.has_ended:
            return
        if not self._client.may_pass(error):
            for state in states:
                self.read_ahead.fail(state, error)
            return
        self._wait_after_failure(states)
        if error.refresh_metadata:
            self._refresh.request()

    def _wait_after_failure(self, states: Collection[PartitionState]) -> None:
        """Let the partitions of a request wait equally long: one request asks for them all."""
        failures = 1 + max((state.failures for state in states), default=0)
        not_before = self._client.clock() + self._backoff.delay(failures)
        for state in states:
            state.failed(not_before)


def _still(state: PartitionState, said: FetchPartition) -> bool:
    """True if the partition is still to be fetched as a request said."""
    return (said.reader, said.restarts, said.offset) == (
        state.number,
        state.restarts,
        state.fetch_offset,
    )
