"""FindCoordinator for a consumer group. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError
from aioproducer.model import Node

_FIRST_WITH_SEVERAL_KEYS: Final = 4
_GROUP: Final = 0
"""Kafka's number of the type of a coordinator."""


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest:
    """Ask any broker for the coordinator of a group. The answer has a :class:`Node`."""

    group: str
    api: Api = Api.FIND_COORDINATOR
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.FIND_COORDINATOR)
        several = version >= _FIRST_WITH_SEVERAL_KEYS
        keys: dict[str, Any] = {"coordinator_keys": (self.group,)} if several else {}
        if not several:
            keys = {"key": self.group}
        request = schema.FindCoordinatorRequest(key_type=_GROUP, **keys)
        return encoded(Api.FIND_COORDINATOR, version, request)

    def read(self, response: Any) -> Answer:
        """The answer. Raises :class:`ProtocolError` for a coordinator that can't be one."""
        found = response
        if response.coordinators is not None:
            several = response.coordinators
            found = next((each for each in several if each.key == self.group), None)
        if found is None:
            raise ProtocolError(f"the response does not mention the group {self.group!r}")
        node = Node(found.node_id, found.host, found.port)
        if not found.error_code and (node.id < 0 or not node.host):
            raise ProtocolError(f"{node} with id {node.id} can't be a coordinator")
        return Answer.of(found, node)
