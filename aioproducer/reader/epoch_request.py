"""The request that finds out if a log was truncated since it was read (KIP-320). No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition

_CLIENT: Final = -1
"""The replica id of a client."""


class EpochOfPosition(NamedTuple):
    """A partition in a request."""

    where: TopicPartition
    leader_epoch: int
    """The leader's epoch as far as it is known here."""
    read_epoch: int
    """The leader epoch of the last record that was read."""


class EpochEnd(NamedTuple):
    """A partition's response."""

    error_code: int
    leader_epoch: int
    """The largest epoch of the log that is not above the one asked for; -1: there is none."""
    end_offset: int
    """The offset at which that epoch ends in the leader's log; -1: unknown."""


@dataclass(frozen=True, slots=True)
class EpochEndRequest:
    """Ask a leader where the epochs end that were read from ``partitions``.

    Source: Kafka's ``OffsetForLeaderEpoch``.
    """

    partitions: Sequence[EpochOfPosition]
    api: Api = Api.OFFSET_FOR_LEADER_EPOCH
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.OFFSET_FOR_LEADER_EPOCH)
        topics: dict[str, list[Any]] = {}
        for where, leader_epoch, read_epoch in self.partitions:
            topics.setdefault(where.topic, []).append(
                schema.OffsetForLeaderPartition(
                    partition=where.partition,
                    current_leader_epoch=leader_epoch,
                    leader_epoch=read_epoch,
                )
            )
        request = schema.OffsetForLeaderEpochRequest(
            replica_id=_CLIENT,
            topics=tuple(
                schema.OffsetForLeaderTopic(topic=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
        )
        return encoded(Api.OFFSET_FOR_LEADER_EPOCH, version, request)

    def read(self, response: Any) -> Mapping[TopicPartition, EpochEnd]:
        """The content of the response. Raises :class:`ProtocolError` if a partition is missing."""
        found = {
            TopicPartition(topic.topic, each.partition): EpochEnd(
                each.error_code, each.leader_epoch, each.end_offset
            )
            for topic in response.topics
            for each in topic.partitions
        }
        asked = [each.where for each in self.partitions]
        missing = [where for where in asked if where not in found]
        if missing:
            raise ProtocolError(f"the response does not mention {', '.join(map(str, missing))}")
        return {where: found[where] for where in asked}
