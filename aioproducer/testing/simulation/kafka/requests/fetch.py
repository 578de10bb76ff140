"""Requests of readers: Fetch, ListOffsets and OffsetForLeaderEpoch.

Sources: Kafka's ``ReplicaManager.readFromLog``, ``Partition``, ``DelayedFetch`` and
``Partition.fetchOffsetForTimestamp``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Parked
from aioproducer.testing.simulation.kafka.cluster import Topic
from aioproducer.testing.simulation.kafka.fetch_sessions import (
    Answered,
    FetchContext,
    FetchedRow,
)
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import (
    UNDEFINED_EPOCH,
    EpochEnd,
    Partition,
    TimestampAndOffset,
)
from aioproducer.testing.simulation.kafka.requests.metadata import (
    current_leader,
    endpoints,
    led_partition,
    topic_of,
)

_READ_COMMITTED: Final = 1
_FIRST_FROM_FOLLOWERS: Final = 11
_FIRST_HINT: Final = 16
_HINTED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_MOST_BYTES: Final = 55 * 1024 * 1024
"""Source: the broker's ``fetch.max.bytes``."""


def fetch(call: Call) -> Answer:
    """Records, at once or when there are enough of them."""
    sessions = call.cluster.fetch_sessions[call.broker]
    context = sessions.begin(call.body, call.version, list(_named(call)), call.now)
    if not isinstance(context, FetchContext):
        return context
    deadline = call.now + call.body.max_wait_ms / 1000
    watched = list(_watched(call, context.rows))
    seen: list[tuple[int, ...]] | None = None

    def complete(now: float) -> Answer | None:
        nonlocal seen
        state = [partition.state for partition in watched]
        if now < deadline and state == seen:
            return None
        seen = state
        read = _read(call, context.rows)
        if now >= deadline or read.urgent or read.size >= call.body.min_bytes:
            return read.response(context, now)
        return None

    if not context.rows:
        return _read(call, ()).response(context, call.now)
    return complete(call.now) or Parked(complete, deadline)


def _named(call: Call) -> Iterator[FetchedRow]:
    for asked in call.body.topics:
        topic, _ = topic_of(call, asked)
        name = asked.topic or (None if topic is None else topic.name)
        topic_id = None if asked.topic else asked.topic_id
        for each in asked.partitions:
            yield FetchedRow(name, topic_id, each)


