"""Positions as users give them, their offsets, and what follows if a log lacks one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from aioproducer.config.kinds import by_duration
from aioproducer.engine.client.arguments import check_partition, checked_topic, countdown
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.offset_lookup import lookup_offsets
from aioproducer.engine.client.requests import (
    EARLIEST,
    LATEST,
    ClusterDescription,
    FoundOffset,
    IsolationLevel,
)
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    ConfigError,
    LeaderNotAvailableError,
    LogTruncatedError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ProducerError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aioproducer.errors.broker import error_about
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.model import Node, TopicPartition
from aioproducer.reader.fetch_plan import Doubt
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.read_ahead import ReadAhead
from aioproducer.reader.requests import EpochEnd, EpochEndRequest, EpochOfPosition

logger = plain_logger(__name__)

Position: TypeAlias = int | datetime | Literal["beginning", "end"]
"""An offset (a negative one counts from the end), a time, the beginning or the end."""

Source: TypeAlias = str | tuple[str, int]
"""A topic, which means all of its partitions, or a :class:`TopicPartition`."""

Assignment: TypeAlias = Source | Iterable[Source] | Mapping[TopicPartition, int]
"""The partitions to read; a mapping gives each its own offset, such as ``reader.positions``."""

_OFFSETS_END: Final = 2**63
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Assigned(NamedTuple):
    """A topic or partition of an assignment, with the position at which reading starts."""

    topic: str
    partition: int | None
    """None: all partitions."""
    start: Position


def checked_position(name: str, position: Any, *others: str) -> Position:
    """``position``, the argument ``name``. Raises :class:`ConfigError` if it is none.

    ``others``: what else the caller takes, for the error.
    """
    if isinstance(position, datetime):
        try:
            position.timestamp()
        except (ValueError, OverflowError, OSError) as error:
            raise ConfigError(f"{name} has no timestamp: {position}, {error}") from error
        return position
    if isinstance(position, int) and not isinstance(position, bool):
        if position >= _OFFSETS_END:
            raise ConfigError(f"{name} is an offset below 2**63, not {position!r:.80}")
        return position
    if isinstance(position, str) and position in ("beginning", "end"):
        return position  # type: ignore[return-value]
    words = ", ".join(map(repr, ("beginning", *others)))
    raise ConfigError(f"{name} is an offset, a datetime, {words} or 'end', not {position!r:.80}")


def assigned(assignment: Any, start: Position) -> list[Assigned]:
    """The topics and partitions of an assignment, each once.

    Raises ConfigError or InvalidTopicError for one that no reader takes.
    """
    if isinstance(assignment, Mapping):
        starts = [(source, checked_position("a start", at)) for source, at in assignment.items()]
    elif isinstance(assignment, str) or _is_partition(assignment):
        starts = [(assignment, start)]
    elif isinstance(assignment, Iterable) and not isinstance(assignment, bytes):
        starts = [(source, start) for source in assignment]
    else:
        raise ConfigError(
            "the assignment is a topic, a TopicPartition, some of them, or offsets by "
            f"TopicPartition, not {assignment!r:.80}"
        )
    found = {_source(source): at for source, at in starts}
    if not found:
        raise ConfigError("the assignment is empty: name a topic or a TopicPartition")
    whole = {topic for topic, partition in found if partition is None}
    twice = sorted(topic for topic, partition in found if partition is not None and topic in whole)
    if twice:
        raise ConfigError(f"the assignment names the topic {twice[0]!r} and a partition of it")
    return [Assigned(topic, partition, at) for (topic, partition), at in found.items()]


def _is_partition(source: Any) -> bool:
    return (
        isinstance(source, tuple)
        and len(source) == 2
        and isinstance(source[0], str)
        and isinstance(source[1], int)
    )


def _source(source: Any) -> tuple[str, int | None]:
    if isinstance(source, str):
        return checked_topic(source), None
    if not _is_partition(source):
        raise ConfigError(f"{source!r:.80} is neither a topic nor a TopicPartition")
    check_partition(source[1], checked_topic(source[0]))
    return source[0], source[1]


def reset_position(option: str) -> Position | None:
    """The position that ``auto_offset_reset`` means now; None: none."""
    match option:
        case "none":
            return None
        case "earliest":
            return "beginning"
        case "latest":
            return "end"
    duration = by_duration(option)
    assert duration is not None, option
    now = datetime.now(UTC)
    return max(now - min(duration, now - _EPOCH), _EPOCH)


def timestamp_of(position: Position) -> int | None:
    """The timestamp to look a position up by; None: it is an offset from the beginning."""
    if isinstance(position, datetime):
        return max(int(position.timestamp() * 1000), 0)
    if position == "beginning":
        return EARLIEST
    if position == "end" or position < 0:
        return LATEST
    return None


def offset_of(position: Position, found: int, *, beginning: int, end: int) -> int:
    """The offset that a position means, when the cluster was asked for :func:`timestamp_of` it.

    ``found``: the offset in the response; -1: no record is so late, which means the end.
    """
    if isinstance(position, int):
        return position if position >= 0 else max(end + position, beginning)
    if found < 0:
        return end
    return found


# --- offsets of positions -----------------------------------------------------------------------

_GRACE: Final = 5.0
"""Seconds that brokers have to learn of a topic that was just created."""


async def find_partitions(
    client: ClusterClient, assigned: Iterable[Assigned], timeout: float
) -> tuple[ClusterDescription, dict[TopicPartition, Position]]:
    """The cluster, and the start of each partition of an assignment.

    ``timeout``: seconds. Raises the error of a topic; a topic or partition that is still unknown
    after 5 seconds is such an error.
    """
    assigned = list(assigned)
    topics = dict.fromkeys(each.topic for each in assigned)
    began, backoff, failures = client.clock(), client.backoff(), 0
    left = countdown(timeout, client.clock)
    while True:
        try:
            cluster = await client.describe(topics, timeout=left())
            return cluster, _partitions(cluster, assigned)
        except ProducerError as error:
            failures += 1
            delay = backoff.delay(failures)
            unknown = isinstance(error, UnknownTopicOrPartitionError)
            end = began + (min(timeout, _GRACE) if unknown else timeout)
            if not client.may_pass(error) or client.clock() + delay >= end:
                raise
        await asyncio.sleep(delay)


def _partitions(
    cluster: ClusterDescription, assigned: Iterable[Assigned]
) -> dict[TopicPartition, Position]:
    starts: dict[TopicPartition, Position] = {}
    known: dict[str, dict[int, None]] = {}
    for topic, partition, start in assigned:
        if topic not in known:
            known[topic] = _numbers(cluster, topic)
        there = known[topic]
        if partition is not None and partition not in there:
            why = cluster.topics[topic].why_unknown(partition)
            raise UnknownTopicOrPartitionError(f"{topic}-{partition}: {why}")
        for number in there if partition is None else [partition]:
            starts[TopicPartition(topic, number)] = start
    return starts


def _numbers(cluster: ClusterDescription, topic: str) -> dict[int, None]:
    """The numbers of a topic's partitions. Raises the error of the topic."""
    described = cluster.topics[topic]
    if described.error_code:
        raise error_about(f"topic {topic!r}", described.error_code, Api.METADATA)
    if not described.partitions:
        raise LeaderNotAvailableError(f"topic {topic!r} has no partitions yet")
    return dict.fromkeys(each.partition for each in described.partitions)


