"""ListOffsets and OffsetForLeaderEpoch. Source: Kafka's ``Partition.fetchOffsetForTimestamp``."""

from __future__ import annotations

from typing import Any, Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.log import TimestampAndOffset
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import Partition
from aioproducer.testing.simulation.kafka.requests.leaders import led_partition, topic_of

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_FIRST_VERSIONS: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_READ_COMMITTED: Final = 1
_UNKNOWN: Final = TimestampAndOffset(-1, -1, -1)


def list_offsets(call: Call) -> Fields:
    """Offsets by timestamps, or the ends of the logs."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_partition(call, topic, each) for each in topic.partitions],
            }
            for topic in call.body.topics
        ]
    }


def _partition(call: Call, asked: Any, each: Any) -> Fields:
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
