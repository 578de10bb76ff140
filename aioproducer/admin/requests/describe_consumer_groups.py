"""ConsumerGroupDescribe: groups with the protocol of KIP-848. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.values import GroupDescription, GroupMember
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.model import TopicPartition


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroupsRequest:
    """Ask a coordinator for its groups. The answers are by group, with their descriptions."""

    groups: tuple[str, ...]
    api: Api = Api.CONSUMER_GROUP_DESCRIBE
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.CONSUMER_GROUP_DESCRIBE)
        request = schema.ConsumerGroupDescribeRequest(group_ids=self.groups)
        return encoded(Api.CONSUMER_GROUP_DESCRIBE, version, request)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by group."""
        found = {
            each.group_id: Answer.of(
                each,
                GroupDescription(
                    each.group_id,
                    "consumer",
                    each.group_state,
                    "consumer",
                    each.assignor_name,
                    tuple(map(_member, each.members)),
                ),
            )
            for each in response.groups
        }
        return in_order(self.groups, found)


def _member(said: Any) -> GroupMember:
    return GroupMember(
        said.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        tuple(
            TopicPartition(each.topic_name, int(number))
            for each in said.assignment.topic_partitions
            for number in each.partitions
        ),
    )
