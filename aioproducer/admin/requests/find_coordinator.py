"""FindCoordinator for a consumer group. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.transactions.requests import (
    find_coordinator_message,
    found_coordinator,
    group_coordinator,
)


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest:
    """Ask any broker for the coordinator of a group. The answer has a :class:`Node`."""

    group: str
    api: Api = Api.FIND_COORDINATOR
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.FIND_COORDINATOR)
        message = find_coordinator_message(schema, version, group_coordinator(self.group))
        return encoded(Api.FIND_COORDINATOR, version, message)

    def read(self, response: Any) -> Answer:
        """The answer. Raises :class:`ProtocolError` for a coordinator that can't be one."""
        found = found_coordinator(response, self.group)
        return Answer(found.error_code, found.message, found.node)
