"""A member of a group whose coordinator divides the partitions (KIP-848).

Source: Kafka's ``ConsumerMembershipManager`` and ``ConsumerHeartbeatRequestManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping
from math import inf
from typing import Any, Final
from uuid import UUID

from aioproducer.consumer.member import Member, MemberSurroundings
from aioproducer.engine.groups.requests import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    LOST,
    ConsumerHeartbeat,
    Membership,
    MemberState,
    PartitionsById,
    Reaction,
)
from aioproducer.engine.protocol import Api
from aioproducer.engine.transactions.requests import by_topic
from aioproducer.errors import ProducerError, UnsupportedVersionError, kafka_error
from aioproducer.errors.broker import ErrorCode, explain
from aioproducer.foundation.logs import ModuleLogger, counted
from aioproducer.model import TopicPartition

logger = ModuleLogger(__name__)

_UNKNOWN_TOPIC_SECONDS: Final = 0.5
"""Seconds from one look for the name of a topic to the next."""
_LONGEST_SESSION_SECONDS: Final = 60.0
"""The brokers' ``group.consumer.max.session.timeout.ms``: a member that sends no heartbeat has lost
its instance id by then."""


class ConsumerMember(Member):
    """A member whose coordinator divides the partitions."""

    def __init__(self, surroundings: MemberSurroundings) -> None:
        self._random = surroundings.link.client.random
        identity = surroundings.identity._replace(
            member_id=self._new_id(), generation=JOINING, has_epochs=True
        )
        super().__init__(surroundings._replace(identity=identity))
        self._interval = self.session.times.heartbeat_interval()
        """Seconds; the coordinator says it with each answer."""
        self._subscribed: tuple[str, ...] = ()
        self._resubscribed = asyncio.Event()
        """Set when the topics are to be looked at now: the application wants others."""
        self._names: dict[UUID, str] = {}
        """The topics by their ids, as far as they are known."""
        self._ids: Mapping[str, UUID] = {}
        """The ids of the topics of which the member has partitions."""
        self._target: PartitionsById = {}
        """The partitions that the coordinator wants the member to have."""
        self._target_changed = asyncio.Event()
        self._next_look: asyncio.TimerHandle | None = None
        """The next look for topics whose names are not known."""
        self._due = asyncio.Event()
        """Set when there is something to tell before the next heartbeat's time."""
        self._all = True
        """True: the next heartbeat contains everything, not only the changes."""
        self._tells_owned = False
        """True: the next heartbeat contains the member's partitions."""
        self._asked = False
        """True once the coordinator may know the member."""
        self._refused_since = inf
        """The clock's time from which on the member's instance id has been another member's."""
        self._life = 0
        """The number of times that the group has gone on without the member."""

    async def run(self) -> None:
        """Be a member until the task is cancelled. Raises an error that no retry can mend."""
        self._subscribed = await self._wanted_topics()
        await super().run()

    def _new_id(self) -> str:
        """The member makes its id itself (KIP-1082)."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def _jobs(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {
            "heartbeats": self._send_heartbeats(),
            "partitions": self._keep_reconciled(),
            "topics": self._watch_topics(),
        }

    def _lasting(self) -> Collection[str]:
        return () if self.identity.generation == JOINING else ("heartbeats",)

    # --- topics ------------------------------------------------------------------------------

    async def _wanted_topics(self) -> tuple[str, ...]:
        backoff = self._link.client.backoff()
        failures = 0
        while True:
            try:
                return await self._topics.subscribed()
            except ProducerError as error:
                if not self._link.may_pass(error):
                    raise
                logger.debug("Topics of group %r: %s", self._link.group_id, error, error=error)
            failures += 1
            await asyncio.sleep(backoff.delay(failures))

    async def _watch_topics(self) -> None:
        """Tell the coordinator of topics that match a pattern, and of another subscription."""
        backoff = self._link.client.backoff()
        failures = 0
        while True:
            await _pause(self._resubscribed, self._settings.topics_interval)
            self._resubscribed.clear()
            try:
                subscribed = await self._topics.subscribed()
            except ProducerError as error:
                level = logging.DEBUG if self._link.may_pass(error) else logging.WARNING
                logger.repeated(
                    level, "topics", "Topics of group %r: %s", self._link.group_id, error
                )
                self._resubscribed.set()  # it is not known yet
                failures += 1
                await asyncio.sleep(backoff.delay(failures))
                continue
            failures = 0
            if subscribed != self._subscribed:
                self._subscribed = subscribed
                self._all = True
                self._due.set()

    def resubscribe(self) -> None:
        """The application wants other topics: the coordinator answers with other partitions."""
        self._resubscribed.set()

    def miss_topic(self, topic: str) -> None:
        """The coordinator notices it itself."""

    # --- heartbeats --------------------------------------------------------------------------

    async def _send_heartbeats(self) -> None:
        backoff = self._link.client.backoff()
        timeout = self.session.times.heartbeat_timeout
        failures = 0
        while True:
            if self.identity.generation == JOINING:
                if self._ends:
                    return
                await self._settle()
            self._due.clear()
            life, request, asked = self._life, self._heartbeat(), self.session.real_clock()
            self._asked = True
            try:
                answer: MemberState = await self._link.ask(request, timeout)
            except UnsupportedVersionError as error:
                raise _too_old(str(error)) from error
            except ProducerError as error:
                if not self._link.may_pass(error):
                    raise
                logger.debug("Heartbeat of %r: %s", self._link.group_id, error, error=error)
                reaction = Reaction.RETRY
            else:
                if self._life != life:
                    continue  # the group went on without the member meanwhile
                reaction = self._take(answer, asked)
            if reaction is Reaction.DONE:
                failures = 0
                rest = asked + self._interval - self.session.real_clock()
                await _pause(self._due, max(rest, 0))
                continue
            self.session.look()
            self._all = True  # the coordinator may have got the last one, or not
            failures += 1
            await asyncio.sleep(backoff.delay(failures))

    def _heartbeat(self) -> ConsumerHeartbeat:
        everything, self._all = self._all, False
        owned = None
        joins = self.identity.generation == JOINING
        reconciled = self.rebalance_began is None  # else it says nothing of its partitions
        if joins or ((everything or self._tells_owned) and reconciled):
            owned = {} if joins else self._owned_by_id()
            self._tells_owned = False
        if not everything and not joins:
            return ConsumerHeartbeat(self.identity, owned=owned)
        return ConsumerHeartbeat(
            self.identity,
            self.session.times.rebalance_ms,
            self._subscribed,
            self._settings.remote_assignor,
            owned,
            self._settings.rack,
        )

    def _owned_by_id(self) -> PartitionsById:
        owned = by_topic(self._partitions.owned)
        return {self._ids[topic]: numbers for topic, numbers in owned.items()}

    def _take(self, answer: MemberState, asked: float) -> Reaction:
        """Take an answer; returns what is to do."""
        code = answer.error_code
        reaction = self._link.react(code)
        if reaction is Reaction.DONE:
            self._refused_since = inf
            self.identity = self.identity._replace(
                member_id=answer.member_id or self.identity.member_id, generation=answer.epoch
            )
            self._interval = self.session.times.heartbeat_interval(answer.interval_ms)
            self.session.alive(asked)
            if answer.assignment is not None:
                self._target = answer.assignment
                self._target_changed.set()
        else:
            self._take_refusal(code, "ConsumerGroupHeartbeat", answer.message)
        return reaction

    # --- refusals ----------------------------------------------------------------------------

    def _take_refusal(self, code: int, what: str, message: str = "") -> None:
        reaction = self._link.react(code)
        if reaction is Reaction.FAIL:
            if code == ErrorCode.GROUP_ID_NOT_FOUND and self.identity.generation == JOINING:
                message = (
                    f"{message.rstrip('.') or 'it is a group of another kind'}; use another "
                    "group_id, or group_protocol='classic' if its members have that"
                )
            why = explain(code, message or None, Api.CONSUMER_GROUP_HEARTBEAT)
            text = f"{what} of group {self._link.group_id!r}: {why}"
            if code == ErrorCode.UNSUPPORTED_VERSION:
                raise _too_old(text)
            error = kafka_error(code, text)
            if code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise error
            self._partitions.tell(error)  # KIP-848: the member asks on, until it is permitted
        elif reaction in LOST:
            self.lose(ErrorCode(code).name, new=reaction is Reaction.JOIN_AS_NEW)
        elif code == ErrorCode.UNRELEASED_INSTANCE_ID:
            self._wait_for_instance()

    def _wait_for_instance(self) -> None:
        """Another member has the instance id: this instance before a crash, or one that lives."""
        now = self._clock()
        self._refused_since = min(self._refused_since, now)
        if now - self._refused_since > _LONGEST_SESSION_SECONDS:
            raise kafka_error(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"group_instance_id {self.identity.instance_id!r} of group "
                f"{self._link.group_id!r} belongs to another live member; give each instance "
                "its own",
            )
        logger.repeated(
            logging.WARNING,
            "instance",
            "Group %r: another member has the group_instance_id %r; this one waits until that one "
            "leaves, or its session ends",
            self._link.group_id,
            self.identity.instance_id,
        )

    def refused(self, code: int) -> bool:
        """A commit has brought the error ``code``: the group continues without the member."""
        if self.identity.generation != JOINING:
            self._take_refusal(code, "OffsetCommit")
            self._due.set()
        return True

    def lose(self, why: str, *, new: bool) -> None:
        self._life += 1
        self._target = {}
        self._target_changed.clear()
        self._all = True
        member_id = self._new_id() if new else self.identity.member_id
        self._go_on_as(self.identity._replace(member_id=member_id, generation=JOINING), why)
        self._due.set()

    # --- partitions --------------------------------------------------------------------------

    async def _keep_reconciled(self) -> None:
        """Have the partitions that the coordinator wants the member to have."""
        while True:
            await self._target_changed.wait()
            self._target_changed.clear()
            life, target = self._life, self._target
            known = await self._resolved(target)
            if self._life != life:
                continue
            if any(topic_id not in self._names for topic_id in target):
                self._look_again_soon()
            await self._reconcile(known, life)

    async def _resolved(self, target: PartitionsById) -> Mapping[TopicPartition, UUID]:
        """The partitions of ``target`` by the names of their topics, as far as these are known, and
        the ids of these."""
        if any(topic_id not in self._names for topic_id in target):
            try:
                ids = await self._topics.ids(self._subscribed)
            except ProducerError as error:
                logger.debug("Topics of group %r: %s", self._link.group_id, error, error=error)
            else:
                self._names |= {topic_id: name for name, topic_id in ids.items()}
        return {
            TopicPartition(self._names[topic_id], number): topic_id
            for topic_id, numbers in target.items()
            if topic_id in self._names
            for number in numbers
        }

    def _look_again_soon(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(_UNKNOWN_TOPIC_SECONDS, self._target_changed.set)

    async def _reconcile(self, target: Mapping[TopicPartition, UUID], life: int) -> None:
        owned = self._partitions.owned
        stays = {each for each in owned if target.get(each) == self._ids[each.topic]}
        gone, new = {*owned} - stays, target.keys() - stays
        self.rebalance_began = began = self._clock()
        try:
            if gone:
                await self._partitions.revoked(sorted(gone))
            if self._life != life:
                return
            self._ids = {where.topic: topic_id for where, topic_id in target.items()}
            await self._partitions.assigned(sorted(new), self._ids)
        finally:
            self.rebalance_began = None
        if gone or new:
            self._stats.rebalanced(began, self._clock())
            logger.info(
                "Group %r: epoch %d has given this member %s",
                self._link.group_id,
                self.identity.generation,
                counted(len(target), "partition"),
            )
        self._tells_owned = True
        self._due.set()

    # --- the end -----------------------------------------------------------------------------

    async def _send_leave(
        self, identity: Membership, reason: str, timeout: float | None = None
    ) -> int:
        if not self._asked:
            return ErrorCode.NONE
        epoch = LEAVING if self.leaves_for_good else LEAVING_FOR_A_WHILE
        request = ConsumerHeartbeat(identity._replace(generation=epoch))
        answer: MemberState = await self._link.ask(request, timeout)
        return answer.error_code


async def _pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for ``event``, ``seconds`` at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _too_old(why: str) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        f"{why}. group_protocol='consumer' needs Kafka 4.0: use 'classic'"
    )
