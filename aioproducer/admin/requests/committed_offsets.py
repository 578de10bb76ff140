"""OffsetFetch: all committed offsets of a group. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition

_FIRST_WITH_SEVERAL_GROUPS: Final = 8


@dataclass(frozen=True, slots=True)
class CommittedOffsetsRequest:
    """Ask a group's coordinator for all its offsets. The answer is by group.

    The value is a mapping of partitions to offsets. Offsets of open transactions are not waited
    for: the last committed ones count.
    """

    group: str
    api: Api = Api.OFFSET_FETCH
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.OFFSET_FETCH)
        group: dict[str, Any] = {"group_id": self.group, "topics": None}
        if version >= _FIRST_WITH_SEVERAL_GROUPS:
            group = {"groups": (schema.OffsetFetchRequestGroup(**group),)}
        request = schema.OffsetFetchRequest(**group, require_stable=False)
        return encoded(Api.OFFSET_FETCH, version, request)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answer by group. Raises :class:`ProtocolError` if it is about another group."""
        if response.groups is None:
            return {self.group: _offsets(response)}
        for group in response.groups:
            if group.group_id == self.group:
                return {self.group: _offsets(group)}
        raise ProtocolError(f"the response does not mention the group {self.group!r}")


def _offsets(group: Any) -> Answer:
    offsets: dict[TopicPartition, int] = {}
    for topic in group.topics:
        for each in topic.partitions:
            if each.error_code and not group.error_code:
                return Answer(each.error_code)
            if each.committed_offset >= 0:
                where = TopicPartition(topic.name, each.partition_index)
                offsets[where] = each.committed_offset
    return Answer.of(group, offsets)
