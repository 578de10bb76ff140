"""The protocol by which a consumer is a member of its group: as set, or as the group has it.

Sources: KIP-1274, by which Kafka 4.3 recommends the protocol of KIP-848; for the groups that a
member of either protocol may join, ``GroupMetadataManager``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

from aioproducer.consumer.classic import ClassicMember
from aioproducer.consumer.consumer_member import ConsumerMember
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.member import (
    Member,
    MemberSettings,
    MemberSurroundings,
    Partitions,
    Topics,
)
from aioproducer.consumer.metrics import ConsumerStats
from aioproducer.consumer.options import ConsumerOptions, GroupProtocolOption
from aioproducer.consumer.session import Session, SessionTimes
from aioproducer.engine.groups.assignors import ASSIGNORS
from aioproducer.engine.groups.requests import (
    PROTOCOL_TYPE,
    ClassicGroup,
    GroupKind,
    Membership,
    Reaction,
)
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProducerError, UnsupportedVersionError, kafka_error
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.foundation.logs import ModuleLogger

logger = ModuleLogger(__name__)

_MOST_REFUSALS: Final = 10
"""Refusals one after another, between which the group is looked at again."""
_REFUSALS: Final = frozenset(
    {
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNSUPPORTED_VERSION,
        # Kafka 4.3 fails to convert a classic group before its first assignment
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The errors of a group that has another protocol than the member, or other brokers."""


class Choice(NamedTuple):
    """A protocol, with the strategies of a classic member."""

    protocol: GroupProtocolOption
    strategies: tuple[str, ...]
    why: str


