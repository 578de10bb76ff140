"""ConsumerGroupDescribe: groups with the protocol of KIP-848. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.values import GroupDescription, GroupMember
from aioproducer.engine.network.apis import Api, request_module
from aioproducer.model import TopicPartition


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroupsRequest:
    """Ask a coordinator for its groups. The answers are by group, with their descriptions."""

    groups: tuple[str, ...]
    api: Api = Api.CONSUMER_GROUP_DESCRIBE
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.CONSUMER_GROUP_DESCRIBE, version)
        request: RequestPayload = module.ConsumerGroupDescribeRequest(
            group_ids=self.groups, include_authorized_operations=False
        )
        return request

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by group."""
        found = {
            str(each.group_id): Answer.of(
                each,
                GroupDescription(
                    str(each.group_id),
                    "consumer",
                    str(each.group_state),
                    "consumer",
                    str(each.assignor_name),
                    tuple(map(_member, each.members)),
                ),
            )
            for each in response.groups
        }
        return in_order(self.groups, found)


def _member(said: Any) -> GroupMember:
    return GroupMember(
        str(said.member_id),
        said.instance_id,
        str(said.client_id),
        str(said.client_host),
        tuple(
            TopicPartition(str(each.topic_name), int(number))
            for each in said.assignment.topic_partitions
            for number in each.partitions
        ),
    )
