"""DescribeGroups: groups with the classic protocol. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.values import GroupDescription, GroupMember
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, data_schema, request_schema
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition

_VERSION_BYTES: Final = 2
_CONSUMER: Final = "consumer"
"""The type of the protocol between consumers; Kafka Connect has another one."""

_DEAD: Final = "Dead"
"""The state of a group that does not exist, in versions before 6 (KIP-1043)."""

GROUP_ID_NOT_FOUND: Final = 69
_ASSIGNMENT: Final = "consumer_protocol_assignment"


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    """Ask a coordinator for its groups. The answers are by group, with their descriptions."""

    groups: tuple[str, ...]
    api: Api = Api.DESCRIBE_GROUPS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.DESCRIBE_GROUPS)
        request = schema.DescribeGroupsRequest(groups=self.groups)
        return encoded(Api.DESCRIBE_GROUPS, version, request)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by group."""
        found = {each.group_id: _group(each) for each in response.groups}
        return in_order(self.groups, found)


def _group(said: Any) -> Answer:
    if not said.error_code and said.group_state == _DEAD:
        return Answer(GROUP_ID_NOT_FOUND)
    of_consumers = said.protocol_type == _CONSUMER
    return Answer.of(
        said,
        GroupDescription(
            said.group_id,
            "classic",
            said.group_state,
            said.protocol_type,
            said.protocol_data,
            tuple(_member(each, of_consumers) for each in said.members),
        ),
    )


def _member(said: Any, of_consumers: bool) -> GroupMember:
    return GroupMember(
        said.member_id,
        said.group_instance_id,
        said.client_id,
        said.client_host,
        _assigned(said.member_assignment) if of_consumers else None,
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions in a member's assignment, which a consumer wrote; None: it makes no sense.

    All versions begin alike, as far as it is read here.
    """
    if not data:
        return ()
    try:
        found, _ = data_schema(_ASSIGNMENT).decode(data, _VERSION_BYTES, 0)
    except (ProtocolError, ValueError, IndexError, struct.error):
        return None
    return tuple(
        TopicPartition(each.topic, int(number))
        for each in found.assigned_partitions
        for number in each.partitions
    )
