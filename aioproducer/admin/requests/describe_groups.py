"""DescribeGroups: groups with the classic protocol. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.values import GroupDescription, GroupMember
from aioproducer.engine.network.apis import Api, request_module
from aioproducer.engine.network.kio_guards import walk
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition

_FIRST_WITH_OPERATIONS: Final = 3
_VERSION_BYTES: Final = 2
_CONSUMER: Final = "consumer"
"""The type of the protocol between consumers; Kafka Connect has another one."""

_DEAD: Final = "Dead"
"""The state of a group that does not exist, in versions before 6 (KIP-1043)."""

GROUP_ID_NOT_FOUND: Final = 69


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    """Ask a coordinator for its groups. The answers are by group, with their descriptions."""

    groups: tuple[str, ...]
    api: Api = Api.DESCRIBE_GROUPS
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.DESCRIBE_GROUPS, version)
        options: dict[str, Any] = {}
        if version >= _FIRST_WITH_OPERATIONS:
            options["include_authorized_operations"] = False
        request: RequestPayload = module.DescribeGroupsRequest(groups=self.groups, **options)
        return request

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by group."""
        found = {str(each.group_id): _group(each) for each in response.groups}
        return in_order(self.groups, found)


def _group(said: Any) -> Answer:
    if not said.error_code and said.group_state == _DEAD:
        return Answer(GROUP_ID_NOT_FOUND)
    of_consumers = said.protocol_type == _CONSUMER
    return Answer.of(
        said,
        GroupDescription(
            str(said.group_id),
            "classic",
            str(said.group_state),
            str(said.protocol_type),
            str(said.protocol_data),
            tuple(_member(each, of_consumers) for each in said.members),
        ),
    )


def _member(said: Any, of_consumers: bool) -> GroupMember:
    return GroupMember(
        str(said.member_id),
        getattr(said, "group_instance_id", None),
        str(said.client_id),
        str(said.client_host),
        _assigned(bytes(said.member_assignment)) if of_consumers else None,
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions in a member's assignment, which a consumer wrote; None: it makes no sense.

    All versions begin alike, as far as it is read here.
    """
    if not data:
        return ()
    try:
        walk(ConsumerProtocolAssignment, data, _VERSION_BYTES)
        found, _ = entity_reader(ConsumerProtocolAssignment)(data, _VERSION_BYTES)
    except (ProtocolError, SerialError, ValueError, OverflowError):
        return None
    return tuple(
        TopicPartition(str(each.topic), int(number))
        for each in found.assigned_partitions
        for number in each.partitions
    )
