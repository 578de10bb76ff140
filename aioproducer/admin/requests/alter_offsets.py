"""OffsetCommit by nobody: offsets of a group that has no members. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import UNKNOWN_TOPIC_OR_PARTITION, Answer
from aioproducer.engine.groups.requests import Membership, OffsetCommit
from aioproducer.engine.network.frames import EncodedPayload
from aioproducer.engine.protocol import Api
from aioproducer.errors.codes import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition

_OF_PARTITIONS: Final = (
    0,
    UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Codes that are about a partition; a coordinator says all others of the whole group."""
_OF_A_MEMBER: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
)
"""The refusals of a commit that is no member's. Source: Kafka's ``ClassicGroup`` and
``ConsumerGroup``, ``validateOffsetCommit``."""


@dataclass(frozen=True, slots=True)
class AlterOffsetsRequest:
    """Ask a group's coordinator to take offsets.

    The answer is about the group. Its value has the answers by partition, without values.
    """

    group: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    api: Api = Api.OFFSET_COMMIT
    answered: bool = True

    @property
    def _commit(self) -> OffsetCommit:
        return OffsetCommit(Membership(self.group), self.offsets)

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        return self._commit.build(version)

    def read(self, response: Any) -> Answer:
        """The answer. Raises :class:`ProtocolError` if a partition is missing."""
        codes = self._commit.read(response)
        for code in codes.values():
            if code in _OF_A_MEMBER:
                return Answer(
                    code,
                    "the group has members, and takes offsets from them alone: "
                    "stop them, and try again",
                )
            if code not in _OF_PARTITIONS:
                return Answer(code)
        return Answer(value={where: Answer(codes[where]) for where in self.offsets})
