"""The requests of a reader: records are fetched ahead from each leader, within a bound of bytes.

Source: Kafka's ``Fetcher``, with a task in place of the calls of ``poll()``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from aioproducer.config import ProducerConfig, ReaderOptions
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.list_offsets import IsolationLevel
from aioproducer.engine.network.frames import MAX_RESPONSE_BYTES
from aioproducer.errors import ProducerError, anew, error_about
from aioproducer.model import Node, TopicPartition
from aioproducer.reader.fetch_request import (
    Fetched,
    FetchedPartition,
    FetchLimits,
    FetchPartition,
    FetchRequest,
)
from aioproducer.reader.leader_refresh import LeaderRefresh
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.partition import Item, PartitionState
from aioproducer.reader.position_check import PositionCheck
from aioproducer.reader.read_ahead import ReadAhead

_OUT_OF_RANGE: Final = 1
_LARGEST_RESPONSE: Final = MAX_RESPONSE_BYTES // 2
"""Bytes of records: a connection ends at a response of more than ``MAX_RESPONSE_BYTES``."""
_LONGEST_TURN: Final = 0.002
"""Seconds for which a response is taken before other tasks have a turn."""


class FetchSettings(NamedTuple):
    """The settings of a fetcher. Times are seconds."""

    isolation: IsolationLevel
    limits: FetchLimits
    read_ahead: int
    """Bytes that may be read ahead, of all partitions."""
    check_crcs: bool
    offset_reset: str
    """``none``, ``earliest`` or ``latest``."""
    lookup_timeout: float
    metadata_max_age: float

    @classmethod
    def of(cls, options: ReaderOptions, config: ProducerConfig) -> FetchSettings:
        """The settings by a reader's options."""
        return cls(
            IsolationLevel[options.isolation_level.upper()],
            FetchLimits(
                options.fetch_max_wait_ms,
                options.fetch_min_bytes,
                options.fetch_max_bytes,
                options.max_partition_fetch_bytes,
            ),
            options.read_ahead_bytes,
            options.check_crcs,
            options.auto_offset_reset,
            config.max_block_ms / 1000,
            config.metadata_max_age_ms / 1000,
        )


