"""A member of the classic group protocol: joins, heartbeats, rebalances, leaves.

Source: Kafka's ``AbstractCoordinator`` and ``ConsumerCoordinator``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from math import inf
from typing import Any

from aioproducer.consumer.member import MISSING_TOPIC_SECONDS, Member, MemberSurroundings
from aioproducer.engine.groups.assignors import (
    ASSIGNORS,
    COOPERATIVE,
    NO_GENERATION,
    STICKY,
    PartitionCounts,
)
from aioproducer.engine.groups.requests import (
    LOST,
    PROTOCOL_TYPE,
    GroupKind,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Membership,
    Reaction,
    Synced,
    SyncGroup,
    assignments_bytes,
    subscription_bytes,
    subscriptions_of,
)
from aioproducer.errors import ProducerError, kafka_error
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.foundation.logs import ModuleLogger, counted
from aioproducer.foundation.runtime.tasks import in_turns
from aioproducer.model import TopicPartition

logger = ModuleLogger(__name__)


class ClassicMember(Member):
    """A member whose group divides the partitions itself, by its leader."""

    def __init__(self, surroundings: MemberSurroundings) -> None:
        super().__init__(surroundings)
        self._rebalance = asyncio.Event()
        """Set when the member has to join again."""
        self._joins = False
        """True while the coordinator is asked for partitions."""
        self._life = 0
        """The number of times that the group has gone on without the member."""
        self._contradicted = inf
        """The real clock's time from which on a heartbeat ends a join if the coordinator speaks of
        another generation again, as it has done; infinite: it has not."""
        self._heartbeats = asyncio.Event()
        """Set while the coordinator may know the member."""
        self._next_heartbeat = -inf
        """The real clock's time at which a heartbeat is due."""
        self._had: tuple[TopicPartition, ...] = ()
        """The partitions before the last eager rebalance, for an assignor that is sticky."""
        self._subscribed: tuple[str, ...] = ()
        self._missed: set[str] = set()
        """The topics that the brokers do not know, and whose partitions the member has."""
        self._looked = -inf
        """The clock's time of the last look at all topics."""
        self._divided: PartitionCounts | None = None
        """The number of partitions of each topic that a leader watches; None: it leads no group."""

    @property
    def cooperative(self) -> bool:
        """True if partitions that stay are read on in a rebalance (KIP-429).

        All assignors of the member have to allow it, as in Java.
        """
        return self._settings.assignors == (COOPERATIVE,)

    def _jobs(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {
            "join": self._keep_joined(),
            "heartbeats": self._send_heartbeats(),
            "topics": self._watch_topics(),
        }

    def _lasting(self) -> Collection[str]:
        return ("join", "heartbeats") if self._joins else ("heartbeats",)

    async def _keep_joined(self) -> None:
        while not self._ends:
            await self._join()
            await self._rebalance.wait()

    # --- rebalances --------------------------------------------------------------------------

    async def _join(self) -> None:
        """Join, again and again, until the member has its partitions."""
        backoff = self._link.client.backoff()
        failures, began = 0, self._clock()
        self.rebalance_began = began
        while not self._ends:
            await self._revoke_before()
            await self._settle()
            try:
                if await self._join_once():
                    self._stats.rebalanced(began, self._clock())
                    self.rebalance_began = None
                    return
            except ProducerError as error:
                if not self._link.may_pass(error):
                    raise
                self.session.look()
                logger.debug("Joining group %r: %s", self._link.group_id, error, error=error)
            failures += 1
            await asyncio.sleep(backoff.delay(failures))

    async def _revoke_before(self) -> None:
        """Revoke all partitions, or if those that stay are read on, those of unwanted topics.

        Source: Kafka's ``ConsumerCoordinator.onJoinPrepare``.
        """
        gone = tuple(self._partitions.owned)
        if self.cooperative:
            gone = tuple(each for each in gone if not self._topics.has(each.topic))
        elif gone:
            self._had = gone
        if gone:
            await self._partitions.revoked(gone)

    async def _join_once(self) -> bool:
        """One attempt; False: another one is due."""
        life = self._life
        self._rebalance.clear()
        self._subscribed = await self._look()
        if self._life != life:
            return False
        self._joins, self._contradicted = True, inf
        try:
            synced = await self._join_and_sync(life)
        finally:
            self._joins = False
        if synced is None or self._life != life:
            return False
        # All members get their partitions at one time, so all of them notice the next rebalance at
        # one time: none has to wait for the others to join.
        self._restart_heartbeats()
        if self._ends:  # its partitions stay as they are until it leaves
            return True
        await self._take(frozenset(synced.partitions))
        return True

    async def _join_and_sync(self, life: int) -> Synced | None:
        """The member's partitions; None: another attempt is due."""
        joined = await self._ask_to_join()
        if joined is None or self._life != life:
            return None
        self.identity = self.identity._replace(
            member_id=joined.member_id, generation=joined.generation
        )
        asked = self.session.real_clock()
        synced = await self._sync(joined)
        if self._life != life:
            return None
        if synced.error_code:
            self._take_refusal(synced.error_code, "SyncGroup")
            return None
        self.session.joined(asked)
        return synced

    async def _sync(self, joined: Joined) -> Synced:
        """The coordinator's answer to SyncGroup, which gives the member its partitions."""
        self._divided = None
        assignment: Mapping[str, bytes] = {}
        if joined.leader == joined.member_id:
            assignment = await self._divide(joined)
        request = SyncGroup(self.identity, joined.protocol, assignment)
        began = self._clock()
        synced: Synced = await self._link.wait_for(request)
        if not synced.error_code:
            self._stats.at(now := self._clock()).syncs.add(now - began)
        return synced

    async def _ask_to_join(self) -> Joined | None:
        settings, life = self._settings, self._life
        subscriptions = {each: self._subscription_for(each) for each in settings.assignors}
        if not self._heartbeats.is_set():
            self._restart_heartbeats()  # they notice a coordinator that dies, also before an id
        for _ in range(2):
            request = JoinGroup(
                self.identity,
                self.session.times.session_ms,
                self.session.times.rebalance_ms,
                subscriptions,
            )
            began = self._clock()
            joined: Joined = await self._link.wait_for(request)
            if not joined.error_code:
                self._stats.at(now := self._clock()).joins.add(now - began)
            if self._life != life:
                return None
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
                break
            self.identity = self.identity._replace(member_id=joined.member_id)
        if joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise kafka_error(
                joined.error_code,
                f"JoinGroup of group {self._link.group_id!r}: INCONSISTENT_GROUP_PROTOCOL: "
                f"{await self._inconsistency()}",
            )
        if joined.error_code:
            self._take_refusal(joined.error_code, "JoinGroup")
            return None
        return joined

    def _subscription_for(self, assignor: str) -> bytes:
        owned: Collection[TopicPartition] = ()
        if self.cooperative:
            owned = self._partitions.owned
        elif assignor == STICKY:
            owned = self._had
        generation = self.identity.generation if owned else NO_GENERATION
        return subscription_bytes(self._subscribed, owned, generation, rack=self._settings.rack)

    async def _divide(self, joined: Joined) -> Mapping[str, bytes]:
        """The partitions of all members, by this one as their leader.

        A static leader that has come back watches the topics and leaves the assignment (KIP-814).
        """
        members = await in_turns(subscriptions_of(joined.members))
        topics = {topic for member in members for topic in member.topics}
        layout = await self._topics.layout(topics, racks=any(member.rack for member in members))
        assign = ASSIGNORS.get(joined.protocol)
        if assign is None:
            raise error_about(
                f"the assignor {joined.protocol!r} of group {self._link.group_id!r}",
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )
        self._divided = {topic: layout.counts.get(topic, 0) for topic in topics}
        if joined.skip_assignment:
            return {}
        assignment = await in_turns(assign(members, layout))
        return await in_turns(assignments_bytes(assignment))

    async def _take(self, partitions: frozenset[TopicPartition]) -> None:
        owned, identity = frozenset(self._partitions.owned), self.identity
        logger.info(
            "Group %r: generation %d has given this member %s",
            self._link.group_id,
            self.identity.generation,
            counted(len(partitions), "partition"),
        )
        gone = owned - partitions
        if gone:
            await self._partitions.revoked(sorted(gone))
        if self.identity != identity:
            return  # the partitions were lost meanwhile
        await self._partitions.assigned(sorted(partitions - owned))
        if gone:  # the next round gives them to their new owners
            self._rebalance.set()

    # --- topics ------------------------------------------------------------------------------

    async def _look(self) -> tuple[str, ...]:
        """The topics that the consumer wants now: a pattern asks for the names of all topics."""
        subscribed = await self._topics.subscribed()
        self._looked = self._clock()
        return subscribed

    async def _watch_topics(self) -> None:
        """Join again when topics appear, go, or get partitions.

        Topics that are missing are asked for often, all others when what is known is old.
        """
        interval = self._settings.topics_interval
        while True:
            await asyncio.sleep(min(interval, MISSING_TOPIC_SECONDS))
            if self.rebalance_began is not None or self._rebalance.is_set():
                continue
            divided, is_old = self._divided, self._clock() - self._looked >= interval
            try:
                changed = await self._has_changed(divided or {}, everything=is_old)
            except ProducerError as error:
                logger.debug("Topics of group %r: %s", self._link.group_id, error, error=error)
                continue
            if changed and self._divided is divided:
                logger.info("Group %r: its topics have changed", self._link.group_id)
                self._rebalance.set()

    def _watched(self) -> Collection[str]:
        """The missing topics for which a leader looks."""
        return [topic for topic, number in (self._divided or {}).items() if not number]

    async def _has_changed(self, divided: PartitionCounts, *, everything: bool) -> bool:
        missed, self._missed = self._missed, set()
        wanted = {topic for topic, number in divided.items() if everything or not number} | missed
        if everything and await self._look() != self._subscribed:
            return True
        counts = await self._topics.counts(wanted) if wanted else {}
        changed = any(counts.get(each, 0) != divided[each] for each in wanted & divided.keys())
        # One that a pattern matches is wanted no longer; one with a name may come back.
        return changed or any(
            topic not in counts and not self._topics.names_it(topic) for topic in missed
        )

    def miss_topic(self, topic: str) -> None:
        """The brokers do not know ``topic``, whose partitions the member has."""
        self._missed.add(topic)

    def resubscribe(self) -> None:
        """The application wants other topics: join again with them."""
        self._rebalance.set()

    # --- refusals ----------------------------------------------------------------------------

    def _take_refusal(self, code: int, what: str) -> None:
        """Do what the error ``code`` asks for. Raises an error that no retry can mend."""
        reaction = self._link.react(code)
        if reaction is Reaction.FAIL:
            raise error_about(f"{what} of group {self._link.group_id!r}", code)
        if reaction in LOST:
            self.lose(ErrorCode(code).name, new=reaction is Reaction.JOIN_AS_NEW)
        elif reaction is Reaction.REBALANCE:
            self._rebalance.set()

    async def _inconsistency(self) -> str:
        """Why the group has no protocol in common with this member, and what to set."""
        protocol = kind = ""
        with suppress(ProducerError):
            kinds = GroupKind(self._link.group_id)
            protocol, kind = await self._link.ask(kinds, self.session.times.heartbeat_timeout)
        if protocol not in ("", PROTOCOL_TYPE):
            return f"it is a group of the type {protocol!r}, not of consumers; use another group_id"
        if kind == "consumer":
            return "its members have group_protocol='consumer'; use the same"
        return (
            "other members have another partition_assignment_strategy than "
            f"{', '.join(map(repr, self._settings.assignors))}; use the same"
        )

    def refused(self, code: int) -> bool:
        """A commit has brought the error ``code``: the group continues without the member.

        False: a join is under way, and the error may be one of the generation before it.
        """
        if self._joins:
            return False
        if self.session.last_heartbeat is not None:
            self._take_refusal(code, "OffsetCommit")
        return True

    def lose(self, why: str, *, new: bool) -> None:
        self._life += 1
        self._had = ()
        member_id = "" if new else self.identity.member_id
        self._go_on_as(self.identity._replace(member_id=member_id, generation=NO_GENERATION), why)
        self._heartbeats.clear()
        self._rebalance.set()
        if self._joins:
            self._link.stop_waiting(why)

    # --- heartbeats --------------------------------------------------------------------------

    async def _send_heartbeats(self) -> None:
        """Send heartbeats, also while a join waits for other members.

        The coordinator needs none then. Their answers tell a join that takes long from one that
        waits for a dead coordinator, which the end of the connection ends, too.
        """
        timeout = self.session.times.heartbeat_timeout
        while True:
            await self._heartbeats.wait()
            if (rest := self._next_heartbeat - self.session.real_clock()) > 0:
                await asyncio.sleep(rest)
                continue  # a join may have completed meanwhile
            identity, asked = self.identity, self.session.real_clock()
            self._restart_heartbeats()
            try:
                code = await self._link.ask(Heartbeat(identity), timeout)
            except ProducerError as error:
                if not self._link.may_pass(error):
                    raise
                self.session.look()
                continue
            if self._heartbeats.is_set() and self.identity == identity:
                self._take_heartbeat(code, asked)

    def _restart_heartbeats(self) -> None:
        """Send the next heartbeat an interval from now. Source: Kafka's ``Heartbeat``."""
        session = self.session
        self._next_heartbeat = session.real_clock() + session.times.heartbeat_interval()
        self._heartbeats.set()

    def _take_heartbeat(self, code: int, asked: float) -> None:
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.session.look()
        elif self.session.last_heartbeat is not None:
            self.session.alive(asked)
        if self._joins:
            self._take_heartbeat_of_join(code, asked)
        else:
            self._take_refusal(code, "Heartbeat")

    def _take_heartbeat_of_join(self, code: int, asked: float) -> None:
        """The join's answer says what is to do, unless it can't be on its way any more."""
        reaction = self._link.react(code)
        if self.session.last_heartbeat is None or reaction not in LOST:
            self._contradicted = inf
        elif reaction is Reaction.JOIN_AS_NEW:
            self._take_refusal(code, "Heartbeat")
        elif asked >= self._contradicted:
            self._link.stop_waiting("the coordinator has ended the join without the member")
        else:
            patience = self.session.times.heartbeat_timeout
            self._contradicted = min(self._contradicted, self.session.real_clock() + patience)

    # --- the end -----------------------------------------------------------------------------

    async def _send_leave(
        self, identity: Membership, reason: str, timeout: float | None = None
    ) -> int:
        """Send LeaveGroup. A static member sends none, for the coordinator would give its
        partitions away: its heartbeats stop, and its session ends later (KIP-345)."""
        if not (identity.member_id and self.leaves_for_good):
            return ErrorCode.NONE
        return int(await self._link.ask(LeaveGroup(identity, reason), timeout))
