"""Fetch. Sources: Kafka's ``ReplicaManager.readFromLog``, ``Partition`` and ``DelayedFetch``.

Every fetch is answered without a session, as a broker does whose cache of sessions is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from aioproducer.errors.codes import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Parked
from aioproducer.testing.simulation.kafka.cluster import Topic
from aioproducer.testing.simulation.kafka.log import UNDEFINED_EPOCH, EpochEnd
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import Partition
from aioproducer.testing.simulation.kafka.requests.leaders import (
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
    if call.body.session_id:
        return {
            "error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            "session_id": 0,
            "responses": [],
        }
    deadline = call.now + call.body.max_wait_ms / 1000
    watched = _watched(call)
    seen: list[tuple[int, ...]] | None = None

    def complete(now: float) -> Answer | None:
        nonlocal seen
        state = [partition.state for partition in watched]
        if now < deadline and state == seen:
            return None
        seen = state
        read = _read(call)
        if now >= deadline or read.urgent or read.size >= call.body.min_bytes:
            return read.response
        return None

    if not call.body.topics:
        return _read(call).response
    return complete(call.now) or Parked(complete, deadline)


def _watched(call: Call) -> list[Partition]:
    """The partitions that the fetch is about; without one it is answered at once."""
    found = []
    for asked in call.body.topics:
        topic, _ = topic_of(call, asked)
        numbers = [each.partition for each in asked.partitions]
        if topic is not None:
            found += [each for each in topic.partitions if each.where.partition in numbers]
    return found


class _Read(NamedTuple):
    """What a fetch finds now."""

    response: Fields
    size: int
    urgent: bool
    """An error or a diverging epoch, which is answered at once."""


def _read(call: Call) -> _Read:
    left = min(call.body.max_bytes, _MOST_BYTES)
    size = 0
    urgent = False
    moved: set[int] = set()
    topics = []
    for asked in call.body.topics:
        topic, missing = topic_of(call, asked)
        rows = []
        for each in asked.partitions:
            row = _unknown(missing)
            if topic is not None:
                row = _led(call, topic, each, left, moved, first=not size)
            row["partition_index"] = each.partition
            found = len(row["records"] or b"")
            size += found
            left = max(0, left - found)
            urgent = urgent or bool(row["error_code"]) or "diverging_epoch" in row
            rows.append(row)
        topics.append({"topic": asked.topic, "topic_id": asked.topic_id, "partitions": rows})
    response = {
        "error_code": ErrorCode.NONE,
        "session_id": 0,
        "responses": topics,
        "node_endpoints": endpoints(call, moved),
    }
    return _Read(response, size, urgent)


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
