"""Conversations of members of both protocols in one group."""

from __future__ import annotations

from typing import Any, Final

from aioproducer.engine.groups.requests import (
    assigned_in,
    assignment_bytes,
    subscription_bytes,
)
from aioproducer.model import TopicPartition
from tests.support.conversations import chat as c
from tests.support.conversations.chat import Chat, ErrorCode
from tests.support.conversations.conversation import Conversations
from tests.support.conversations.members import LONG_MS, EpochGroup, Group, Member

MIGRATED_GROUPS: Final = Conversations()
conversation = MIGRATED_GROUPS.held(2)
SHORT_MS: Final = 2_000


class Mixed:
    """A group that members of both protocols join, and its topic."""

    def __init__(self, chat: Chat, partitions: int = 4) -> None:
        self.chat = chat
        self.partitions = range(partitions)
        self.epochs = EpochGroup(chat, partitions)
        self.classic = Group(chat, self.epochs.name)
        self.topic = self.epochs.topics[0]

    def places(self, *numbers: int) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in numbers]

    def older(self, **options: Any) -> OlderMember:
        """A member of the classic protocol."""
        return OlderMember(self, **options)

    def describe(self) -> None:
        """The group by both protocols."""
        self.epochs.describe()
        self.classic.describe()
        self.classic.listed()


class OlderMember(Member):
    """A member of the classic protocol that keeps its partitions in mind."""

    def __init__(self, mixed: Mixed, **options: Any) -> None:
        self.mixed = mixed
        super().__init__(mixed.classic, subscription=self.subscribed(), **options)

    def subscribed(self, *owned: int) -> bytes:
        """A subscription with partitions that it has."""
        return subscription_bytes(
            [self.mixed.topic], self.mixed.places(*owned), -1 if not owned else 1, None
        )

    def owns(self, *numbers: int) -> None:
        """Say at the next join that it has these partitions."""
        self.subscription = self.subscribed(*numbers)

    def lead(self, *others: OlderMember, divided: tuple[tuple[int, ...], ...]) -> None:
        """Hand in the partitions of each member, its own first."""
        assigned = [
            (member, assignment_bytes(self.mixed.places(*numbers)))
            for member, numbers in zip((self, *others), divided, strict=True)
        ]
        waits = [other.begin_sync() for other in others]
        self.sync(*assigned)
        for each in waits:
            self.chat.finish(each)

    def step(self) -> None:
        """Join and sync; say next time what it was told."""
        if self.join():
            return
        body = self.chat.finish(self.begin_sync())
        if not body.error_code:
            self.owns(*(each.partition for each in assigned_in(body.assignment)))


def stable(mixed: Mixed, **options: Any) -> tuple[OlderMember, OlderMember]:
    """A classic group of two members that have half of the partitions each."""
    everything = tuple(mixed.partitions)
    half = len(everything) // 2
    one, two = mixed.older(**options), mixed.older(**options)
    one.join()
    one.lead(divided=(everything,))
    asked = two.begin_join()
    if two.joined(asked) == ErrorCode.MEMBER_ID_REQUIRED:
        asked = two.begin_join()
    mixed.classic.until("PreparingRebalance", 2)
    one.join()
    two.joined(asked)
    one.lead(two, divided=(everything[:half], everything[half:]))
    one.owns(*everything[:half])
    two.owns(*everything[half:])
    return one, two


# --- upgrades ----------------------------------------------------------------------------------


@conversation
def a_member_of_the_newer_protocol_joins_a_classic_group(chat: Chat) -> None:
    mixed = Mixed(chat, 6)
    one, two = stable(mixed)
    newer = mixed.epochs.member()
    newer.join(heard=False)
    newer.leave(heard=False)
    mixed.describe()
    one.heartbeat()
    two.heartbeat()


@conversation
def a_classic_member_alone_is_joined(chat: Chat) -> None:
    mixed = Mixed(chat)
    older = mixed.older()
    older.join()
    older.lead(divided=((0, 1, 2, 3),))
    older.owns(0, 1, 2, 3)
    newer = mixed.epochs.member()
    newer.join()
    mixed.describe()
    older.heartbeat()
    older.commit(3)
    older.sync()
    older.step()
    mixed.describe()
    older.heartbeat()
    older.step()
    mixed.describe()
    newer.beat()
    newer.own()
    older.heartbeat()
    older.heartbeat(generation_id=1)
    older.sync(generation_id=1)
    older.sync(protocol_name="roundrobin")
    older.commit(4)
    older.commit(5, generation_id_or_member_epoch=1)
    older.commit(6, generation_id_or_member_epoch=older.generation + 1)
    older.commit(7, member_id="stranger")
    newer.leave()
    mixed.describe()
    older.heartbeat()
    older.join()
    older.lead(divided=((0, 1, 2, 3),))
    mixed.describe()


@conversation
def a_classic_group_of_others_is_not_joined(chat: Chat) -> None:
    mixed = Mixed(chat)
    other = mixed.older()
    other.join(protocol_type="connect")
    newer = mixed.epochs.member()
    newer.join()
    newer.beat(member_epoch=1)
    newer.leave()
    other.sync(protocol_type="connect")
    mixed.describe()


