"""The common parts of the two group protocols: a member's settings, and the parts it serves."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.metrics import ConsumerStats
from aioproducer.consumer.session import Session
from aioproducer.engine.groups.assignors import TopicLayout
from aioproducer.engine.groups.requests import Membership
from aioproducer.errors import ProducerError
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.model import TopicPartition

logger = ModuleLogger(__name__)

MISSING_TOPIC_SECONDS: Final = 5.0
"""Seconds from one look for a topic that does not exist to the next."""


NO_IDS: Final[Mapping[str, UUID]] = MappingProxyType({})
"""The ids of topics that a group has by their names."""


class MemberSettings(NamedTuple):
    """The settings of a member. :attr:`Session.times` has its times."""

    assignors: tuple[str, ...]
    """The assignors of a classic member; the first one is preferred."""
    remote_assignor: str | None
    topics_interval: float
    """Seconds from one look at the topics to the next."""
    rack: str | None = None
    """The client's rack, for assignors that mind racks (KIP-881)."""


class Partitions(Protocol):
    """The partitions of a member, as its consumer keeps them."""

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that are this member's."""

    async def assigned(
        self, partitions: Collection[TopicPartition], ids: Mapping[str, UUID] = NO_IDS
    ) -> None:
        """Read these partitions as well. ``ids``: those of their topics, as the group has them."""

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish these partitions, commit them, and read them no longer."""

    def lost(self) -> None:
        """Read nothing any longer, and commit nothing: other members may do so already."""

    async def settled(self, idle: Callable[[], bool]) -> None:
        """Tell the application what was lost; while ``idle`` says so, wait until it has no record
        and asks for more."""

    def tell(self, error: ProducerError) -> None:
        """Raise ``error`` in the next read, once."""

    def silence(self) -> None:
        """Hand out nothing: the coordinator may have given the partitions away."""

    def end_of_silence(self) -> None:
        """Go on: the coordinator has answered."""


class Topics(Protocol):
    """The topics of a member."""

    def names_it(self, topic: str) -> bool:
        """True if ``topic`` is wanted by its name, False if by a pattern."""

    async def subscribed(self) -> tuple[str, ...]:
        """The topics that the consumer wants now."""

    async def counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        """The number of partitions of each topic that exists."""

    async def layout(self, topics: Iterable[str], *, racks: bool) -> TopicLayout:
        """The partitions of each topic that exists; ``racks``: with those of their replicas."""

    async def ids(self, topics: Iterable[str]) -> Mapping[str, UUID]:
        """The id of each topic that exists."""

    def has(self, topic: str) -> bool:
        """True if ``topic`` is wanted, by its name or by a pattern."""

    async def new_among(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, bool]:
        """The partitions that did not exist when the member subscribed to their topic; True: it was
        created again."""

    async def look_for_missing(self, but: Collection[str]) -> None:
        """Look for topics that were not seen so far, except those in ``but``."""


class MemberSurroundings(NamedTuple):
    """The arguments of a member of either protocol."""

    link: CoordinatorLink
    identity: Membership
    """The names by which the coordinator knows the member."""
    settings: MemberSettings
    topics: Topics
    partitions: Partitions
    stats: ConsumerStats
    session: Session
    before_join: Callable[[], Awaitable[None]]
    """Called before each join of a member that is not in the group."""


class Member(ABC):
    """A member of a group, from its first join on. :meth:`run` is its task.

    Each protocol has a class.
    """

    def __init__(self, surroundings: MemberSurroundings) -> None:
        link, identity, settings, topics, partitions, stats, session, before = surroundings
        self.identity = identity
        self._link = link
        self._settings = settings
        self._topics = topics
        self._partitions = partitions
        self._stats = stats
        self._clock = link.client.clock
        self._before_join = before
        self.session = session
        self.rebalance_began: float | None = None
        """The clock's time at which the rebalance under way began; None: there is none."""
        self.gave_up = False
        """True from :meth:`give_up` until the application asks for more, before the next join."""
        self._ends = False
        """True: the consumer closes, and no other join begins."""
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Be a member until the task is cancelled. Raises an error that no retry can mend."""
        if self._ends:
            return
        jobs = {"missing topics": self._look_for_missing(), **self._jobs()}
        self._running = {name: new_task(job) for name, job in jobs.items()}
        left = set(self._running.values())
        try:
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if not (self._ends and task.cancelled()):
                        task.result()
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.wait(self._running.values())

    def end(self) -> None:
        """Join no more, and call the application no more.

        The last commit follows: heartbeats go on, and so does a join whose answer says in which
        generation the coordinator takes commits.
        """
        self._ends = True
        lasting = self._lasting()
        for name, task in self._running.items():
            if name not in lasting:
                task.cancel()

    @abstractmethod
    def _jobs(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """The member's concurrent tasks, by name."""

    @abstractmethod
    def _lasting(self) -> Collection[str]:
        """The jobs that a commit needs now."""

    async def _look_for_missing(self) -> None:
        """Log topics that do not exist, and report them to health(): a name may be mistyped."""
        while True:
            await asyncio.sleep(MISSING_TOPIC_SECONDS)
            try:
                await self._topics.look_for_missing(self._watched())
            except ProducerError as error:
                logger.debug("Topics of group %r: %s", self._link.group_id, error, error=error)

    def _watched(self) -> Collection[str]:
        """The missing topics that the member asks for anyway."""
        return ()

    async def _settle(self) -> None:
        """Get ready for a join: the loss is reported to the application."""
        await self._partitions.settled(lambda: self.gave_up)
        self.gave_up = False
        if self.session.last_heartbeat is None:
            await self._before_join()

    def _go_on_as(self, identity: Membership, why: str) -> None:
        """The group continues without the member, which joins again as ``identity``."""
        logger.warning(
            "Group %r continues without this member: %s. It joins again%s",
            self._link.group_id,
            why,
            f" when it is asked for records{self.kept}" if self.gave_up else "",
        )
        self.identity = identity
        self.session.over()
        self._partitions.lost()

    @abstractmethod
    def miss_topic(self, topic: str) -> None:
        """The brokers do not know ``topic``, whose partitions the member has."""

    @abstractmethod
    def resubscribe(self) -> None:
        """The application wants other topics: tell the group."""

    @abstractmethod
    def refused(self, code: int) -> bool:
        """A commit has brought the error ``code``: the group continues without the member.

        False: a join is under way, and the error may be one of the generation before it.
        """

    def leave_cluster(self) -> None:
        """Another cluster answers, whose coordinator does not know the member: join there."""
        if self.session.last_heartbeat is not None:
            self.lose("another cluster answers now", new=True)

    @abstractmethod
    def lose(self, why: str, *, new: bool) -> None:
        """The group continues without the member; ``new``: it joins again by another id."""

    @property
    def leaves_for_good(self) -> bool:
        """True if other members get the partitions as soon as this one leaves.

        A static member leaves for a while (KIP-345): its partitions stay its own until it comes
        back or its session ends. So it is in Java, also after ``max.poll.interval.ms``.
        """
        return self.identity.instance_id is None

    @property
    def kept(self) -> str:
        """The end of log lines about a leave."""
        return "" if self.leaves_for_good else ", and keeps its partitions until its session ends"

    async def give_up(self, reason: str) -> None:
        """Leave the group, and join it again when the application asks for more."""
        identity, self.gave_up = self.identity, True
        self.lose(reason, new=self.leaves_for_good)
        await self._send_leave(identity, reason)

    async def leave(self, timeout: float) -> None:
        """Tell the coordinator that the member is gone. ``timeout``: seconds."""
        code = await self._send_leave(self.identity, "the consumer was closed", timeout)
        if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            raise error_about(f"leaving group {self._link.group_id!r}", code)

    @abstractmethod
    async def _send_leave(
        self, identity: Membership, reason: str, timeout: float | None = None
    ) -> int:
        """Tell the coordinator that the member ``identity`` leaves, if it has to know
        (:attr:`leaves_for_good`). Returns an error code."""
