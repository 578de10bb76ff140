"""OffsetCommit: the place from which the group continues. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.transactions.requests.coordinator_request import by_topic
from aioproducer.errors import ProtocolError
from aioproducer.model import OffsetAndMetadata, TopicPartition

_LAST_VERSION_WITH_NAMES: Final = 9


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Commit offsets as a member; an old member is refused.

    With ids, offsets of a topic that was deleted are not committed to its successor (KIP-848).
    """

    member: Membership
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The ids of topics. If one is missing, the offsets are those of the names, whatever ids they
    have."""
    api: Api = Api.OFFSET_COMMIT
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or in the highest one with names."""
        topics = by_topic(self.offsets)
        if not self.topic_ids.keys() >= topics.keys():
            version = min(version, _LAST_VERSION_WITH_NAMES)
        schema = request_schema(Api.OFFSET_COMMIT)
        group_id, member_id, generation, instance_id = self.member[:4]
        request = schema.OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=tuple(
                schema.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topic_ids.get(topic),
                    partitions=tuple(self._partition(topic, number) for number in numbers),
                )
                for topic, numbers in topics.items()
            ),
        )
        return encoded(Api.OFFSET_COMMIT, version, request)

    def _partition(self, topic: str, number: int) -> Any:
        offset = self.offsets[TopicPartition(topic, number)]
        schema = request_schema(Api.OFFSET_COMMIT)
        return schema.OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=offset.offset,
            committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
            committed_metadata=offset.metadata,
        )

    def read(self, response: Any) -> Mapping[TopicPartition, int]:
        """The error code of each partition."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        codes: dict[TopicPartition, int] = {}
        for topic in response.topics:
            name = names.get(topic.topic_id, topic.name)
            for each in topic.partitions:
                codes[TopicPartition(name, each.partition_index)] = int(each.error_code)
        for where in self.offsets:
            if where not in codes:
                raise ProtocolError(f"the response does not mention {where}")
        return codes