@conversation
def a_rebalance_is_overtaken_by_the_newer_protocol(chat: Chat) -> None:
    mixed = Mixed(chat, 6)
    one, two = stable(mixed)
    asked = one.begin_join()
    mixed.classic.until("PreparingRebalance", 2)
    newer = mixed.epochs.member()
    newer.join(heard=False)
    one.joined(asked)
    two.heartbeat()


@conversation
def classic_members_join_the_newer_protocol(chat: Chat) -> None:
    mixed = Mixed(chat)
    newer = mixed.epochs.member()
    newer.join()
    newer.own()
    older = mixed.older(protocols=("range", "cooperative-sticky"))
    older.join(protocol_type="connect")
    older.join(protocols=[])
    older.joined(older.begin_join())
    older.step()
    mixed.describe()
    older.heartbeat()
    newer.beat()
    newer.own()
    older.heartbeat()
    older.step()
    mixed.describe()
    other = mixed.older(protocols=("roundrobin",))
    other.join()
    older.leave()
    older.leave()
    newer.beat()
    newer.own()
    mixed.describe()


@conversation
def a_classic_member_goes_over(chat: Chat) -> None:
    mixed = Mixed(chat)
    newer = mixed.epochs.member()
    newer.join()
    newer.own()
    older = mixed.older()
    older.step()
    newer.beat()
    newer.own()
    older.step()
    same = mixed.epochs.member(member_id=older.member_id)
    same.join()
    mixed.describe()
    older.heartbeat()
    older.sync()
    older.commit()
    same.own()
    newer.beat()
    newer.leave()
    mixed.describe()


@conversation
def members_of_the_newer_protocol_are_removed_by_others(chat: Chat) -> None:
    mixed = Mixed(chat)
    newer, static = mixed.epochs.member(), mixed.epochs.member(instance_id="first")
    newer.join()
    static.join()
    older = mixed.older()
    removed = [
        {"member_id": newer.member_id, "group_instance_id": None},
        {"member_id": "", "group_instance_id": "first"},
        {"member_id": "", "group_instance_id": "nobody"},
        {"member_id": "", "group_instance_id": None},
    ]
    older.ask(c.LEAVE_GROUP, 5, members=removed)
    mixed.describe()


# --- static members ----------------------------------------------------------------------------


@conversation
def a_static_member_goes_over_and_back(chat: Chat) -> None:
    mixed = Mixed(chat)
    older = mixed.older(instance_id="first")
    older.join()
    older.lead(divided=((0, 1, 2, 3),))
    newer = mixed.epochs.member(instance_id="first")
    newer.join()
    mixed.describe()
    older.heartbeat()
    newer.own()
    back = mixed.older(instance_id="first")
    back.join()
    mixed.describe()
    newer.beat()
    back.heartbeat()
    back.sync()


@conversation
def a_static_member_is_replaced_beside_another(chat: Chat) -> None:
    mixed = Mixed(chat)
    newer = mixed.epochs.member()
    static = mixed.older(instance_id="first")
    newer.join()
    newer.own()
    static.step()
    newer.beat()
    newer.own()
    static.step()
    again = mixed.older(instance_id="first")
    again.join()
    again.sync()
    static.heartbeat()
    static.sync()
    static.join()
    again.heartbeat()
    again.heartbeat(group_instance_id="nobody")
    mixed.describe()


# --- times -------------------------------------------------------------------------------------


@conversation
def a_classic_member_does_not_join_again(chat: Chat) -> None:
    mixed = Mixed(chat)
    older = mixed.older(rebalance_ms=SHORT_MS)
    older.join()
    older.lead(divided=((0, 1, 2, 3),))
    newer = mixed.epochs.member()
    newer.join()
    older.heartbeat()
    chat.line.wait(1.0)
    older.heartbeat()
    mixed.epochs.until("Assigning", 1)
    newer.beat()
    mixed.describe()


@conversation
def a_classic_member_does_not_ask_for_its_assignment(chat: Chat) -> None:
    mixed = Mixed(chat)
    newer = mixed.epochs.member()
    newer.join()
    older = mixed.older(rebalance_ms=SHORT_MS)
    older.join()
    chat.line.wait(1.0)
    older.heartbeat()
    mixed.epochs.until("Assigning", 1)
    older.heartbeat()


@conversation
def the_session_of_the_last_member_of_the_newer_protocol_ends(chat: Chat) -> None:
    mixed = Mixed(chat)
    mixed.epochs.configure({"heartbeat.interval.ms": 1_000, "session.timeout.ms": SHORT_MS})
    older = mixed.older(session_ms=LONG_MS)
    older.join()
    older.lead(divided=((0, 1, 2, 3),))
    newer = mixed.epochs.member()
    newer.join()
    older.step()
    mixed.classic.until("PreparingRebalance", 1)
    older.heartbeat()
    mixed.describe()