class Fetcher:
    """Fetches for all partitions of a reader.

    One request at a time is on its way to each leader, for all of its partitions. A leader gets the
    next one when half of its share of the read-ahead is free again.
    """

    def __init__(
        self,
        client: ClusterClient,
        partitions: Iterable[PartitionState],
        leaders: Leaders,
        settings: FetchSettings,
    ) -> None:
        self._client = client
        self._leaders = leaders
        self._settings = settings
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self.read_ahead = ReadAhead(
            partitions, settings.read_ahead, self._arrived.set, self._wake.set
        )
        self._turns = dict(self.read_ahead.partitions)
        """The partitions in the order in which the next requests name them."""
        self._busy: set[int | TopicPartition] = set()
        """The ids of leaders with a request on its way, and partitions whose range is looked up."""
        self._backoff = client.backoff()
        self._refresh = LeaderRefresh(
            client,
            leaders,
            self.read_ahead,
            settings.metadata_max_age,
            settings.lookup_timeout,
            self._wake.set,
        )
        self._check = PositionCheck(
            client,
            self.read_ahead,
            self._failed,
            settings.isolation,
            settings.offset_reset,
            settings.lookup_timeout,
        )
        self._failure: ProducerError | None = None
        self.fetches = 0
        """The number of answers."""
        self.fetched_bytes = 0
        client.on_end = self._arrived.set

    # --- the application's side --------------------------------------------------------------

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionState]:
        """The partitions."""
        return self.read_ahead.partitions

    async def next_item(self) -> tuple[PartitionState, Item] | None:
        """Wait for a batch; None: every partition is read up to its end.

        Raises the error of a partition, which is tried again afterwards.
        """
        while True:
            found = self.read_ahead.take()
            if found is not None:
                return found
            if self.read_ahead.is_done:
                return None
            self._client.check_usable()
            if self._failure is not None:
                raise anew(self._failure)
            self._arrived.clear()
            await self._arrived.wait()

    @property
    def failure(self) -> ProducerError | None:
        """The error that each read raises."""
        return self._failure

    def fail(self, error: ProducerError) -> None:
        """Raise ``error`` in each read that would wait from now on."""
        self._failure = error
        self._arrived.set()

    def seek(self, where: TopicPartition, offset: int, *, in_log: bool = True) -> None:
        """Read ``where`` from ``offset`` on; ``in_log``: see :class:`PartitionState`."""
        self.partitions[where].seek(offset, in_log=in_log)
        self._wake.set()
        self._arrived.set()  # it may be the end

    # --- the partitions ----------------------------------------------------------------------

    def add(self, states: Iterable[PartitionState]) -> None:
        """Read more partitions from now on."""
        for state in states:
            self.read_ahead.add(state)
            self._turns[state.where] = state
            self._leaders.add(state.where.topic)
        self._wake.set()

    def release(self, where: TopicPartition) -> None:
        """Read a partition no longer. What was read ahead of it is dropped."""
        self.read_ahead.release(where)
        del self._turns[where]
        if all(each.topic != where.topic for each in self._turns):
            self._leaders.forget(where.topic)

    def pause(self, where: TopicPartition) -> None:
        """Fetch and hand out nothing of a partition until :meth:`resume`."""
        self.read_ahead.pause(where)

    def resume(self, where: TopicPartition) -> None:
        """Go on with a partition that was paused."""
        self.read_ahead.resume(where)

    # --- rounds ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch until the client ends."""
        while not self._client.has_ended:
            self._wake.clear()
            due = self._round(self._client.clock())
            try:
                async with asyncio.timeout(None if due is None else due - self._client.clock()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _round(self, now: float) -> float | None:
        """Send the requests that are due. Returns the time of the next round by the clock."""
        led, moments = self._by_leader(now)
        self.read_ahead.share(len(led))
        for leader, states in led.items():
            if leader.id in self._busy:
                continue
            unsure = [(state, epoch) for state, epoch in states if state.moved_to(epoch)]
            if unsure:
                doubted, epochs = zip(*unsure, strict=True)
                self._start(leader.id, partial(self._check.validate, leader, doubted, epochs))
            else:
                self._fetch_if_free(leader, [state for state, _ in states])
        moments.append(self._refresh.step(now))
        return min((moment for moment in moments if moment is not None), default=None)

    def _by_leader(
        self, now: float
    ) -> tuple[dict[Node, list[tuple[PartitionState, int]]], list[float | None]]:
        """The partitions that can be fetched now, with the epochs of their leaders.

        And the times at which others can be.
        """
        led: dict[Node, list[tuple[PartitionState, int]]] = {}
        moments: list[float | None] = []
        for state in self._turns.values():
            if not state.wants_records or state.where in self._busy:
                continue
            leader = self._leaders.leader(state.where)
            if leader is None:
                self._refresh.request()
            elif state.not_before > now:
                moments.append(state.not_before)
            else:
                led.setdefault(leader.node, []).append((state, leader.epoch))
        return led, moments

    def _start(self, key: int | TopicPartition, job: Callable[[], Awaitable[None]]) -> None:
        """Do ``job`` in a task; nothing else is done for ``key`` meanwhile."""
        self._busy.add(key)

        async def run() -> None:
            try:
                await job()
            finally:
                self._busy.discard(key)
                self._wake.set()

        self._client.start_task(run(), f"aioproducer-fetch-{key}")

    # --- fetching ----------------------------------------------------------------------------

    def _fetch_if_free(self, leader: Node, states: Sequence[PartitionState]) -> None:
        room = self.read_ahead.room_for(states)
        if room > 0:
            self._start(leader.id, partial(self._fetch, leader, states, room))

    async def _fetch(self, leader: Node, states: Sequence[PartitionState], room: int) -> None:
        states = [each for each in states if self.partitions.get(each.where) is each]
        if not states:  # they were released in the turn in which the task began
            return
        limits = self._settings.limits
        request = FetchRequest(
            [FetchPartition(each.where, each.fetch_offset, each.leader_epoch) for each in states],
            self._leaders.topic_ids,
            self._settings.isolation,
            limits._replace(max_bytes=min(limits.max_bytes, room, _LARGEST_RESPONSE)),
        )
        restarts = [each.restarts for each in states]
        try:
            fetched: Fetched = await self._client.request(request, leader)
        except ProducerError as error:
            self._failed(states, error)
            return
        if fetched.error_code:
            self._failed(states, error_about(f"{leader} refused a fetch", fetched.error_code))
            return
        turn_began = self._client.clock()
        self.fetches += 1
        for state, before in zip(states, restarts, strict=True):
            for _ in self._taking(state, before, fetched.partitions[state.where]):
                if self._client.clock() - turn_began > _LONGEST_TURN:
                    await asyncio.sleep(0)
                    turn_began = self._client.clock()

    def _taking(
        self, state: PartitionState, restarts: int, fetched: FetchedPartition
    ) -> Iterator[None]:
        """Take a partition's response in steps, until fetching begins anew at another place."""
        yield
        if state.restarts != restarts:
            return
        if fetched.error_code == _OUT_OF_RANGE:
            self._start(state.where, partial(self._check.find_range, state))
        elif fetched.error_code:
            self._failed([state], error_about(state.where, fetched.error_code))
        else:
            yield from self._taking_batches(state, restarts, fetched)

    def _taking_batches(
        self, state: PartitionState, restarts: int, fetched: FetchedPartition
    ) -> Iterator[None]:
        before = state.fetch_offset
        self.fetched_bytes += len(fetched.records)
        for _ in state.taking(
            fetched,
            committed_only=self._settings.isolation is IsolationLevel.READ_COMMITTED,
            check_crcs=self._settings.check_crcs,
        ):
            yield
            if state.restarts != restarts:
                return
        if state.fetch_offset > before:
            self._turns[state.where] = self._turns.pop(state.where)
        if fetched.records and state.fetch_offset == before:  # more such batches would come
            state.failed(self._client.clock(), self._backoff)
        else:
            state.succeeded()
        self.read_ahead.announce(state)

    def _failed(self, states: Iterable[PartitionState], error: ProducerError) -> None:
        """Try again after a backoff, or give the application an error that does not pass."""
        if self._client.has_ended:
            return
        passes = self._client.may_pass(error)
        for state in states:
            if passes:
                state.failed(self._client.clock(), self._backoff)
            else:
                self.read_ahead.fail(state, error)
        if passes and error.refresh_metadata:
            self._refresh.request()
