"""The requests of an Admin about brokers, topics and groups, and a broker's answers. No I/O.

A response has an :class:`Answer` about each topic, partition, resource or group.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from aioproducer.admin.values import (
    Append,
    CheckedChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupMember,
    NewTopic,
    Subtract,
)
from aioproducer.engine.groups.requests import Membership, OffsetCommit
from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema, data_schema
from aioproducer.engine.transactions.requests import by_topic, fetched_offsets, offset_fetch_message
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.version import __version__
from aioproducer.model import OffsetAndMetadata, TopicPartition

_Key = TypeVar("_Key")


class Answer(NamedTuple):
    """The part of a response that is about one key."""

    error_code: int = 0
    message: str | None = None
    """The broker's own words."""
    value: Any = None
    """The result, unless there is an error."""

    @classmethod
    def of(cls, said: Any, value: Any = None) -> Answer:
        """The answer in a part of a response; ``value`` counts without an error.

        A broker says of an unknown topic that it does not host the partition, which is left out.
        """
        code = said.error_code
        message = getattr(said, "error_message", None)
        if not message or code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            message = None
        return cls(code, message, None if code else value)


def in_order(requested: Iterable[_Key], found: Mapping[Any, Answer]) -> dict[_Key, Answer]:
    """The answers about the requested keys. Raises :class:`ProtocolError` if one is missing."""
    answers: dict[_Key, Answer] = {}
    for key in requested:
        if key not in found:
            raise ProtocolError(f"the response does not mention {key!r}")
        answers[key] = found[key]
    return answers


# --- brokers and configurations ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest(SchemaRequest):
    """Ask a broker for its versions. The answer has a mapping of names to lowest and highest."""

    api = Api.API_VERSIONS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.ApiVersionsRequest("aioproducer", __version__)

    def read(self, response: Any) -> Answer:
        """The answer; requests that this client does not make are left out."""
        ours = {int(api): api.name for api in Api}
        ranges = {
            ours[each.api_key]: (each.min_version, each.max_version)
            for each in response.api_keys
            if each.api_key in ours
        }
        return Answer.of(response, dict(sorted(ranges.items())))


_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""Source: Kafka's ``DescribeConfigsResponse.ConfigSource`` and ``ConfigEntry.ConfigSource``."""


def config_entry(said: Any) -> ConfigEntry:
    """An entry of a CreateTopics or DescribeConfigs response."""
    return ConfigEntry(
        said.name,
        said.value,
        _SOURCES.get(said.config_source, "UNKNOWN"),
        said.read_only,
        said.is_sensitive,
    )


_TOPIC: Final = 2
_BROKER: Final = 4
"""Kafka's numbers of the types of resources (``ConfigResource.Type``)."""


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest(SchemaRequest):
    """Ask for the configuration of topics and brokers. The answers are by resource.

    The value of an answer is a mapping of names to entries. A broker knows its own configuration.
    """

    resources: tuple[ConfigResource, ...]
    names: tuple[str, ...] | None = None
    """None: all."""
    api = Api.DESCRIBE_CONFIGS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.DescribeConfigsRequest(
            resources=tuple(
                schema.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=self.names
                )
                for kind, name in map(resource_key, self.resources)
            ),
        )

    def read(self, response: Any) -> Mapping[ConfigResource, Answer]:
        """The answers by resource."""
        return by_resource(
            self.resources,
            {
                (each.resource_type, each.resource_name): Answer.of(
                    each, {entry.name: config_entry(entry) for entry in each.configs}
                )
                for each in response.results
            },
        )


def resource_key(resource: ConfigResource) -> tuple[int, str]:
    """Kafka's type and name of a resource."""
    return (_TOPIC, resource) if isinstance(resource, str) else (_BROKER, str(resource))


def by_resource(
    requested: tuple[ConfigResource, ...], found: Mapping[tuple[int, str], Answer]
) -> Mapping[ConfigResource, Answer]:
    """The answers about the requested resources; ``found`` has them by Kafka's type and name."""
    answers = in_order(map(resource_key, requested), found)
    return {resource: answers[resource_key(resource)] for resource in requested}


_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3
"""Kafka's numbers of the operations (``AlterConfigOp.OpType``)."""


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest(SchemaRequest):
    """Change some values of configurations. The answers are by resource, without a value."""

    changes: Mapping[ConfigResource, Mapping[str, CheckedChange]]
    validate_only: bool = False
    api = Api.INCREMENTAL_ALTER_CONFIGS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        resources = []
        for resource, changes in self.changes.items():
            kind, name = resource_key(resource)
            configs = tuple(_config(schema, each, change) for each, change in changes.items())
            resources.append(
                schema.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            )
        return schema.IncrementalAlterConfigsRequest(
            resources=tuple(resources), validate_only=self.validate_only
        )

    def read(self, response: Any) -> Mapping[ConfigResource, Answer]:
        """The answers by resource."""
        return by_resource(
            tuple(self.changes),
            {
                (each.resource_type, each.resource_name): Answer.of(each)
                for each in response.responses
            },
        )


def _config(schema: Any, name: str, change: CheckedChange) -> Any:
    value: str | None
    match change:
        case None:
            operation, value = _DELETE, None
        case Append(added):
            operation, value = _APPEND, added
        case Subtract(removed):
            operation, value = _SUBTRACT, removed
        case str(text):
            operation, value = _SET, text
    return schema.AlterableConfig(name=name, config_operation=operation, value=value)


