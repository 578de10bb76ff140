"""Heartbeat: the member lives. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Tell the coordinator that the member lives; the answer announces a rebalance."""

    member: Membership
    api: Api = Api.HEARTBEAT
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        request = request_schema(Api.HEARTBEAT).HeartbeatRequest(**self.member.fields())
        return encoded(Api.HEARTBEAT, version, request)

    def read(self, response: Any) -> int:
        """The error code."""
        return int(response.error_code)
