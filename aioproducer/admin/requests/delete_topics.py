"""DeleteTopics. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema

_FIRST_WITH_TOPIC_IDS: Final = 6


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    """Ask the controller to delete topics by name. The answers are by topic, without a value."""

    topics: tuple[str, ...]
    timeout_ms: int
    api: Api = Api.DELETE_TOPICS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.DELETE_TOPICS)
        named: dict[str, Any] = {"topic_names": self.topics}
        if version >= _FIRST_WITH_TOPIC_IDS:
            states = (schema.DeleteTopicState(name=name) for name in self.topics)
            named = {"topics": tuple(states)}
        request = schema.DeleteTopicsRequest(**named, timeout_ms=self.timeout_ms)
        return encoded(Api.DELETE_TOPICS, version, request)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by topic."""
        found = {each.name: Answer.of(each) for each in response.responses}
        return in_order(self.topics, found)
