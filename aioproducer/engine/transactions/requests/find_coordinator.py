"""FindCoordinator: look up the broker that coordinates a transactional id or a group. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from aioproducer.engine.protocol import Schema
from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    Coordinator,
    CoordinatorRequest,
    CoordinatorType,
)
from aioproducer.engine.transactions.requests.reaction import Reaction, Reactions
from aioproducer.engine.transactions.requests.response import Response
from aioproducer.errors import CoordinatorNotAvailableError, NotCoordinatorError, ProtocolError
from aioproducer.model import Node, has_name

_FIRST_VERSION_WITH_SEVERAL_KEYS: Final = 4


@dataclass(frozen=True, slots=True)
class FindCoordinator(CoordinatorRequest):
    """Find the broker that is the coordinator; any broker knows."""

    coordinator: Coordinator

    api_key: ClassVar[int] = 10
    reactions: ClassVar[Reactions] = {
        CoordinatorNotAvailableError: Reaction.RETRY,
        NotCoordinatorError: Reaction.RETRY,
    }
    otherwise: ClassVar[Reaction] = Reaction.FATAL

    def coordinator_for(self, transactional_id: str) -> None:
        """Any broker answers."""

    def describe(self) -> str:
        """The request in error messages."""
        kind, key = self.coordinator
        group = f" of group {key!r}" if kind is CoordinatorType.GROUP else ""
        return f"FindCoordinator{group}"

    def build(self, context: BuildContext) -> Any:
        """The request as a message."""
        return find_coordinator_message(context.schema, context.version, self.coordinator)

    def read(self, response: Any) -> Response:
        """The coordinator's address."""
        return found_coordinator(response, self.coordinator.key)


def find_coordinator_message(schema: Schema, version: int, coordinator: Coordinator) -> Any:
    """The request for the address of a coordinator."""
    key = coordinator.key
    several = version >= _FIRST_VERSION_WITH_SEVERAL_KEYS
    keys: dict[str, Any] = {"coordinator_keys": (key,)} if several else {"key": key}
    return schema.FindCoordinatorRequest(key_type=coordinator.type, **keys)


def found_coordinator(response: Any, key: str) -> Response:
    """The coordinator's address, or an error code.

    Raises :class:`ProtocolError` if it is about another key, or is no address.
    """
    found = response
    if response.coordinators is not None:
        found = next((each for each in response.coordinators if each.key == key), None)
    if found is None:
        raise ProtocolError(f"the response does not mention the coordinator of {key!r}")
    code, message = found.error_code, found.error_message
    if code:
        return Response(code, message)
    node = Node(found.node_id, found.host, found.port)
    if node.id < 0 or not has_name(node.host):
        raise ProtocolError(
            f"broker {node.id} at host {node.host!r} can't be the coordinator of {key!r}"
        )
    return Response(message=message, node=node)