class _ChosenAnewError(Exception):
    """The group has come to another protocol while the member was not in it."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice


class GroupProtocol:
    """Chooses the protocol, and has a member that speaks it (:attr:`member`).

    With ``group_protocol=None`` the coordinator is asked for the group before each join from
    outside, and again when it refuses the member: a group with classic members is joined by their
    protocol, every other one by that of KIP-848. So no member converts a group in which others
    live, and a member that is in the group stays with its protocol. ``make``: makes the member
    instead of the class of its protocol, which has to be given.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        link: CoordinatorLink,
        topics: Topics,
        partitions: Partitions,
        stats: ConsumerStats,
        topics_interval: float,
        rack: str | None,
        make: Callable[[MemberSurroundings], Member] | None = None,
    ) -> None:
        self._options = options
        self._make = make
        self._link = link
        client = link.client
        self.session = Session(
            partitions,
            SessionTimes.of(options),
            client.clock,
            client.real_clock,
            link.group_id,
            stats,
        )
        settings = MemberSettings(
            assignors=options.assignors,
            remote_assignor=options.group_remote_assignor,
            topics_interval=topics_interval,
            rack=rack,
        )
        self._surroundings = MemberSurroundings(
            link,
            Membership(link.group_id, instance_id=options.group_instance_id),
            settings,
            topics,
            partitions,
            stats,
            self.session,
            self._confirm,
        )
        self._is_new = False
        """True if the group was looked at, and no member has joined since."""
        self._refusals = 0
        self._patience_ends = -inf
        """The clock's time until which a rebalance may last that will choose a strategy."""
        self._has_api = True
        """False: the coordinator has refused the protocol of KIP-848 as such."""
        self._ends = False
        self.name = options.group_protocol
        """The protocol; None: it is not chosen yet."""
        self.member: Member = self._made(self.name or "classic", options.assignors)

    async def run(self) -> None:
        """Be a member until the task is cancelled. Raises an error that no retry can mend."""
        if (given := self._options.group_protocol) is None:
            self._take(await self._look())
        elif self._make is None:
            self._tell(given, f"because of {self._options.decided_by}")
        while not self._ends:
            try:
                await self.member.run()
            except _ChosenAnewError as anew:
                self._take(anew.choice)
            except ProducerError as error:
                self._take(await self._choose_anew(error))
            else:
                return

    def end(self) -> None:
        """Join no more, as :meth:`Member.end`."""
        self._ends = True
        self.member.end()

    # --- the choice ------------------------------------------------------------------------

    async def _look(self) -> Choice:
        """The protocol of the group as it is now."""
        backoff = self._link.client.backoff()
        failures = 0
        while True:
            try:
                group, has_api = await self._link.describe(self.session.times.heartbeat_timeout)
            except UnsupportedVersionError:
                return self._classic("the brokers describe no groups")
            except ProducerError as error:
                if not self._link.may_pass(error):
                    raise
                logger.debug("Looking at group %r: %s", self._link.group_id, error, error=error)
            else:
                if (choice := self._choice(group, has_api)) is not None:
                    return choice
            failures += 1
            await asyncio.sleep(backoff.delay(failures))

    def _choice(self, group: ClassicGroup, has_api: bool) -> Choice | None:
        """The protocol for ``group``; None: the coordinator has to be asked again."""
        code = group.error_code
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return self._classic("the group may not be described")
        if code != ErrorCode.GROUP_ID_NOT_FOUND and code:
            if self._link.react(code) is Reaction.FAIL:
                raise error_about(f"group {self._link.group_id!r}", code, Api.DESCRIBE_GROUPS)
            return None
        if group.has_members:
            self._check_type(group.protocol_type, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.assignor and group.assignor not in ASSIGNORS:
                raise kafka_error(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"the members of group {self._link.group_id!r} have the strategy "
                    f"{group.assignor!r}, which a Consumer does not; use another group_id",
                )
            if not group.assignor and self._link.client.clock() < self._patience_ends:
                return None
            strategies = (group.assignor,) if group.assignor else ()
            return self._classic("the group has members that use it", strategies)
        if not has_api:
            return self._classic("the coordinator has no other: it is older than Kafka 4.0")
        if not self._has_api:
            return self._classic("the coordinator has disabled the other one")
        is_empty = not code
        why = "the group is empty" if is_empty else "the group is new, or uses it already"
        return Choice("consumer", self._settings.assignors, why)

    def _classic(self, why: str, strategies: tuple[str, ...] = ()) -> Choice:
        return Choice("classic", strategies or self._settings.assignors, why)

    async def _confirm(self) -> None:
        """Look at the group again before the member joins it from outside."""
        if self._options.group_protocol is not None:
            return
        if self._is_new:
            self._is_new = False
            return
        choice = await self._look()
        present = self._settings.assignors
        strategies = choice.strategies if choice.protocol == "classic" else present
        if (choice.protocol, strategies) != (self.name, present):
            raise _ChosenAnewError(choice)

    async def _choose_anew(self, error: ProducerError) -> Choice:
        """The protocol after the group has refused the member with ``error``, which is raised if
        another attempt would not help."""
        code = getattr(error, "code", None)
        if isinstance(error, UnsupportedVersionError) and self.name == "consumer":
            code = ErrorCode.UNSUPPORTED_VERSION
        if self._options.group_protocol is not None or code not in _REFUSALS:
            raise error
        if self.session.last_heartbeat is not None:
            self._refusals = 0
            self.member.lose(ErrorCode(code).name, new=True)
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            raise error
        logger.debug("Joining group %r: %s", self._link.group_id, error, error=error)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            self._has_api = False
        elif code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._has_api = True  # the group has members that use it
            self._patience_ends = self._link.client.clock() + self.session.times.longest_work
        await asyncio.sleep(self._link.client.backoff().delay(self._refusals))
        choice = await self._look()
        self._patience_ends = -inf
        if code == ErrorCode.GROUP_ID_NOT_FOUND and choice.protocol == "consumer":
            kind, kinds = "", GroupKind(self._link.group_id)
            with suppress(ProducerError):
                kind, _ = await self._link.ask(kinds, self.session.times.heartbeat_timeout)
            self._check_type(kind, code)
        return choice

    def _check_type(self, kind: str, code: int) -> None:
        """Raise the error ``code`` if the group is none of consumers."""
        if kind not in ("", PROTOCOL_TYPE):
            raise kafka_error(
                code,
                f"group {self._link.group_id!r} is one of the type {kind!r}, not of consumers; use "
                "another group_id",
            )

    # --- the member ------------------------------------------------------------------------

    @property
    def _settings(self) -> MemberSettings:
        """The settings of the present member."""
        return self._surroundings.settings

    def _take(self, choice: Choice) -> None:
        """Have another member, which keeps the id of a classic one."""
        if self._ends:
            return
        former, stays = self.member, self.name == choice.protocol == "classic"
        self.name, self._is_new = choice.protocol, True
        self._tell(choice.protocol, choice.why)
        self.member = self._made(choice.protocol, choice.strategies)
        self.member.gave_up = former.gave_up
        if stays:
            self.member.identity = former.identity

    def _tell(self, protocol: str, why: str) -> None:
        logger.info(
            "Group %r: this member uses the %s protocol: %s", self._link.group_id, protocol, why
        )

    def _made(self, protocol: str, strategies: tuple[str, ...]) -> Member:
        classic = protocol == "classic"
        self.session.times = SessionTimes.of(self._options, classic=classic)
        self._surroundings = self._surroundings._replace(
            settings=self._settings._replace(assignors=strategies)
        )
        make = self._make or (ClassicMember if classic else ConsumerMember)
        return make(self._surroundings)