async def find_beyond(
    client: ClusterClient,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int | None],
    timeout: float,
) -> set[TopicPartition]:
    """The partitions whose log lacks their offset, of those that nothing is fetched from.

    From an offset before the end, the first fetch shows it. ``timeout``: seconds.
    """
    unread = [
        where
        for where, offset in offsets.items()
        if (end := ends.get(where)) is not None and offset >= end
    ]
    if not unread:
        return set()
    # The records of open transactions are in the log, whatever the isolation.
    beginnings, high_watermarks = await asyncio.gather(
        lookup_offsets(client, dict.fromkeys(unread, EARLIEST), timeout=timeout),
        lookup_offsets(client, dict.fromkeys(unread, LATEST), timeout=timeout),
    )
    return {
        where
        for where in unread
        if not beginnings[where].offset <= offsets[where] <= high_watermarks[where].offset
    }


async def find_offsets(
    client: ClusterClient,
    positions: Mapping[TopicPartition, Position],
    isolation: IsolationLevel,
    timeout: float,
) -> dict[TopicPartition, int]:
    """The offset of each position. ``timeout``: seconds. Raises the error of a partition."""
    times = {where: timestamp_of(position) for where, position in positions.items()}
    from_end = [where for where, at in positions.items() if isinstance(at, int) and at < 0]
    beyond = [where for where, at in times.items() if at is not None and at >= 0]

    async def lookup(
        wanted: Mapping[TopicPartition, int],
    ) -> Mapping[TopicPartition, FoundOffset]:
        if not wanted:
            return {}
        return await lookup_offsets(client, wanted, isolation=isolation, timeout=timeout)

    found, beginnings, ends = await asyncio.gather(
        new_task(lookup({where: at for where, at in times.items() if at is not None})),
        new_task(lookup(dict.fromkeys(from_end, EARLIEST))),
        new_task(lookup(dict.fromkeys([*from_end, *beyond], LATEST))),
    )
    return {
        where: offset_of(
            position,
            found[where].offset if where in found else -1,
            beginning=beginnings[where].offset if where in beginnings else 0,
            end=ends[where].offset if where in ends else 0,
        )
        for where, position in positions.items()
    }


# --- positions that a log lacks -----------------------------------------------------------------

Failed = Callable[[Collection[PartitionState], ProducerError], None]


