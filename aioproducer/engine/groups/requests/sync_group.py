"""SyncGroup: hand in the assignment, as the leader, and get one's own part. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.groups.subscription import PROTOCOL_TYPE, assigned_in
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.model import TopicPartition


class Synced(NamedTuple):
    """The coordinator's answer."""

    error_code: int
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Ask for the member's partitions; only the leader sends an ``assignment`` of all members."""

    member: Membership
    protocol: str
    assignment: Mapping[str, bytes]
    api: Api = Api.SYNC_GROUP
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.SYNC_GROUP)
        request = schema.SyncGroupRequest(
            **self.member.fields(),
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=tuple(
                schema.SyncGroupRequestAssignment(member_id=member_id, assignment=assigned)
                for member_id, assigned in self.assignment.items()
            ),
        )
        return encoded(Api.SYNC_GROUP, version, request)

    def read(self, response: Any) -> Synced:
        """The member's partitions. Raises :class:`ProtocolError` if they can't be understood."""
        if response.error_code:
            return Synced(response.error_code)
        return Synced(0, tuple(assigned_in(response.assignment)))
