"""A member of the classic group protocol: joins, heartbeats, rebalances, leaves.

Source: Kafka's ``AbstractCoordinator`` and ``ConsumerCoordinator``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from aioproducer.consumer.coordinator import JOIN_GRACE_MS, CoordinatorLink
from aioproducer.engine.groups.assignors import (
    Assignment,
    GroupMember,
    PartitionCounts,
    assign_ranges,
    assign_round_robin,
    assign_sticky,
    cooperative_sticky,
)
from aioproducer.engine.groups.assignors.member import NO_GENERATION
from aioproducer.engine.groups.requests import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Membership,
    SyncGroup,
)
from aioproducer.engine.groups.subscription import subscription_bytes
from aioproducer.errors import ProducerError, ProducerTimeoutError, error_about
from aioproducer.errors.codes import RETRIABLE, ErrorCode
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.model import TopicPartition

logger = RoomLogger(__name__)

STICKY: Final = "sticky"
COOPERATIVE: Final = "cooperative-sticky"
ASSIGNORS: Final[Mapping[str, Callable[[list[GroupMember], PartitionCounts], Assignment]]] = {
    "range": assign_ranges,
    "roundrobin": assign_round_robin,
    STICKY: assign_sticky,
    COOPERATIVE: cooperative_sticky,
}
LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
"""The group goes on without the member: its partitions may have other owners already."""


class MemberSettings(NamedTuple):
    """The settings of a member. Times are milliseconds."""

    topics: tuple[str, ...]
    assignor: str
    session_timeout: int
    heartbeat_interval: int
    rebalance_timeout: int


class Partitions(Protocol):
    """The partitions of a member, as its consumer keeps them."""

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that are read."""

    async def counts(self, topics: Iterable[str]) -> PartitionCounts:
        """The number of partitions of each topic that exists."""

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions as well."""

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish these partitions, commit them, and read them no longer."""

    def lost(self) -> None:
        """Read nothing any longer, and commit nothing: other members may do so already."""


