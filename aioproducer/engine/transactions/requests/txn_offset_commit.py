"""TxnOffsetCommit: write consumed offsets in a transaction (KIP-98, KIP-447, KIP-1319). No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    Coordinator,
    CoordinatorRequest,
    by_topic,
    group_coordinator,
)
from aioproducer.engine.transactions.requests.reaction import Reaction, Reactions
from aioproducer.engine.transactions.requests.response import Response, deciding_error
from aioproducer.errors import RequestTimedOutError, UnsupportedVersionError
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_FIRST_VERSION_WITH_MEMBER: Final = 3
_LAST_VERSION_WITH_NAMES: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class TxnOffsetCommit(CoordinatorRequest):
    """Write consumed offsets, which become visible with the transaction."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The id of each topic, or none: then the offsets are those of its name, whatever its id is."""

    api_key: ClassVar[int] = 28
    highest_version_in_protocol_1: ClassVar[int | None] = 4
    reactions: ClassVar[Reactions] = {RequestTimedOutError: Reaction.FIND_COORDINATOR}
    otherwise: ClassVar[Reaction] = Reaction.ABORT
    topic_operation: ClassVar[str | None] = "READ"

    def coordinator_for(self, transactional_id: str) -> Coordinator:
        """The group's coordinator."""
        return group_coordinator(self.group.group_id)

    def describe(self) -> str:
        """The request in error messages."""
        return f"TxnOffsetCommit of group {self.group.group_id!r}"

    def highest_version(self, protocol: int) -> int | None:
        """Topics have names up to version 5 (KIP-1319)."""
        in_protocol = CoordinatorRequest.highest_version(self, protocol)
        return in_protocol if self.topic_ids or protocol == 1 else _LAST_VERSION_WITH_NAMES

    def build(self, context: BuildContext) -> Any:
        """The request as a message."""
        schema = context.schema
        return schema.TxnOffsetCommitRequest(
            **context.producer_fields(),
            group_id=self.group.group_id,
            **self._member_fields(context.version),
            topics=tuple(
                schema.TxnOffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topic_ids.get(topic),
                    partitions=tuple(
                        self._partition(context, TopicPartition(topic, number))
                        for number in numbers
                    ),
                )
                for topic, numbers in by_topic(self.offsets).items()
            ),
        )

    def _member_fields(self, version: int) -> dict[str, Any]:
        group = self.group
        if version >= _FIRST_VERSION_WITH_MEMBER:
            return {
                "generation_id_or_member_epoch": group.generation_id,
                "member_id": group.member_id,
                "group_instance_id": group.group_instance_id,
            }
        if group[1:] != ConsumerGroupMetadata(group.group_id)[1:]:
            raise UnsupportedVersionError(
                f"the broker is too old to check the member of group {group.group_id!r} (KIP-447, "
                "Kafka 2.5): give the group's id alone, and use one transactional id for each "
                "partition that is consumed"
            )
        return {}

    def _partition(self, context: BuildContext, partition: TopicPartition) -> Any:
        offset = self.offsets[partition]
        epoch = offset.leader_epoch
        return context.schema.TxnOffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=-1 if epoch is None else epoch,
            committed_metadata=offset.metadata,
        )

    def read(self, response: Any) -> Response:
        """The error code that decides."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        codes = {
            TopicPartition(names.get(topic.topic_id, topic.name), each.partition_index): (
                each.error_code
            )
            for topic in response.topics
            for each in topic.partitions
        }
        return deciding_error(self.offsets, codes)