def _topic(call: Call, row: FetchedRow) -> tuple[Topic | None, ErrorCode]:
    """The topic of a row, and the error without it.

    A session that has known the name of an id keeps it. Source: ``KafkaApis.handleFetchRequest``.
    """
    if row.topic_id is not None:
        topic = call.cluster.topic_by_id(row.topic_id)
        if topic is not None:
            row.topic = topic.name
        elif row.topic is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        elif row.topic in call.cluster.topics:
            return None, ErrorCode.INCONSISTENT_TOPIC_ID
        return topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return call.cluster.topics.get(row.topic or ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _watched(call: Call, rows: Sequence[FetchedRow]) -> Iterator[Partition]:
    """The partitions that the fetch is about; without one it is answered at once."""
    for row in rows:
        topic, _ = _topic(call, row)
        if topic is not None and 0 <= row.asked.partition < len(topic.partitions):
            yield topic.partitions[row.asked.partition]


class _Read(NamedTuple):
    """The current result of a fetch."""

    answered: Sequence[Answered]
    size: int
    urgent: bool
    """An error or a diverging epoch, which is answered at once."""
    endpoints: Sequence[Fields]

    def response(self, context: FetchContext, now: float) -> Fields:
        """The response in a session, or without one."""
        return {**context.response(self.answered, now), "node_endpoints": self.endpoints}


def _read(call: Call, rows: Sequence[FetchedRow]) -> _Read:
    left = min(call.body.max_bytes, _MOST_BYTES)
    size = 0
    urgent = False
    moved: set[int] = set()
    answered = []
    for row in rows:
        topic, missing = _topic(call, row)
        unread = missing != ErrorCode.INCONSISTENT_TOPIC_ID
        answer = _unknown(missing) if unread else _failed(missing)
        if topic is not None:
            answer = _led(call, topic, row.asked, left, moved, first=not size)
        answer["partition_index"] = row.asked.partition
        found = len(answer["records"] or b"")
        size += found
        left = max(0, left - found)
        urgent = urgent or bool(answer["error_code"]) or "diverging_epoch" in answer
        answered.append(Answered(row, answer))
    return _Read(answered, size, urgent, endpoints(call, moved))


def _led(
    call: Call, topic: Topic, asked: Any, left: int, moved: set[int], *, first: bool
) -> dict[str, Any]:
    """A partition, or the error of a broker that can't answer for it; ``moved`` gets its leader."""
    partition, code = led_partition(
        call,
        topic,
        asked.partition,
        asked.current_leader_epoch,
        or_followed=call.version >= _FIRST_FROM_FOLLOWERS,
    )
    if partition is not None and not code:
        return _partition(call, partition, asked, left, first=first)
    row = _unknown(code) if partition is None else _failed(code)
    if partition is not None and code in _HINTED and call.version >= _FIRST_HINT:
        moved.add(partition.leader)
        row["current_leader"] = current_leader(partition)
    return row


def _unknown(code: ErrorCode) -> dict[str, Any]:
    """Of a partition that does not exist. Source: ``FetchResponse.partitionResponse``."""
    return _failed(code) | {"aborted_transactions": []}


def _failed(code: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": code,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": b"",
    }


def _partition(
    call: Call, partition: Partition, asked: Any, left: int, *, first: bool
) -> dict[str, Any]:
    offset = asked.fetch_offset
    if (epoch := asked.last_fetched_epoch) != UNDEFINED_EPOCH:
        end = partition.log.end_of_epoch(epoch)
        if end == EpochEnd():
            return _failed(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset < partition.log.start_offset:
            return _failed(ErrorCode.OFFSET_OUT_OF_RANGE)
        if end.epoch < epoch or end.offset < offset:
            row = _found(partition, b"", None)
            row["diverging_epoch"] = {"epoch": end.epoch, "end_offset": end.offset}
            return row
    end_offset = partition.end_offsets[call.broker]
    if not partition.log.start_offset <= offset <= end_offset:
        return _failed(ErrorCode.OFFSET_OUT_OF_RANGE)
    committed = call.body.isolation_level == _READ_COMMITTED
    stable = partition.last_stable_offset if committed else partition.high_watermark
    before = min(stable, end_offset)
    records = _records(partition, offset, before, min(asked.partition_max_bytes, left), first=first)
    aborted = None
    if committed:
        aborted = [
            {"producer_id": each.producer_id, "first_offset": each.first_offset}
            for each in partition.producers.aborted_between(offset, partition.log.end_offset)
        ]
    return _found(partition, records, aborted)


def _records(partition: Partition, offset: int, before: int, limit: int, *, first: bool) -> bytes:
    """Batches up to ``limit`` bytes, the last one cut off; ``first``: one comes in any case."""
    data = bytearray()
    for batch in partition.log.batches_from(offset, before):
        if not data:
            if len(batch.data) > limit and not first:
                return b""
            limit = max(limit, len(batch.data))
        data += batch.data
        if len(data) >= limit:
            break
    return bytes(data[:limit])


def _found(
    partition: Partition, records: bytes, aborted: Sequence[Fields] | None
) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_start_offset": partition.log.start_offset,
        "aborted_transactions": aborted,
        "records": records,
    }


LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_FIRST_VERSIONS: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


_UNKNOWN: Final = TimestampAndOffset(-1, -1, -1)


def list_offsets(call: Call) -> Fields:
    """Offsets by timestamps, or the ends of the logs."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_listed(call, topic, each) for each in topic.partitions],
            }
            for topic in call.body.topics
        ]
    }


def _listed(call: Call, asked: Any, each: Any) -> Fields:
    topic, code = topic_of(call, asked)
    found = _UNKNOWN
    if topic is not None:
        epoch = each.current_leader_epoch
        partition, code = led_partition(call, topic, each.partition_index, epoch)
        if partition is not None and not code:
            committed = call.body.isolation_level == _READ_COMMITTED
            code = ErrorCode.UNSUPPORTED_VERSION
            if (
                _FIRST_VERSIONS.get(each.timestamp, 0) <= call.version
                and each.timestamp >= LATEST_TIERED
            ):
                code, found = _look_up(partition, each.timestamp, committed=committed)
    return {
        "partition_index": each.partition_index,
        "error_code": code,
        "timestamp": found.timestamp_ms,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


def _look_up(
    partition: Partition, timestamp: int, *, committed: bool
) -> tuple[ErrorCode, TimestampAndOffset]:
    log = partition.log
    last = partition.last_stable_offset if committed else partition.high_watermark
    lags = partition.epoch_start > partition.high_watermark
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.start_offset
        return ErrorCode.NONE, TimestampAndOffset(-1, start, log.epoch_at(start))
    if timestamp == LATEST_TIERED:
        return ErrorCode.NONE, _UNKNOWN
    if timestamp == LATEST and not lags:
        return ErrorCode.NONE, TimestampAndOffset(-1, last, partition.leader_epoch)
    found = log.with_max_timestamp() if timestamp == MAX_TIMESTAMP else log.first_since(timestamp)
    if timestamp != LATEST and found is not None and found.offset < last:
        return ErrorCode.NONE, found
    if lags:
        return ErrorCode.OFFSET_NOT_AVAILABLE, _UNKNOWN
    return ErrorCode.NONE, _UNKNOWN


def offset_for_leader_epoch(call: Call) -> Fields:
    """The ends of epochs. Source: ``Partition.lastOffsetForLeaderEpoch``."""
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [_epoch_end(call, topic, each) for each in topic.partitions],
            }
            for topic in call.body.topics
        ]
    }


def _epoch_end(call: Call, asked: Any, each: Any) -> Fields:
    topic, code = topic_of(call, asked)
    epoch, offset = -1, -1
    if topic is not None:
        partition, code = led_partition(call, topic, each.partition, each.current_leader_epoch)
        if partition is not None and not code:
            epoch, offset = partition.log.end_of_epoch(each.leader_epoch)
    return {
        "partition": each.partition,
        "error_code": code,
        "leader_epoch": epoch,
        "end_offset": offset,
    }
