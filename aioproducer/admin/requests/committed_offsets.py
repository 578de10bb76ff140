"""OffsetFetch: all committed offsets of a group. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.apis import Api, request_module
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

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.OFFSET_FETCH, version)
        group: dict[str, Any] = {"group_id": self.group, "topics": None}
        if version >= _FIRST_WITH_SEVERAL_GROUPS:
            group = {"groups": (module.OffsetFetchRequestGroup(**group),)}
        request: RequestPayload = module.OffsetFetchRequest(**group, require_stable=False)
        return request

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answer by group. Raises :class:`ProtocolError` if it is about another group."""
        if not hasattr(response, "groups"):
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
                return Answer(int(each.error_code))
            if each.committed_offset >= 0:
                where = TopicPartition(str(topic.name), int(each.partition_index))
                offsets[where] = int(each.committed_offset)
    return Answer.of(group, offsets)
