"""CreateTopics. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.requests.config_entries import config_entry
from aioproducer.admin.values import CreatedTopic, NewTopic
from aioproducer.engine.network.apis import Api, request_module
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

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``. The brokers' defaults need version 4 (KIP-464)."""
        if version < _FIRST_WITH_DEFAULTS:
            self._check_that_nothing_is_left_to_brokers()
        module: Any = request_module(Api.CREATE_TOPICS, version)
        request: RequestPayload = module.CreateTopicsRequest(
            topics=tuple(_topic(module, topic) for topic in self.topics),
            timeout=timedelta(milliseconds=self.timeout_ms),
            validate_only=self.validate_only,
        )
        return request

    def _check_that_nothing_is_left_to_brokers(self) -> None:
        for topic in self.topics:
            if topic.assignment is None and None in (topic.partitions, topic.replication_factor):
                raise UnsupportedVersionError(
                    f"topic {topic.name!r}: brokers before Kafka 2.4 have no defaults for new "
                    "topics; name partitions and replication_factor"
                )

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by topic."""
        found = {str(each.name): Answer.of(each, _created(each)) for each in response.topics}
        return in_order((topic.name for topic in self.topics), found)


def _topic(module: Any, topic: NewTopic) -> Any:
    numbers = (topic.partitions, topic.replication_factor)
    partitions, factor = (_BROKERS_DEFAULT if each is None else each for each in numbers)
    return module.CreatableTopic(
        name=topic.name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            module.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in (topic.assignment or {}).items()
        ),
        configs=tuple(
            module.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ),
    )


def _created(said: Any) -> CreatedTopic:
    partitions = int(getattr(said, "num_partitions", -1))
    factor = int(getattr(said, "replication_factor", -1))
    configs = getattr(said, "configs", None)
    return CreatedTopic(
        str(said.name),
        getattr(said, "topic_id", None),
        None if partitions < 0 else partitions,
        None if factor < 0 else factor,
        None if configs is None else {str(each.name): config_entry(each) for each in configs},
    )
