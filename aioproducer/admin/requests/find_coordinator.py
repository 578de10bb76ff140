"""FindCoordinator for a consumer group. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.apis import Api, request_module
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

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.FIND_COORDINATOR, version)
        several = version >= _FIRST_WITH_SEVERAL_KEYS
        keys: dict[str, Any] = {"coordinator_keys": (self.group,)} if several else {}
        if not several:
            keys = {"key": self.group}
        request: RequestPayload = module.FindCoordinatorRequest(key_type=_GROUP, **keys)
        return request

    def read(self, response: Any) -> Answer:
        """The answer. Raises :class:`ProtocolError` for a coordinator that can't be one."""
        for found in getattr(response, "coordinators", (response,)):
            if getattr(found, "key", self.group) == self.group:
                break
        else:
            raise ProtocolError(f"the response does not mention the group {self.group!r}")
        node = Node(int(found.node_id), str(found.host), int(found.port))
        if not found.error_code and (node.id < 0 or not node.host):
            raise ProtocolError(f"{node} with id {node.id} can't be a coordinator")
        return Answer.of(found, node)
