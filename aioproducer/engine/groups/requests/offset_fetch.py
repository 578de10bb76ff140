"""OffsetFetch: the places from which a group goes on. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.groups.subscription import numbers_by_topic
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError
from aioproducer.model import OffsetAndMetadata, TopicPartition

_FIRST_WITH_SEVERAL_GROUPS: Final = 8


class FetchedOffsets(NamedTuple):
    """The coordinator's answer."""

    error_code: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    """None: the group has committed no offset of the partition."""


@dataclass(frozen=True, slots=True)
class GroupOffsetFetch:
    """Fetch committed offsets. Those that an open transaction would change are not ready yet."""

    member: Membership
    partitions: frozenset[TopicPartition]
    api: Api = Api.OFFSET_FETCH
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.OFFSET_FETCH)
        several = version >= _FIRST_WITH_SEVERAL_GROUPS
        kind = schema.OffsetFetchRequestTopics if several else schema.OffsetFetchRequestTopic
        group: dict[str, Any] = {
            "group_id": self.member.group_id,
            "topics": tuple(
                kind(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in numbers_by_topic(self.partitions).items()
            ),
        }
        if several:
            group = {"groups": (schema.OffsetFetchRequestGroup(**group),)}
        return encoded(
            Api.OFFSET_FETCH, version, schema.OffsetFetchRequest(**group, require_stable=True)
        )

    def read(self, response: Any) -> FetchedOffsets:
        """The offsets, or the first error code."""
        groups = [response] if response.groups is None else response.groups
        group = next(
            (each for each in groups if each is response or each.group_id == self.member.group_id),
            None,
        )
        if group is None:
            raise ProtocolError(f"the response does not mention group {self.member.group_id!r}")
        if group.error_code:
            return FetchedOffsets(group.error_code, {})
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for topic in group.topics:
            for each in topic.partitions:
                if each.error_code:
                    return FetchedOffsets(each.error_code, {})
                where = TopicPartition(topic.name, each.partition_index)
                found[where] = _offset(each) if each.committed_offset >= 0 else None
        missing = self.partitions - found.keys()
        if missing:
            raise ProtocolError(f"the response does not mention {min(missing)}")
        return FetchedOffsets(0, {where: found[where] for where in self.partitions})


def _offset(said: Any) -> OffsetAndMetadata:
    epoch = said.committed_leader_epoch
    return OffsetAndMetadata(
        said.committed_offset, said.metadata or "", epoch if epoch >= 0 else None
    )
