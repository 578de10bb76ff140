"""JoinGroup: take part in the next generation of a group. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.groups.subscription import PROTOCOL_TYPE, Subscribed
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import UnsupportedVersionError

_FIRST_WITH_INSTANCES: Final = 5


class Joined(NamedTuple):
    """The coordinator's answer, when all members have joined."""

    error_code: int
    member_id: str
    generation: int
    protocol: str
    """The assignor that all members know."""
    leader: str
    """The id of the member that divides the partitions."""
    members: tuple[Subscribed, ...]
    """All members, for the leader, which reads their subscriptions in steps."""
    skip_assignment: bool = False
    """A static leader that has come back: the assignment stays."""


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Join a group, or join it again. The answer takes as long as the slowest member needs."""

    member: Membership
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Mapping[str, bytes]
    """The subscription for each assignor, the best one first."""
    reason: str = ""
    """For the coordinator's log (KIP-800)."""
    api: Api = Api.JOIN_GROUP
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.JOIN_GROUP)
        if self.member.instance_id is not None and version < _FIRST_WITH_INSTANCES:
            raise UnsupportedVersionError(
                "the broker is too old for static members (KIP-345, Kafka 2.3): leave out "
                "group_instance_id"
            )
        request = schema.JoinGroupRequest(
            group_id=self.member.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member.member_id,
            group_instance_id=self.member.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(
                schema.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self.protocols.items()
            ),
            reason=self.reason,
        )
        return encoded(Api.JOIN_GROUP, version, request)

    def read(self, response: Any) -> Joined:
        """The generation."""
        return Joined(
            response.error_code,
            response.member_id,
            response.generation_id,
            response.protocol_name or "",
            response.leader,
            tuple(
                Subscribed(each.member_id, each.group_instance_id, each.metadata)
                for each in response.members
            ),
            response.skip_assignment,
        )
