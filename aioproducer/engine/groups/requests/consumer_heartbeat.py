"""ConsumerGroupHeartbeat: the one request of a member of KIP-848. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema

JOINING: Final = 0
"""The epoch of a member that joins."""
LEAVING: Final = -1
"""The epoch of a member that leaves."""
LEAVING_FOR_A_WHILE: Final = -2
"""The epoch of a static member that leaves and keeps its partitions."""

PartitionsById = Mapping[UUID, Sequence[int]]
"""The numbers of partitions by the ids of their topics."""


class MemberState(NamedTuple):
    """The coordinator's answer."""

    error_code: int
    message: str
    member_id: str
    epoch: int
    interval_ms: int
    """The time between heartbeats."""
    assignment: PartitionsById | None
    """The partitions that the member may have; None: the same as before."""


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """Tell the coordinator that the member lives, and what has changed; None: it is as before."""

    member: Membership
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    assignor: str | None = None
    owned: PartitionsById | None = None
    rack: str | None = None
    api: Api = Api.CONSUMER_GROUP_HEARTBEAT
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.CONSUMER_GROUP_HEARTBEAT)
        timeout = self.rebalance_timeout_ms
        request = schema.ConsumerGroupHeartbeatRequest(
            group_id=self.member.group_id,
            member_id=self.member.member_id,
            member_epoch=self.member.generation,
            instance_id=self.member.instance_id,
            rack_id=self.rack,
            rebalance_timeout_ms=-1 if timeout is None else timeout,
            subscribed_topic_names=self.topics,
            server_assignor=self.assignor,
            topic_partitions=None
            if self.owned is None
            else tuple(
                schema.TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
                for topic_id, numbers in self.owned.items()
            ),
        )
        return encoded(Api.CONSUMER_GROUP_HEARTBEAT, version, request)

    def read(self, response: Any) -> MemberState:
        """The member as the coordinator knows it."""
        given = response.assignment
        return MemberState(
            int(response.error_code),
            response.error_message or "",
            response.member_id or "",
            response.member_epoch,
            response.heartbeat_interval_ms,
            None
            if given is None
            else {each.topic_id: tuple(each.partitions) for each in given.topic_partitions},
        )
