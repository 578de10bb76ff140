"""What the two protocols of groups have in common: a member's settings, and what it serves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from aioproducer.engine.groups.requests import Membership
from aioproducer.model import TopicPartition

if TYPE_CHECKING:
    from aioproducer.consumer.session import Session


class MemberSettings(NamedTuple):
    """The settings of a member. Times are milliseconds."""

    assignor: str
    remote_assignor: str | None
    session_timeout: int
    heartbeat_interval: int
    rebalance_timeout: int
    topics_interval: float
    """Seconds from one look at the topics to the next."""


class Partitions(Protocol):
    """The partitions of a member, as its consumer keeps them."""

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that are this member's."""

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions as well."""

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish these partitions, commit them, and read them no longer."""

    def lost(self) -> None:
        """Read nothing any longer, and commit nothing: other members may do so already."""

    async def settled(self, *, idle: bool) -> None:
        """Tell the application what was lost; ``idle``: wait until it works on nothing."""

    def silence(self) -> None:
        """Hand out nothing: the coordinator may have given the partitions away."""

    def end_of_silence(self) -> None:
        """Go on: the coordinator has answered."""


class Topics(Protocol):
    """The topics of a member."""

    async def subscribed(self) -> tuple[str, ...]:
        """The topics that the consumer wants now."""

    async def counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        """The number of partitions of each topic that exists."""

    async def ids(self, topics: Iterable[str]) -> Mapping[str, UUID]:
        """The id of each topic that exists."""


class Member(Protocol):
    """A member of a group, in one of the protocols."""

    identity: Membership
    """The names by which the coordinator knows it."""
    session: Session
    """The coordinator's answers."""

    async def run(self) -> None:
        """Be a member until the task is cancelled. Raises an error that no retry can mend."""

    def refused(self, code: int) -> None:
        """A commit has brought the error ``code``: the group goes on without the member."""

    async def give_up(self, reason: str) -> None:
        """Leave the group, and join it again when the application is done with its records."""

    async def may_commit(self) -> None:
        """Wait until the group takes commits, if it has a rebalance in its middle."""

    async def leave(self, timeout: float) -> None:
        """Tell the coordinator that the member is gone. ``timeout``: seconds."""
