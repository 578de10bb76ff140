"""LeaveGroup: the member's partitions are free at once. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema

_FIRST_WITH_SEVERAL_MEMBERS: Final = 3


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leave a group, so that the others need not wait for the end of the session."""

    member: Membership
    reason: str
    """For the coordinator's log (KIP-800)."""
    api: Api = Api.LEAVE_GROUP
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.LEAVE_GROUP)
        group_id, member_id, _, instance_id = self.member[:4]
        if version < _FIRST_WITH_SEVERAL_MEMBERS:
            request = schema.LeaveGroupRequest(group_id=group_id, member_id=member_id)
            return encoded(Api.LEAVE_GROUP, version, request)
        leaving = schema.MemberIdentity(
            member_id=member_id, group_instance_id=instance_id, reason=self.reason
        )
        request = schema.LeaveGroupRequest(group_id=group_id, members=(leaving,))
        return encoded(Api.LEAVE_GROUP, version, request)

    def read(self, response: Any) -> int:
        """The error code, of the member if it has one of its own."""
        codes = [each.error_code for each in response.members or ()]
        return int(response.error_code or next(filter(None, codes), 0))
