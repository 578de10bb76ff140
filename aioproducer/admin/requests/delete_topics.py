"""DeleteTopics. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.engine.network.apis import Api, request_module

_FIRST_WITH_TOPIC_IDS: Final = 6


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    """Ask the controller to delete topics by name. The answers are by topic, without a value."""

    topics: tuple[str, ...]
    timeout_ms: int
    api: Api = Api.DELETE_TOPICS
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.DELETE_TOPICS, version)
        named: dict[str, Any] = {"topic_names": self.topics}
        if version >= _FIRST_WITH_TOPIC_IDS:
            states = (module.DeleteTopicState(name=name, topic_id=None) for name in self.topics)
            named = {"topics": tuple(states)}
        timeout = timedelta(milliseconds=self.timeout_ms)
        request: RequestPayload = module.DeleteTopicsRequest(**named, timeout=timeout)
        return request

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by topic."""
        found = {str(each.name): Answer.of(each) for each in response.responses}
        return in_order(self.topics, found)
