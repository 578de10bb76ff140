"""The requests about topics and their records. No I/O.

CreateTopics, CreatePartitions, DeleteTopics, DeleteRecords.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.requests.cluster import config_entry
from aioproducer.admin.values import CreatedTopic, NewTopic
from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import UnsupportedVersionError
from aioproducer.model import TopicPartition

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


_OFFSET_OUT_OF_RANGE: Final = 1


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
    if said.error_code == _OFFSET_OUT_OF_RANGE:
        return Answer(_OFFSET_OUT_OF_RANGE, "the partition ends before the offset")
    return Answer.of(said, said.low_watermark)