# --- topics --------------------------------------------------------------------------------------

_FIRST_WITH_DEFAULTS: Final = 4
_BROKERS_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest(SchemaRequest):
    """Ask the controller for topics. The answers are by topic, with a :class:`CreatedTopic`."""

    topics: tuple[NewTopic, ...]
    timeout_ms: int
    """The time that the controller waits for the other brokers."""
    validate_only: bool = False
    api = Api.CREATE_TOPICS

    def message(self, schema: Schema, version: int) -> Any:
        """The request in ``version``. The brokers' defaults need version 4 (KIP-464)."""
        if version < _FIRST_WITH_DEFAULTS:
            self._check_that_nothing_is_left_to_brokers()
        return schema.CreateTopicsRequest(
            topics=tuple(_topic(schema, topic) for topic in self.topics),
            timeout_ms=self.timeout_ms,
            validate_only=self.validate_only,
        )

    def _check_that_nothing_is_left_to_brokers(self) -> None:
        for topic in self.topics:
            if topic.assignment is None and None in (topic.partitions, topic.replication_factor):
                raise UnsupportedVersionError(
                    f"topic {topic.name!r}: brokers before Kafka 2.4 have no defaults for new "
                    "topics; name partitions and replication_factor"
                )

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by topic."""
        found = {each.name: Answer.of(each, _created(each)) for each in response.topics}
        return in_order((topic.name for topic in self.topics), found)


def _topic(schema: Any, topic: NewTopic) -> Any:
    numbers = (topic.partitions, topic.replication_factor)
    partitions, factor = (_BROKERS_DEFAULT if each is None else each for each in numbers)
    return schema.CreatableTopic(
        name=topic.name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            schema.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in (topic.assignment or {}).items()
        ),
        configs=tuple(
            schema.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ),
    )


def _created(said: Any) -> CreatedTopic:
    partitions = said.num_partitions
    factor = said.replication_factor
    configs = said.configs
    return CreatedTopic(
        said.name,
        said.topic_id,
        None if partitions < 0 else partitions,
        None if factor < 0 else factor,
        None if configs is None else {each.name: config_entry(each) for each in configs},
    )


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest(SchemaRequest):
    """Ask the controller for partitions. The answer is by topic, without a value."""

    topic: str
    total: int
    """The number of partitions that the topic has then."""
    assignment: Sequence[Sequence[int]] | None
    """The brokers of each new partition; None: the controller chooses."""
    timeout_ms: int
    validate_only: bool = False
    api = Api.CREATE_PARTITIONS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        assignments = self.assignment
        topic = schema.CreatePartitionsTopic(
            name=self.topic,
            count=self.total,
            assignments=None
            if assignments is None
            else tuple(
                schema.CreatePartitionsAssignment(broker_ids=tuple(brokers))
                for brokers in assignments
            ),
        )
        return schema.CreatePartitionsRequest(
            topics=(topic,),
            timeout_ms=self.timeout_ms,
            validate_only=self.validate_only,
        )

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answer by topic."""
        found = {each.name: Answer.of(each) for each in response.results}
        return in_order((self.topic,), found)


_FIRST_WITH_TOPIC_IDS: Final = 6


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest(SchemaRequest):
    """Ask the controller to delete topics by name. The answers are by topic, without a value."""

    topics: tuple[str, ...]
    timeout_ms: int
    api = Api.DELETE_TOPICS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        named: dict[str, Any] = {"topic_names": self.topics}
        if version >= _FIRST_WITH_TOPIC_IDS:
            states = (schema.DeleteTopicState(name=name) for name in self.topics)
            named = {"topics": tuple(states)}
        return schema.DeleteTopicsRequest(**named, timeout_ms=self.timeout_ms)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by topic."""
        found = {each.name: Answer.of(each) for each in response.responses}
        return in_order(self.topics, found)


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest(SchemaRequest):
    """Ask a leader to delete records. The answers are by partition, with its first offset then."""

    offsets: Mapping[TopicPartition, int]
    """The offset of the first record to keep; -1: none is kept."""
    timeout_ms: int
    api = Api.DELETE_RECORDS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        topics: defaultdict[str, list[Any]] = defaultdict(list)
        for (topic, partition), offset in self.offsets.items():
            topics[topic].append(
                schema.DeleteRecordsPartition(partition_index=partition, offset=offset)
            )
        return schema.DeleteRecordsRequest(
            topics=tuple(
                schema.DeleteRecordsTopic(name=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
            timeout_ms=self.timeout_ms,
        )

    def read(self, response: Any) -> Mapping[TopicPartition, Answer]:
        """The answers by partition."""
        found = {
            TopicPartition(topic.name, each.partition_index): _answer(each)
            for topic in response.topics
            for each in topic.partitions
        }
        return in_order(self.offsets, found)


def _answer(said: Any) -> Answer:
    if said.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Answer(ErrorCode.OFFSET_OUT_OF_RANGE, "the partition ends before the offset")
    return Answer.of(said, said.low_watermark)


# --- groups and their offsets --------------------------------------------------------------------


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
        return Answer(ErrorCode.GROUP_ID_NOT_FOUND)
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
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
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
                    "the group has members, and accepts offsets only from them: "
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
