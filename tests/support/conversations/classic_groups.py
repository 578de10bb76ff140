"""Conversations of members of groups, by the classic protocol."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from tests.support.conversations import chat as c
from tests.support.conversations.chat import Chat
from tests.support.conversations.conversation import Conversations
from tests.support.conversations.members import SUBSCRIPTION, Group, Member

CLASSIC_GROUPS: Final = Conversations()
conversation = CLASSIC_GROUPS.held(2)
SHORT_MS: Final = 2_000
"""A session, or a time to join again, that ends in the midst of a conversation."""


def two_members(group: Group, **options: Any) -> tuple[Member, Member]:
    """Two members of a stable group; the first one leads."""
    leader, other = group.member(**options), group.member(**options)
    leader.join()
    leader.sync((leader, b"all"))
    asked = other.begin_join()
    if other.joined(asked):
        asked = other.begin_join()
    group.until("PreparingRebalance", 2)
    leader.join()
    other.joined(asked)
    waits = other.begin_sync()
    leader.sync((leader, b"one"), (other, b"two"))
    group.chat.finish(waits)
    return leader, other


# --- a member's life ---------------------------------------------------------------------------


@conversation
def a_member_from_its_join_to_its_leave(chat: Chat) -> None:
    group = Group(chat)
    member = group.member()
    group.listed()
    member.joined(member.begin_join())
    group.until("Empty")
    group.describe()
    member.commit()
    member.heartbeat()
    member.joined(member.begin_join())
    group.describe()
    member.heartbeat()
    member.commit()
    member.sync((member, b"all"))
    group.describe()
    group.describe(6)
    group.listed()
    group.listed(states_filter=("stable",), types_filter=("Classic",))
    group.listed(states_filter=("Empty",))
    group.listed(types_filter=("consumer",))
    member.heartbeat()
    member.commit(3)
    group.committed()
    member.sync((member, b"too late"))
    member.leave()
    group.describe()
    group.listed()
    group.committed()
    member.heartbeat()
    member.sync()
    member.commit(4)
    member.leave()


@conversation
def all_versions_of_a_members_requests(chat: Chat) -> None:
    for version in range(2, 10):
        group = Group(chat)
        member = group.member()
        member.join(version)
        member.heartbeat(min(version - 1, 4))
        member.sync((member, b"all"), version=min(version - 1, 5))
        member.commit(version=version)
        member.heartbeat(min(version - 1, 4))
        member.join(version)
        member.leave(min(version - 1, 5))
        member.leave(min(version - 1, 5))
        for refused in (version, max(version - 1, 2)):
            member.joined(member.begin_join(refused, member_id="stranger"))


@conversation
def a_member_that_nobody_knows(chat: Chat) -> None:
    group = Group(chat)
    stranger = group.member()
    stranger.member_id, stranger.generation = "stranger", 3
    _refusals(stranger)
    member = group.member()
    member.join()
    member.sync((member, b"all"))
    _refusals(stranger)


def _refusals(stranger: Member) -> None:
    stranger.joined(stranger.begin_join())
    stranger.sync((stranger, b"all"))
    stranger.heartbeat()
    stranger.leave()
    stranger.leave(2)
    for version in (7, 8, 9, 10):
        stranger.commit(version=version)
    stranger.group.committed()


@conversation
def requests_that_are_refused_at_once(chat: Chat) -> None:
    group = Group(chat)
    member = group.member()
    member.join(session_timeout_ms=10)
    member.join(session_timeout_ms=2_000_000)
    member.join(protocols=[])
    member.join(protocol_type="")
    group.until("Empty")
    group.describe()
    for refused in (member.begin_join, member.begin_sync):
        chat.finish(refused(group_id=""))
    member.heartbeat(group_id="")
    member.leave(group_id="")
    member.sync(protocol_type=None)
    member.sync(protocol_name=None)


@conversation
def a_broker_that_does_not_coordinate(chat: Chat) -> None:
    group = Group(chat)
    group.at = next(each for each in chat.line.brokers if each != group.at)
    member = group.member()
    member.join()
    member.sync()
    member.heartbeat()
    member.leave()
    member.leave(2)
    member.commit()
    group.describe()


# --- rebalances --------------------------------------------------------------------------------


@conversation
def a_second_member_joins(chat: Chat) -> None:
    group = Group(chat)
    leader, other = group.member(), group.member()
    leader.join()
    leader.sync((leader, b"all"))
    other.joined(other.begin_join())
    leader.heartbeat()
    asked = other.begin_join()
    group.until("PreparingRebalance", 2)
    group.describe()
    leader.heartbeat()
    leader.commit(2)
    leader.sync()
    other.heartbeat(generation_id=-1)
    leader.heartbeat(generation_id=0)
    leader.join()
    other.joined(asked)
    group.describe()
    other.heartbeat()
    other.commit(3)
    leader.heartbeat(generation_id=1)
    leader.commit(4, generation_id_or_member_epoch=1)
    waits = other.begin_sync()
    leader.sync((leader, b"one"), (other, b"two"))
    chat.finish(waits)
    group.describe()
    other.sync()
    other.commit(5)
    leader.sync(generation_id=1)
    group.committed()


@conversation
def a_leave_begins_a_rebalance(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group)
    other.leave()
    group.describe()
    leader.heartbeat()
    leader.commit()
    other.heartbeat()
    leader.join()
    leader.sync((leader, b"all"))
    leader.leave()
    group.describe()


@conversation
def the_leader_leaves(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group)
    leader.leave()
    group.describe()
    other.heartbeat()
    other.join()
    other.sync((other, b"all"))
    group.describe()


@conversation
def joins_of_members_that_have_joined(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group)
    other.join()
    group.describe()
    asked = leader.begin_join()
    group.until("PreparingRebalance", 2)
    other.heartbeat()
    other.join()
    leader.joined(asked)
    for member in (leader, other):
        member.join()
        member.join(version=5)


@conversation
def a_member_changes_its_subscription(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group)
    changed = [{"name": "range", "metadata": SUBSCRIPTION + b"\0"}]
    asked = other.begin_join(protocols=changed)
    group.until("PreparingRebalance", 2)
    leader.join()
    other.joined(asked)
    waits = other.begin_sync()
    leader.sync((leader, b"one"))
    chat.finish(waits)
    group.describe()


@conversation
def a_rebalance_while_members_wait_for_their_assignment(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group)
    third = group.member()
    asked = leader.begin_join()
    group.until("PreparingRebalance", 2)
    other.join()
    leader.joined(asked)
    waits = other.begin_sync()
    chat.line.wait(0.5)
    asked = third.begin_join(3)
    chat.finish(waits)
    other_asked = other.begin_join()
    leader.heartbeat()
    leader.sync((leader, b"one"), (other, b"two"))
    leader.join()
    other.joined(other_asked)
    third.joined(asked)
    group.describe()


@conversation
def assignors_are_voted_for(chat: Chat) -> None:
    group = Group(chat)
    leader = group.member(protocols=("sticky", "range", "roundrobin"))
    leader.join()
    leader.sync((leader, b"all"))
    other = group.member(protocols=("roundrobin", "cooperative-sticky"))
    other.join(protocols=[{"name": "cooperative-sticky", "metadata": SUBSCRIPTION}])
    other.join(protocol_type="connect")
    other.joined(other.begin_join())
    asked = other.begin_join()
    group.until("PreparingRebalance", 2)
    leader.join()
    other.joined(asked)
    waits = other.begin_sync(protocol_name="cooperative-sticky")
    chat.finish(waits)
    other.sync(protocol_type="connect")
    leader.sync((leader, b"one"), (other, b"two"), protocol_name="roundrobin")
    other.sync()
    group.describe()
    leader.join(protocols=[{"name": "range", "metadata": SUBSCRIPTION}])


# --- times -------------------------------------------------------------------------------------


@conversation
def a_session_ends(chat: Chat) -> None:
    group = Group(chat)
    member = group.member(session_ms=SHORT_MS)
    member.join()
    member.sync((member, b"all"))
    chat.line.wait(1.0)
    member.heartbeat()
    chat.line.wait(1.2)
    member.commit()
    chat.line.wait(1.2)
    group.describe()
    group.until("Empty")
    member.heartbeat()
    member.commit()
    member.joined(member.begin_join())
    group.describe()


@conversation
def one_of_two_sessions_ends(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group)
    leader.session_ms = SHORT_MS
    asked = leader.begin_join()
    group.until("PreparingRebalance", 2)
    other.join()
    leader.joined(asked)
    waits = other.begin_sync()
    leader.sync((leader, b"one"), (other, b"two"))
    chat.finish(waits)
    group.until("PreparingRebalance", 1)
    other.heartbeat()
    other.commit()
    other.join()
    other.sync((other, b"all"))
    leader.heartbeat()


@conversation
def an_id_that_nobody_joins_with(chat: Chat) -> None:
    group = Group(chat)
    leader, other = group.member(), group.member(session_ms=SHORT_MS)
    leader.join()
    leader.sync((leader, b"all"))
    other.joined(other.begin_join())
    asked = leader.begin_join()
    leader.joined(asked)
    group.describe()
    other.joined(other.begin_join())
    other.joined(other.begin_join())
    other.leave()
    other.leave()


@conversation
def a_member_that_does_not_join_again(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group, rebalance_ms=SHORT_MS)
    leader.join()
    group.describe()
    other.heartbeat()
    other.joined(other.begin_join())
    leader.heartbeat()


@conversation
def a_leader_that_does_not_join_again(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group, rebalance_ms=SHORT_MS)
    other.join(protocols=[{"name": "range", "metadata": SUBSCRIPTION + b"\0"}])
    other.sync((other, b"all"))
    leader.heartbeat()
    group.describe()


@conversation
def members_that_never_ask_for_their_assignment(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group, rebalance_ms=SHORT_MS)
    asked = leader.begin_join()
    group.until("PreparingRebalance", 2)
    other.join()
    leader.joined(asked)
    chat.finish(other.begin_sync())
    group.describe()
    leader.heartbeat()
    other.heartbeat()
    other.join()
    group.describe()
    group.until("Empty")


# --- static members ----------------------------------------------------------------------------


@conversation
def a_static_member_comes_back(chat: Chat) -> None:
    for version in (9, 8, 5):
        group = Group(chat)
        old = group.member(instance_id="first")
        old.join(version)
        old.sync((old, b"all"))
        group.describe()
        new = group.member(instance_id="first")
        new.join(version)
        group.describe()
        for refused in (old.heartbeat, old.sync, old.commit, old.leave):
            refused()
        old.joined(old.begin_join())
        old.leave(group_instance_id=None)
        old.heartbeat(group_instance_id=None)
        new.heartbeat()
        new.sync()
        new.heartbeat(group_instance_id="another")
        new.heartbeat(group_instance_id=None)
        new.commit()
        new.leave()
        group.describe()


@conversation
def a_static_follower_comes_back(chat: Chat) -> None:
    group = Group(chat)
    leader, other = group.member(), group.member(instance_id="second")
    leader.join()
    leader.sync((leader, b"all"))
    asked = other.begin_join()
    group.until("PreparingRebalance", 2)
    leader.join()
    other.joined(asked)
    waits = other.begin_sync()
    leader.sync((leader, b"one"), (other, b"two"))
    chat.finish(waits)
    again = group.member(instance_id="second")
    again.join()
    again.sync()
    leader.heartbeat()
    changed = group.member(instance_id="second", protocols=("roundrobin",))
    changed.join()
    changed.join(protocols=[{"name": "range", "metadata": SUBSCRIPTION + b"\0"}])
    group.describe()
    again.heartbeat()


@conversation
def static_members_wait_for_each_other(chat: Chat) -> None:
    group = Group(chat)
    leader, old = group.member(), group.member(instance_id="second")
    leader.join()
    leader.sync((leader, b"all"))
    asked = old.begin_join()
    group.until("PreparingRebalance", 2)
    new = group.member(instance_id="second")
    new_asked = new.begin_join()
    old.joined(asked)
    leader.join()
    new.joined(new_asked)
    waits = new.begin_sync()
    chat.line.wait(0.5)
    newest = group.member(instance_id="second")
    newest_asked = newest.begin_join()
    chat.finish(waits)
    group.until("PreparingRebalance", 2)
    leader.join()
    newest.joined(newest_asked)
    group.describe()


@conversation
def static_members_stay_in_a_rebalance(chat: Chat) -> None:
    group = Group(chat)
    leader = group.member(instance_id="first", rebalance_ms=SHORT_MS)
    other = group.member(instance_id="second", rebalance_ms=SHORT_MS, session_ms=5_000)
    leader.join()
    leader.sync((leader, b"all"))
    asked = other.begin_join()
    group.until("PreparingRebalance", 2)
    leader.join()
    other.joined(asked)
    waits = other.begin_sync()
    leader.sync((leader, b"one"), (other, b"two"))
    chat.finish(waits)
    leader.join()
    group.describe()
    leader.sync((leader, b"one"), (other, b"two"))
    other.heartbeat()
    other.join()


@conversation
def members_are_removed_by_others(chat: Chat) -> None:
    group = Group(chat)
    leader, other = two_members(group)
    third = group.member(instance_id="third")
    asked = third.begin_join()
    group.until("PreparingRebalance", 3)
    for member in (leader, other):
        member.heartbeat()
    removed = [
        {"member_id": "", "group_instance_id": "third"},
        {"member_id": "", "group_instance_id": "nobody"},
        {"member_id": "", "group_instance_id": None},
        {"member_id": other.member_id, "group_instance_id": None},
        {"member_id": other.member_id, "group_instance_id": None},
    ]
    leader.ask(c.LEAVE_GROUP, 5, members=removed)
    third.joined(asked)
    leader.join()
    group.describe()
    leader.ask(c.LEAVE_GROUP, 3, members=[])
    group.describe()


# --- offsets -----------------------------------------------------------------------------------


@conversation
def commits_of_members_and_of_others(chat: Chat) -> None:
    group = Group(chat)
    outsider = group.member()
    outsider.commit(1)
    outsider.commit(1, generation_id_or_member_epoch=0)
    outsider.commit(1, member_id="stranger")
    outsider.commit(1, group_instance_id="stranger")
    group.committed()
    member = group.member(instance_id="first")
    member.join()
    outsider.commit(2)
    member.sync((member, b"all"))
    for version in (2, 7, 8, 9, 10):
        outsider.commit(3, version)
        member.commit(version + 10, version)
        group.committed()
        member.commit(4, version, generation_id_or_member_epoch=-1)
        member.commit(4, version, generation_id_or_member_epoch=7)
        member.commit(4, version, member_id="stranger")
        member.commit(4, version, member_id="stranger", group_instance_id=None)
        member.commit(4, version, group_instance_id="stranger")
    row = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 0}
    unknown = [{"topic_id": UUID(int=9), "partitions": [row]}]
    for party in (outsider, member):
        party.commit(5, 10, topics=unknown)
    group.committed()


# --- transactions ------------------------------------------------------------------------------


def _commit_in_transaction(
    member: Member, name: str, producer: tuple[int, int], version: int = 3, **changed: Any
) -> None:
    row = {
        "partition_index": 0,
        "committed_offset": version,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    values = {
        "transactional_id": name,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "topics": [{"name": member.chat.topic, "partitions": [row]}],
        **changed,
    }
    member.ask(c.TXN_OFFSETS, version, **values)


@CLASSIC_GROUPS.held(1, 2)
def offsets_of_members_in_transactions(chat: Chat) -> None:
    group, name = Group(chat), f"{chat.topic}-id"
    producer = chat.init(name)
    chat.ask(
        c.ADD_OFFSETS,
        3,
        to=chat.coordinator(name),
        patient=True,
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group.name,
    )
    member, stranger = group.member(instance_id="first"), group.member()
    _commit_in_transaction(stranger, name, producer, generation_id_or_member_epoch=0)
    _commit_in_transaction(stranger, name, producer, member_id="stranger")
    member.join()
    _commit_in_transaction(member, name, producer)
    member.sync((member, b"all"))
    for version in (2, 3, 4):
        _commit_in_transaction(stranger, name, producer, version)
        _commit_in_transaction(member, name, producer, version)
        _commit_in_transaction(member, name, producer, version, generation_id_or_member_epoch=0)
        _commit_in_transaction(member, name, producer, version, generation_id_or_member_epoch=-1)
        _commit_in_transaction(member, name, producer, version, member_id="stranger")
        _commit_in_transaction(member, name, producer, version, group_instance_id="stranger")
        _commit_in_transaction(
            member, name, producer, version, member_id="stranger", group_instance_id=None
        )
    group.committed()
    chat.end(name, producer, commit=True, version=4)
    member.leave()
    group.describe()