class PositionCheck:
    """Finds out if a position is still valid, and continues elsewhere or fails.

    ``failed`` gets the error of a request. ``reset``: ``auto_offset_reset``. ``timeout``: seconds.
    Source: KIP-320, and Kafka's ``OffsetFetcher``.
    """

    def __init__(
        self,
        client: ClusterClient,
        read_ahead: ReadAhead,
        failed: Failed,
        isolation: IsolationLevel,
        reset: str,
        timeout: float,
    ) -> None:
        self._client = client
        self._read_ahead = read_ahead
        self._failed = failed
        self._isolation = isolation
        self._reset = reset
        self._timeout = timeout

    # --- out of range ------------------------------------------------------------------------

    async def find_range(self, state: PartitionState) -> None:
        """A leader has said that the log lacks the offset to fetch: look for those that it has."""
        restarts = state.restarts
        reset = "beginning" if state.from_beginning else reset_position(self._reset)
        try:
            first = await self._offset(state.where, "beginning")
            end = await self._offset(state.where, "end")
            known: dict[Position | None, int] = {"beginning": first, "end": end}
            to = known.get(reset)
            if isinstance(reset, datetime):
                to = await self._offset(state.where, reset)
        except ProducerError as error:
            self._failed([state], error)
            return
        if state.restarts == restarts:
            self._take_range(state, first, end, to)

    async def _offset(self, where: TopicPartition, position: Position) -> int:
        wanted = {where: position}
        return (await find_offsets(self._client, wanted, self._isolation, self._timeout))[where]

    def _take_range(self, state: PartitionState, first: int, end: int, to: int | None) -> None:
        offset = state.fetch_offset
        what = (
            f"{state.where}: the log has no offset {offset}: it begins at {first} and ends at {end}"
        )
        if first <= offset <= end:  # the leader has changed meanwhile
            self._failed([state], NotLeaderOrFollowerError(what))
            return
        if to is None:
            error = OffsetOutOfRangeError(
                f"{what}. seek() to one of its offsets, or set auto_offset_reset"
            )
            self._read_ahead.fail(state, error)
            return
        logger.warning("%s; reading continues at offset %d", what, to)
        if to < offset:
            state.seek(to)
        else:
            state.skip_to(to)
        self._read_ahead.announce(state)

    # --- truncation --------------------------------------------------------------------------

    async def validate(self, node: Node, doubts: Sequence[Doubt]) -> None:
        """Ask a new leader if its log has the records that were read from the last one."""
        restarts = [state.restarts for state, _ in doubts]
        request = EpochEndRequest(
            [EpochOfPosition(each.where, to.epoch, each.read_epoch) for each, to in doubts]
        )
        try:
            ends: Mapping[TopicPartition, EpochEnd] = await self._client.request(request, node)
        except UnsupportedVersionError:
            for state, leader in doubts:
                state.validated(leader.epoch)
            return
        except ProducerError as error:
            self._failed([state for state, _ in doubts], error)
            return
        to_reset = [
            (state, leader.epoch)
            for (state, leader), before in zip(doubts, restarts, strict=True)
            if state.restarts == before
            and self._is_to_reset(state, ends[state.where], leader.epoch)
        ]
        if to_reset:
            await self._reset_truncated(to_reset)

    def _is_to_reset(self, state: PartitionState, end: EpochEnd, leader_epoch: int) -> bool:
        """Take the answer of a leader; True: ``auto_offset_reset`` says where to continue."""
        if end.error_code:
            error = error_about(state.where, end.error_code, Api.OFFSET_FOR_LEADER_EPOCH)
            self._failed([state], error)
            return False
        state.succeeded()
        known = end.leader_epoch >= 0 and end.end_offset >= 0
        if known and state.read_to <= end.end_offset:
            if state.fetch_offset > end.end_offset:
                state.truncate(end.end_offset, end.leader_epoch)
            state.validated(leader_epoch)
        elif self._reset == "none":
            what = _truncated(state, end.end_offset)
            text = f"{what}. seek() to the offset where reading should continue"
            self._read_ahead.fail(state, LogTruncatedError(text))
        elif known:
            _continue(state, end.end_offset, _truncated(state, end.end_offset), leader_epoch)
        return not known and self._reset != "none"

    async def _reset_truncated(self, truncated: Sequence[tuple[PartitionState, int]]) -> None:
        """Continue where ``auto_offset_reset`` says in logs that were truncated somewhere."""
        to = reset_position(self._reset)
        assert to is not None
        restarts = [state.restarts for state, _ in truncated]
        wanted = {state.where: to for state, _ in truncated}
        try:
            found = await find_offsets(self._client, wanted, self._isolation, self._timeout)
        except ProducerError as error:
            self._failed([state for state, _ in truncated], error)
            return
        for (state, leader_epoch), before in zip(truncated, restarts, strict=True):
            if state.restarts == before:
                what = _truncated(state, -1)
                _continue(state, found[state.where], what, leader_epoch)


def _continue(state: PartitionState, offset: int, what: str, leader_epoch: int) -> None:
    logger.warning("%s; reading continues at offset %d", what, offset)
    state.seek(offset)
    state.validated(leader_epoch)


def _truncated(state: PartitionState, end: int) -> str:
    """``end``: the offset at which the log was truncated; -1: unknown."""
    to = f"to offset {end}" if end >= 0 else "by an unclean leader election"
    return (
        f"{state.where}: the log was truncated {to}, and records up to offset "
        f"{state.read_to - 1} had been read: some of these are lost, and others may have their "
        "offsets"
    )
