"""Conversations of members of groups, by the protocol of KIP-848."""

from __future__ import annotations

from typing import Any, Final

from tests.support.conversations import chat as c
from tests.support.conversations.chat import Chat
from tests.support.conversations.conversation import Conversations
from tests.support.conversations.members import EpochGroup, EpochMember, Group

EPOCH_GROUPS: Final = Conversations()
conversation = EPOCH_GROUPS.held(2)
SHORT_MS: Final = 2_000
"""A session, or a time to give partitions up, that ends in the midst of a conversation."""


def two_members(group: EpochGroup, **options: Any) -> tuple[EpochMember, EpochMember]:
    """Two members that share the partitions; the first one has joined first."""
    one, two = group.member(**options), group.member(**options)
    one.join()
    one.own()
    two.join()
    one.beat()
    one.own()
    two.beat()
    two.own()
    return one, two


# --- a member's life ---------------------------------------------------------------------------


@conversation
def a_member_from_its_first_heartbeat_to_its_leave(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    member = group.member()
    group.describe()
    member.join()
    group.describe()
    group.describe(0)
    member.own()
    member.beat()
    member.beat(**member.full())
    member.commit(3)
    member.committed()
    member.leave()
    group.describe()
    member.beat()
    member.leave()
    member.commit(4)
    member.committed()
    member.committed(member_id=None, member_epoch=-1)


@conversation
def a_second_member_takes_what_the_first_one_gives(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, two = group.member(), group.member()
    one.join()
    one.own()
    two.join()
    group.describe()
    two.beat()
    one.beat()
    group.describe()
    one.beat()
    two.beat()
    one.own()
    group.describe()
    two.beat()
    two.own()
    group.describe()
    one.leave()
    two.beat()
    two.own()
    group.describe()


@conversation
def a_member_that_gives_nothing_new(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, two = group.member(), group.member()
    one.join()
    had = one.assigned
    two.join()
    one.beat(topic_partitions=had)
    one.beat(topic_partitions=had)
    two.beat()
    one.beat(topic_partitions=[])
    two.beat()
    group.describe()


@conversation
def three_members(chat: Chat) -> None:
    group = EpochGroup(chat, 6)
    one, two = two_members(group)
    three = group.member()
    three.join()
    for member in (one, two):
        member.beat()
        member.own()
    three.beat()
    three.own()
    group.describe()
    two.leave()
    for member in (one, three, one, three):
        member.beat(heard=False)
        member.beat(heard=False, topic_partitions=member.assigned)
    group.until("Stable")
    [described] = group.describe(heard=False).groups
    chat.note(
        sorted(
            sum(len(each.partitions) for each in member.assignment.topic_partitions)
            for member in described.members
        )
    )


@conversation
def a_target_that_changes_on_the_way(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, two = group.member(), group.member()
    one.join()
    one.own()
    two.join()
    one.beat()
    two.leave()
    one.beat()
    group.describe()
    one.own()
    group.describe()
    two.join()
    two.leave()
    one.beat()
    group.describe()


# --- epochs ------------------------------------------------------------------------------------


@conversation
def epochs_of_others(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, two = two_members(group)
    for epoch in (one.epoch + 1, one.epoch - 1, one.epoch - 2):
        one.beat(member_epoch=epoch)
        one.beat(member_epoch=epoch, topic_partitions=one.assigned)
        one.beat(member_epoch=epoch, topic_partitions=two.assigned)
        one.beat(member_epoch=epoch, topic_partitions=[])
    stranger = group.member()
    stranger.beat(member_epoch=1)
    stranger.leave()
    one.beat()


@conversation
def a_response_that_was_lost(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, two = group.member(), group.member()
    one.join()
    one.own()
    before, had = one.epoch, one.assigned
    two.join()
    one.beat()
    kept = one.assigned
    one.own()
    one.beat(member_epoch=before, topic_partitions=had)
    one.beat(member_epoch=before, topic_partitions=kept)
    one.beat(member_epoch=before)
    one.beat(member_epoch=before, **one.full(topic_partitions=kept))


@conversation
def a_member_that_joins_again(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, two = two_members(group)
    one.join()
    group.describe()
    two.join()
    one.own()
    group.describe()


@conversation
def offsets_and_epochs(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one = group.member()
    one.commit(1, generation_id_or_member_epoch=-1, member_id="")
    one.commit(1, generation_id_or_member_epoch=0)
    one.join()
    one.own()
    two = group.member()
    two.join()
    old = one.epoch
    one.beat()
    one.own()
    for version in (2, 7, 8, 9, 10):
        one.commit(version, version)
        one.commit(1, version, generation_id_or_member_epoch=-1, member_id="")
        two.commit(1, version, member_id="stranger")
    for epoch in (old, old - 1, one.epoch + 1, -1):
        for partition in (0, 3):
            one.commit(epoch, partition=partition, generation_id_or_member_epoch=epoch)
    for stable in (True, False):
        one.committed(stable=stable)
        one.committed(8, stable=stable)
        one.committed(member_epoch=old, stable=stable)
        one.committed(member_epoch=one.epoch + 1, stable=stable)
        one.committed(member_id="stranger", stable=stable)
        one.committed(member_id="stranger", member_epoch=-1, stable=stable)
        one.committed(member_id=None, member_epoch=-1, stable=stable)
        two.committed(stable=stable)


# --- what is refused ---------------------------------------------------------------------------


@conversation
def heartbeats_that_make_no_sense(chat: Chat) -> None:
    group = EpochGroup(chat, 1)
    member = group.member()
    wrong: tuple[dict[str, Any], ...] = (
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"subscribed_topic_names": None},
        {"topic_partitions": None},
        {"topic_partitions": [{"topic_id": group.ids[group.topics[0]], "partitions": (0,)}]},
        {"server_assignor": "none"},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_epoch": -1},
        {"member_epoch": 1},
    )
    for changed in wrong:
        values = {"member_epoch": 0, "topic_partitions": (), **changed}
        member.beat(**{**member.full(), **values})
    group.describe()
    for epoch in (0, 1, -1, -2):
        member.beat(
            0, **{**member.full(topic_partitions=()), "member_id": "", "member_epoch": epoch}
        )
    group.describe()


@conversation
def a_broker_that_does_not_coordinate_epochs(chat: Chat) -> None:
    group = EpochGroup(chat, 1)
    group.at = next(each for each in chat.line.brokers if each != group.at)
    member = group.member()
    member.join()
    member.leave()
    group.describe()


@conversation
def ids_that_the_coordinator_gives(chat: Chat) -> None:
    group = EpochGroup(chat, 2)
    member = group.member()
    member.beat(0, **member.full(member_epoch=0, member_id="", topic_partitions=()))
    member.beat(0)
    member.own()
    member.leave()


# --- subscriptions and assignors ---------------------------------------------------------------


@conversation
def topics_that_come_and_go(chat: Chat) -> None:
    group = EpochGroup(chat, 2, 2)
    first, second = group.topics
    member = group.member(topics=(first,))
    member.join()
    member.own()
    member.beat(subscribed_topic_names=(first, second))
    member.own()
    member.beat(subscribed_topic_names=(second,))
    group.describe()
    member.own()
    group.describe()
    member.beat(subscribed_topic_names=(second, f"{first}-that-is-not-there"))
    member.beat(subscribed_topic_names=(f"{first}-that-is-not-there",))
    member.own()
    member.beat(subscribed_topic_names=())
    group.describe()


@conversation
def ranges(chat: Chat) -> None:
    group = EpochGroup(chat, 3, 4)
    one = group.member(assignor="range", instance_id="a")
    two = group.member(assignor="range", instance_id="b")
    one.join()
    one.own()
    two.join()
    one.beat()
    one.own()
    two.beat()
    two.own()
    group.describe()
    one.beat(subscribed_topic_names=(group.topics[0],))
    one.own()
    two.beat()
    group.describe()


@conversation
def different_subscriptions(chat: Chat) -> None:
    group = EpochGroup(chat, 2, 4)
    one, two = group.member(topics=group.topics[:1]), group.member()
    one.join()
    one.own()
    two.join()
    one.beat()
    one.own()
    two.beat()
    two.own()
    group.describe()


@conversation
def an_assignor_that_changes(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    member = group.member(assignor="range")
    member.join()
    group.describe()
    member.beat(server_assignor="uniform")
    group.describe()


def _by(group: EpochGroup, regex: str) -> EpochMember:
    """A member that subscribes to the topics of a regular expression."""
    member = group.member()
    joins = {"member_epoch": 0, "topic_partitions": (), "subscribed_topic_names": None}
    member.beat(**member.full(**joins), subscribed_topic_regex=regex)
    chat = group.chat
    for _ in range(100):
        [found] = group.describe(heard=False).groups
        if found.group_state == "Assigning":
            break
        chat.line.wait(0.05)
    return member


@conversation
def topics_of_a_regular_expression(chat: Chat) -> None:
    group = EpochGroup(chat, 2, 2)
    member = _by(group, f"{chat.topic}-[0-9]")
    group.describe()
    member.beat()
    member.own()
    group.describe()
    member.beat(**member.full(subscribed_topic_names=None), subscribed_topic_regex=None)
    member.beat(subscribed_topic_regex="")
    member.own()
    group.describe()


@conversation
def names_and_a_regular_expression(chat: Chat) -> None:
    group = EpochGroup(chat, 2, 2)
    member = group.member(topics=group.topics[:1])
    member.join()
    member.own()
    member.beat(subscribed_topic_regex=f"{chat.topic}-1")
    group.until("Assigning")
    member.beat()
    member.own()
    member.beat(subscribed_topic_names=())
    member.own()
    group.describe()


@conversation
def members_with_the_same_regular_expression(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one = _by(group, f"{chat.topic}-.")
    one.beat()
    one.own()
    two = group.member()
    joins = {"member_epoch": 0, "topic_partitions": (), "subscribed_topic_names": ()}
    two.beat(**two.full(**joins), subscribed_topic_regex=f"{chat.topic}-.")
    one.beat()
    one.own()
    two.beat()
    group.describe()
    one.leave()
    two.beat()
    group.describe()


@conversation
def regular_expressions_that_are_none_or_stand_for_no_topic(chat: Chat) -> None:
    group = EpochGroup(chat, 2)
    member = group.member()
    joins = {"member_epoch": 0, "topic_partitions": (), "subscribed_topic_names": None}
    member.beat(**member.full(**joins), subscribed_topic_regex="(")
    group.describe()
    member.beat(**member.full(**joins), subscribed_topic_regex=f"{chat.topic}-no")
    chat.line.wait(1.0)
    member.beat()
    group.describe()
    member.beat(subscribed_topic_regex="[")
    member.beat()


# --- static members ----------------------------------------------------------------------------


@conversation
def a_static_member_comes_back_in_a_new_epoch(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    old = group.member(instance_id="first")
    old.join()
    old.own()
    new = group.member(instance_id="first")
    new.join()
    new.beat(member_epoch=1)
    new.leave()
    new.leave(-2)
    old.commit(2)
    old.leave(-2)
    group.describe()
    old.commit(3)
    old.committed()
    new.join()
    group.describe()
    new.own()
    old.beat(member_epoch=1)
    old.leave()
    old.beat(member_epoch=1, instance_id=None)
    old.join()
    new.beat(instance_id="another")
    new.beat(instance_id=None)
    new.beat()
    new.commit(4)
    new.leave()
    group.describe()


@conversation
def a_static_member_comes_back_to_another(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, old = group.member(), group.member(instance_id="second")
    one.join()
    one.own()
    old.join()
    one.beat()
    one.own()
    old.beat()
    old.own()
    old.leave(-2)
    one.beat()
    group.describe()
    new = group.member(instance_id="second")
    new.join()
    new.own()
    one.beat()
    group.describe()


@conversation
def a_static_member_that_keeps_its_id(chat: Chat) -> None:
    group = EpochGroup(chat, 2)
    member = group.member(instance_id="first")
    member.join()
    member.own()
    member.join()
    member.leave(-2)
    member.join()
    member.own()
    member.leave()


# --- times -------------------------------------------------------------------------------------


@conversation
def a_session_by_epochs_ends(chat: Chat) -> None:
    group = EpochGroup(chat, 4, session_timeout_ms=SHORT_MS, heartbeat_interval_ms=1_000)
    member = group.member()
    member.join()
    chat.line.wait(1.0)
    member.beat()
    chat.line.wait(1.2)
    member.beat()
    group.until("Empty")
    group.describe()
    member.beat()
    member.commit()


@conversation
def a_static_member_that_does_not_come_back(chat: Chat) -> None:
    group = EpochGroup(chat, 4, session_timeout_ms=SHORT_MS, heartbeat_interval_ms=1_000)
    member = group.member(instance_id="first")
    member.join()
    member.leave(-2)
    group.until("Empty")
    group.describe()
    again = group.member(instance_id="first")
    again.join()


@conversation
def partitions_that_are_not_given_up_in_time(chat: Chat) -> None:
    group = EpochGroup(chat, 4)
    one, two = group.member(rebalance_ms=SHORT_MS), group.member()
    one.join()
    two.join()
    one.beat()
    one.beat(topic_partitions=[{"topic_id": one.assigned[0]["topic_id"], "partitions": (3,)}])
    group.until("Assigning", 1)
    one.own()
    two.beat()
    group.describe()


@conversation
def partitions_are_divided_every_now_and_then(chat: Chat) -> None:
    group = EpochGroup(chat, 4, assignment_interval_ms=3_000)
    one, two = group.member(), group.member()
    one.join()
    two.join()
    group.describe()
    one.beat()
    chat.line.wait(3.1)
    two.beat()
    one.beat()
    group.describe()


# --- both protocols ----------------------------------------------------------------------------


@conversation
def a_group_that_changes_its_protocol_when_it_is_empty(chat: Chat) -> None:
    group = EpochGroup(chat, 2)
    classic = Group(chat, group.name)
    member = group.member()
    member.join()
    classic.describe()
    classic.describe(6)
    classic.listed()
    classic.listed(types_filter=("classic",))
    classic.listed(states_filter=("stable",))
    stranger = classic.member()
    stranger.heartbeat()
    stranger.sync()
    stranger.leave()
    member.leave()
    classic.listed()
    other = classic.member()
    other.join()
    other.sync((other, b"all"))
    group.describe()
    member.beat()
    member.leave()
    other.commit(5)
    other.leave()
    member.join()
    member.committed()
    group.describe()


# --- transactions ------------------------------------------------------------------------------


@conversation
def offsets_of_members_in_transactions_by_epochs(chat: Chat) -> None:
    group, name = EpochGroup(chat, 2), f"{chat.topic}-id"
    producer = chat.init(name)
    member = group.member()
    member.join()
    second = group.member()
    second.join()
    member.beat()
    row = {
        "partition_index": 0,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    for version in (2, 4, 5):
        for epoch, member_id in (
            (member.epoch, member.member_id),
            (member.epoch - 1, member.member_id),
            (member.epoch + 1, member.member_id),
            (-1, member.member_id),
            (member.epoch, "stranger"),
            (-1, ""),
        ):
            member.ask(
                c.TXN_OFFSETS,
                version,
                patient=True,
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                generation_id_or_member_epoch=epoch,
                member_id=member_id,
                group_instance_id=None,
                topics=[{"name": group.topics[0], "partitions": [row]}],
            )
