"""CreateTopics. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.requests.config_entries import config_entry
from aioproducer.admin.values import CreatedTopic, NewTopic
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import UnsupportedVersionError

_FIRST_WITH_DEFAULTS: Final = 4
_BROKERS_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    """Ask the controller for topics. The answers are by topic, with a :class:`CreatedTopic`."""

    topics: tuple[NewTopic, ...]
    timeout_ms: int
    """The time that the controller waits for the other brokers."""
    validate_only: bool = False
    api: Api = Api.CREATE_TOPICS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``. The brokers' defaults need version 4 (KIP-464)."""
        if version < _FIRST_WITH_DEFAULTS:
            self._check_that_nothing_is_left_to_brokers()
        schema = request_schema(Api.CREATE_TOPICS)
        request = schema.CreateTopicsRequest(
            topics=tuple(_topic(schema, topic) for topic in self.topics),
            timeout_ms=self.timeout_ms,
            validate_only=self.validate_only,
        )
        return encoded(Api.CREATE_TOPICS, version, request)

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
