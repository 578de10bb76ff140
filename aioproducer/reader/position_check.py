"""Positions that a leader's log may lack: out of its range, or after a truncation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.offset_lookup import lookup_offsets
from aioproducer.engine.client.requests import EARLIEST, LATEST, FoundOffset, IsolationLevel
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    LogTruncatedError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ProducerError,
    UnsupportedVersionError,
    error_about,
)
from aioproducer.foundation.logs import plain_logger
from aioproducer.model import Node, TopicPartition
from aioproducer.reader.epoch_request import EpochEnd, EpochEndRequest, EpochOfPosition
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.positions import reset_position, timestamp_of
from aioproducer.reader.read_ahead import ReadAhead

logger = plain_logger(__name__)

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
        first = await self._lookup(state, EARLIEST)
        end = None if first is None else await self._lookup(state, LATEST)
        to = None if end is None else await self._reset_offset(state)
        if first is not None and end is not None and to is not None and state.restarts == restarts:
            self._take_range(state, first.offset, end.offset, to.offset)

    async def _reset_offset(self, state: PartitionState) -> FoundOffset | None:
        """The offset of the time that ``auto_offset_reset`` means; -1: it is no time."""
        place = reset_position(self._reset)
        timestamp = timestamp_of(place) if isinstance(place, datetime) else None
        if timestamp is None:
            return FoundOffset(0, -1, -1, -1)
        return await self._lookup(state, timestamp)

    async def _lookup(self, state: PartitionState, timestamp: int) -> FoundOffset | None:
        wanted = {state.where: timestamp}
        try:
            found = await lookup_offsets(
                self._client, wanted, isolation=self._isolation, timeout=self._timeout
            )
        except ProducerError as error:
            self._failed([state], error)
            return None
        return found[state.where]

    def _take_range(self, state: PartitionState, first: int, end: int, by_time: int) -> None:
        offset = state.fetch_offset
        reset = "earliest" if state.from_beginning else self._reset
        what = (
            f"{state.where}: the log has no offset {offset}: it begins at {first} and ends at {end}"
        )
        if first <= offset <= end:  # the leader has changed meanwhile
            self._failed([state], NotLeaderOrFollowerError(what))
            return
        if reset == "none":
            error = OffsetOutOfRangeError(
                f"{what}. seek() to one of its offsets, or set auto_offset_reset"
            )
            self._read_ahead.fail(state, error)
            return
        to = first if reset == "earliest" else end if by_time < 0 else by_time
        logger.warning("%s; reading continues at offset %d", what, to)
        if to < offset:
            state.seek(to)
        else:
            state.skip_to(to)
        self._read_ahead.announce(state)

    # --- truncation --------------------------------------------------------------------------

    async def validate(
        self, leader: Node, states: Sequence[PartitionState], epochs: Sequence[int]
    ) -> None:
        """Ask a new leader if its log has the records that were read from the last one.

        ``epochs``: the leader's epochs.
        """
        restarts = [each.restarts for each in states]
        request = EpochEndRequest(
            [
                EpochOfPosition(each.where, epoch, each.read_epoch)
                for each, epoch in zip(states, epochs, strict=True)
            ]
        )
        try:
            ends: Mapping[TopicPartition, EpochEnd] = await self._client.request(request, leader)
        except UnsupportedVersionError:
            for state, epoch in zip(states, epochs, strict=True):
                state.validated(epoch)
            return
        except ProducerError as error:
            self._failed(states, error)
            return
        for state, epoch, before in zip(states, epochs, restarts, strict=True):
            if state.restarts == before:
                self._take_end(state, ends[state.where], epoch)

    def _take_end(self, state: PartitionState, end: EpochEnd, leader_epoch: int) -> None:
        if end.error_code:
            error = error_about(state.where, end.error_code, Api.OFFSET_FOR_LEADER_EPOCH)
            self._failed([state], error)
            return
        state.succeeded()
        known = end.leader_epoch >= 0 and end.end_offset >= 0
        if known and state.fetch_offset <= end.end_offset:
            state.validated(leader_epoch)
        elif known and state.read_to <= end.end_offset:
            state.truncate(end.end_offset, end.leader_epoch)
            state.validated(leader_epoch)
        elif known and self._reset != "none":
            logger.warning(
                "%s; reading continues at offset %d", _truncated(state, end), end.end_offset
            )
            state.seek(end.end_offset)
            state.validated(leader_epoch)
        else:
            text = f"{_truncated(state, end)}. seek() to the offset where reading should continue"
            self._read_ahead.fail(state, LogTruncatedError(text))


def _truncated(state: PartitionState, end: EpochEnd) -> str:
    to = f"to offset {end.end_offset}" if end.end_offset >= 0 else "by an unclean leader election"
    return (
        f"{state.where}: the log was truncated {to}, and records up to offset "
        f"{state.read_to - 1} had been read: some of these are lost, and others may have their "
        "offsets"
    )
