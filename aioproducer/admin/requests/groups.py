"""The requests about groups and their offsets. No I/O.

ListGroups, DescribeGroups for groups with the classic protocol,
ConsumerGroupDescribe for those with the protocol of KIP-848, DeleteGroups; OffsetFetch for all
committed offsets, OffsetCommit by nobody for groups that have no members, and OffsetDelete
(KIP-496).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import UNKNOWN_TOPIC_OR_PARTITION, Answer, in_order
from aioproducer.admin.values import GroupDescription, GroupListing, GroupMember
from aioproducer.engine.groups.requests import Membership, OffsetCommit
from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema, data_schema
from aioproducer.engine.transactions.requests import (
    by_topic,
    fetched_offsets,
    offset_fetch_message,
)
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition


@dataclass(frozen=True, slots=True)
class ListGroupsRequest(SchemaRequest):
    """Ask a broker for the groups that it coordinates. The answer has a tuple of listings."""

    api = Api.LIST_GROUPS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.ListGroupsRequest()

    def read(self, response: Any) -> Answer:
        """The answer. States are known from version 4 on, types from version 5 on."""
        return Answer.of(
            response,
            tuple(
                GroupListing(
                    each.group_id,
                    each.protocol_type,
                    each.group_state or None,
                    each.group_type or None,
                )
                for each in response.groups
            ),
        )


_VERSION_BYTES: Final = 2
_CONSUMER: Final = "consumer"
"""The type of the protocol between consumers; Kafka Connect has another one."""

_DEAD: Final = "Dead"
"""The state of a group that does not exist, in versions before 6 (KIP-1043)."""

GROUP_ID_NOT_FOUND: Final = 69
_ASSIGNMENT: Final = "consumer_protocol_assignment"


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest(SchemaRequest):
    """Ask a coordinator for its groups. The answers are by group, with their descriptions."""

    groups: tuple[str, ...]
    api = Api.DESCRIBE_GROUPS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.DescribeGroupsRequest(groups=self.groups)

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
            tuple(_classic_member(each, of_consumers) for each in said.members),
        ),
    )


def _classic_member(said: Any, of_consumers: bool) -> GroupMember:
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


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroupsRequest(SchemaRequest):
    """Ask a coordinator for its groups. The answers are by group, with their descriptions."""

    groups: tuple[str, ...]
    api = Api.CONSUMER_GROUP_DESCRIBE

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.ConsumerGroupDescribeRequest(group_ids=self.groups)

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
                    tuple(map(_consumer_member, each.members)),
                ),
            )
            for each in response.groups
        }
        return in_order(self.groups, found)


def _consumer_member(said: Any) -> GroupMember:
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


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest(SchemaRequest):
    """Ask a coordinator to delete groups. The answers are by group, without a value."""

    groups: tuple[str, ...]
    api = Api.DELETE_GROUPS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.DeleteGroupsRequest(groups_names=self.groups)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by group."""
        found = {each.group_id: Answer.of(each) for each in response.results}
        return in_order(self.groups, found)


@dataclass(frozen=True, slots=True)
class CommittedOffsetsRequest(SchemaRequest):
    """Ask a group's coordinator for all its offsets. The answer is by group.

    The value is a mapping of partitions to :class:`OffsetAndMetadata`. Offsets of open transactions
    are not waited for: the last committed ones count.
    """

    group: str
    api = Api.OFFSET_FETCH

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return offset_fetch_message(schema, version, self.group, None, stable=False)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answer by group. Raises :class:`ProtocolError` if it is about another group."""
        said = fetched_offsets(response, self.group, None)
        return {
            self.group: Answer(said.error_code, None, None if said.error_code else said.offsets)
        }


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
class AlterOffsetsRequest(SchemaRequest):
    """Ask a group's coordinator to take offsets.

    The answer is about the group. Its value has the answers by partition, without values.
    """

    group: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    api = Api.OFFSET_COMMIT

    @property
    def _commit(self) -> OffsetCommit:
        return OffsetCommit(Membership(self.group), self.offsets)

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return self._commit.message(schema, version)

    def chosen_version(self, version: int) -> int:
        """``version``, or the highest one with names."""
        return self._commit.chosen_version(version)

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


@dataclass(frozen=True, slots=True)
class DeleteOffsetsRequest(SchemaRequest):
    """Ask a group's coordinator to forget offsets.

    The answer is about the group. Its value has the answers by partition, without values.
    """

    group: str
    partitions: Collection[TopicPartition]
    api = Api.OFFSET_DELETE

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.OffsetDeleteRequest(
            group_id=self.group,
            topics=tuple(
                schema.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(
                        schema.OffsetDeleteRequestPartition(partition_index=number)
                        for number in numbers
                    ),
                )
                for topic, numbers in by_topic(self.partitions).items()
            ),
        )

    def read(self, response: Any) -> Answer:
        """The answer. Raises :class:`ProtocolError` if a partition is missing."""
        if response.error_code:
            return Answer(response.error_code)
        found = {
            TopicPartition(topic.name, each.partition_index): Answer(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        return Answer(value=in_order(self.partitions, found))
