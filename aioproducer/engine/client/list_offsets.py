"""The request for offsets of partitions by time, and for their ends. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
"""Kafka's timestamps that mean the first offset, and the end of the partition."""

_CLIENT: Final = -1
"""The replica id of a client."""


class IsolationLevel(IntEnum):
    """Kafka's numbers of the isolation levels."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FoundOffset(NamedTuple):
    """A partition's response."""

    error_code: int
    offset: int
    """-1: no record is so late."""
    timestamp_ms: int
    """The time of the record at ``offset``; -1 for an end."""
    leader_epoch: int
    """-1: unknown."""


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest(SchemaRequest):
    """Ask the leader of ``partitions`` for the first offset at or after each timestamp.

    ``partitions``: milliseconds since the epoch, :data:`EARLIEST` or :data:`LATEST`. With
    ``READ_COMMITTED`` the latest offset is the last stable one. ``timeout_ms``: the time that the
    leader has to look in tiered storage.
    """

    partitions: Mapping[TopicPartition, int]
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    timeout_ms: int = 30_000
    api = Api.LIST_OFFSETS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        topics: dict[str, list[Any]] = {}
        for (topic, partition), timestamp in self.partitions.items():
            topics.setdefault(topic, []).append(
                schema.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            )
        return schema.ListOffsetsRequest(
            replica_id=_CLIENT,
            isolation_level=int(self.isolation),
            topics=tuple(
                schema.ListOffsetsTopic(name=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
            timeout_ms=self.timeout_ms,
        )

    def read(self, response: Any) -> Mapping[TopicPartition, FoundOffset]:
        """The content of the response. Raises :class:`ProtocolError` if a partition lacks."""
        found = {
            TopicPartition(topic.name, each.partition_index): FoundOffset(
                each.error_code,
                each.offset,
                each.timestamp,
                each.leader_epoch,
            )
            for topic in response.topics
            for each in topic.partitions
        }
        missing = self.partitions.keys() - found.keys()
        if missing:
            raise ProtocolError(
                f"the response does not mention {', '.join(map(str, sorted(missing)))}"
            )
        return {partition: found[partition] for partition in self.partitions}