class ClassicMember:
    """One member, from its first join on. :meth:`run` is its task."""

    def __init__(
        self,
        link: CoordinatorLink,
        member: Membership,
        settings: MemberSettings,
        partitions: Partitions,
    ) -> None:
        self.member = member
        self._link = link
        self._settings = settings
        self._partitions = partitions
        self._rebalance = asyncio.Event()
        """Set when the member has to join again."""
        self._heartbeats = asyncio.Event()
        """Set while the member has to send heartbeats."""
        self._failures = 0
        self._had: tuple[TopicPartition, ...] = ()
        """The partitions before the last eager rebalance, for an assignor that is sticky."""

    @property
    def cooperative(self) -> bool:
        """True if partitions that stay are read on in a rebalance (KIP-429)."""
        return self._settings.assignor == COOPERATIVE

    async def run(self) -> None:
        """Be a member until the task is cancelled. Raises an error that no retry can mend."""
        both = {new_task(self._send_heartbeats()), new_task(self._keep_joined())}
        try:
            ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)

    async def _keep_joined(self) -> None:
        while True:
            await self._join()
            await self._rebalance.wait()

    # --- rebalances --------------------------------------------------------------------------

    async def _join(self) -> None:
        """Join, again and again, until the member has its partitions."""
        while True:
            if not self.cooperative and self._partitions.owned:
                self._had = tuple(self._partitions.owned)
                await self._partitions.revoked(self._had)
            try:
                if await self._join_once():
                    self._failures = 0
                    return
            except ProducerError as error:
                late = isinstance(error, ProducerTimeoutError)
                if not late and not self._link.client.may_pass(error):
                    raise
                logger.debug("Joining group %r: %s", self.member.group_id, error, error=error)
            self._failures += 1
            await asyncio.sleep(self._link.client.backoff().delay(self._failures))

    async def _join_once(self) -> bool:
        """One attempt; False: another one is due."""
        self._heartbeats.clear()  # the coordinator waits for the others, and expects none
        self._rebalance.clear()
        joined = await self._ask_to_join()
        if joined is None:
            return False
        self.member = self.member._replace(member_id=joined.member_id, generation=joined.generation)
        assignment: Assignment = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignment = await self._divide(joined)
        synced = await self._link.ask(
            SyncGroup(self.member, joined.protocol, assignment), self._join_timeout
        )
        if synced.error_code:
            self._refused(synced.error_code, "SyncGroup")
            return False
        self._heartbeats.set()
        await self._take(frozenset(synced.partitions))
        return True

    @property
    def _join_timeout(self) -> float:
        """Seconds: the coordinator waits for the slowest member."""
        return (self._settings.rebalance_timeout + JOIN_GRACE_MS) / 1000

    async def _ask_to_join(self) -> Joined | None:
        settings = self._settings
        owned: Collection[TopicPartition] = ()
        if self.cooperative:
            owned = self._partitions.owned
        elif settings.assignor == STICKY:
            owned = self._had
        generation = self.member.generation if owned else NO_GENERATION
        data = subscription_bytes(settings.topics, owned, generation, rack=None)
        request = JoinGroup(
            self.member,
            settings.session_timeout,
            settings.rebalance_timeout,
            {settings.assignor: data},
        )
        joined: Joined = await self._link.ask(request, self._join_timeout)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            self.member = self.member._replace(member_id=joined.member_id)
            return await self._ask_to_join()
        if joined.error_code:
            self._refused(joined.error_code, "JoinGroup")
            return None
        return joined

    async def _divide(self, joined: Joined) -> Assignment:
        """The partitions of all members, by this one as their leader."""
        members = list(joined.members)
        topics = {topic for member in members for topic in member.topics}
        counts = await self._partitions.counts(topics)
        assign = ASSIGNORS.get(joined.protocol)
        if assign is None:
            raise error_about(
                f"the assignor {joined.protocol!r} of group {self.member.group_id!r}",
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )
        return assign(members, counts)

    async def _take(self, partitions: frozenset[TopicPartition]) -> None:
        owned = frozenset(self._partitions.owned)
        logger.info(
            "Group %r: generation %d has given this member %d partitions",
            self.member.group_id,
            self.member.generation,
            len(partitions),
        )
        gone = owned - partitions
        if gone:
            await self._partitions.revoked(sorted(gone))
        await self._partitions.assigned(sorted(partitions - owned))
        if gone:  # the next round gives them to their new owners
            self._rebalance.set()

    def _refused(self, code: int, what: str) -> None:
        """Do what the error ``code`` asks for. Raises an error that no retry can mend."""
        if code in RETRIABLE:
            self._link.forget()
        elif code in LOST:
            self._lose(code)
        elif code != ErrorCode.REBALANCE_IN_PROGRESS:
            raise error_about(f"{what} of group {self.member.group_id!r}", code)

    def _lose(self, code: int) -> None:
        logger.warning(
            "Group %r goes on without this member: %s. It joins again",
            self.member.group_id,
            ErrorCode(code).name,
        )
        self.member = self.member._replace(generation=NO_GENERATION)
        self._had = ()
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member = self.member._replace(member_id="")
        self._partitions.lost()

    # --- heartbeats --------------------------------------------------------------------------

    async def _send_heartbeats(self) -> None:
        interval = self._settings.heartbeat_interval / 1000
        timeout = min(self._link.request_timeout, self._settings.session_timeout / 3000)
        while True:
            await self._heartbeats.wait()
            await asyncio.sleep(interval)
            if not self._heartbeats.is_set():
                continue
            try:
                code = await self._link.ask(Heartbeat(self.member), timeout)
            except ProducerError as error:
                if not self._link.client.may_pass(error):
                    raise
                continue
            if not self._heartbeats.is_set():
                continue  # a rebalance has begun meanwhile
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                self._rebalance.set()
            elif code:
                self._refused(code, "Heartbeat")
                if code in LOST:
                    self._heartbeats.clear()
                    self._rebalance.set()

    # --- the end -----------------------------------------------------------------------------

    async def leave(self, timeout: float) -> None:
        """Tell the coordinator that the member is gone; a static one stays (KIP-345)."""
        if not self.member.member_id or self.member.instance_id is not None:
            return
        code = await self._link.ask(LeaveGroup(self.member, "the consumer was closed"), timeout)
        if code:
            raise error_about(f"LeaveGroup of group {self.member.group_id!r}", code)
