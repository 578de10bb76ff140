"""Groups of the model: assignors, other coordinators, and times that no conversation waits for."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

import pytest

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka import ClusterOptions
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    PREVIOUS_STATES,
    ClassicGroup,
    ClassicGroupState,
)
from aioproducer.testing.simulation.kafka.groups.consumer_group import (
    Assignment,
    Counts,
    Members,
    Subscription,
    TopicIdPartition,
    assign_ranges,
    assign_uniform,
)
from tests.support.conversations.chat import Chat
from tests.support.conversations.classic_groups import two_members
from tests.support.conversations.lines import ModelLine
from tests.support.conversations.members import (
    LONG_MS,
    EpochGroup,
    EpochMember,
    Group,
    Member,
)
from tests.support.conversations.migrated_groups import Mixed, OlderMember

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def member(
    *topics: UUID, had: Sequence[tuple[UUID, int]] = (), name: str | None = None
) -> Subscription:
    return Subscription(name, topics, frozenset(TopicIdPartition(*each) for each in had))


def plain(assignment: Assignment) -> dict[str, list[tuple[UUID, int]]]:
    return {name: sorted(map(tuple, each)) for name, each in assignment.items()}  # type: ignore[arg-type]


def moved(members: Members, assignment: Assignment) -> int:
    """The partitions that a member gives up and could have kept."""
    return sum(
        len({each for each in members[name].had if each.topic_id in members[name].topics} - new)
        for name, new in assignment.items()
    )


def drawn(random: Random) -> tuple[Members, Counts]:
    """Members, some of them with what another assignment gave them."""
    counts = {UUID(int=number): random.randint(1, 7) for number in range(1, random.randint(2, 5))}
    equal = random.random() < 0.5
    names = [f"member-{number}" for number in range(random.randint(1, 5))]
    free = [
        TopicIdPartition(topic, each) for topic, count in counts.items() for each in range(count)
    ]
    random.shuffle(free)
    members = {}
    for name in names:
        size = random.randint(0, len(free))
        had, free = free[:size], free[size:]
        topics = (
            list(counts) if equal else random.sample(list(counts), random.randint(0, len(counts)))
        )
        members[name] = Subscription(None, topics, frozenset(had))
    return members, counts


def check_complete(members: Members, counts: Counts, assignment: Assignment) -> None:
    """Each partition that somebody subscribes to has one owner, who subscribes to it."""
    subscribed = {topic for each in members.values() for topic in each.topics}
    owned = [each for one in assignment.values() for each in one]
    assert sorted(owned) == sorted(
        TopicIdPartition(topic, number) for topic in subscribed for number in range(counts[topic])
    )
    for name, partitions in assignment.items():
        assert all(each.topic_id in members[name].topics for each in partitions)
    assert assignment.keys() == members.keys()


@pytest.mark.parametrize("seed", range(200))
def test_uniform_assignments_are_complete_balanced_and_stable(seed: int) -> None:
    members, counts = drawn(Random(seed))
    assignment = assign_uniform(members, counts)
    check_complete(members, counts, assignment)
    sizes = {name: len(each) for name, each in assignment.items()}
    for topic in counts:
        names = [name for name, each in members.items() if topic in each.topics]
        givers = [name for name in names if any(each[0] == topic for each in assignment[name])]
        for giver in givers:
            assert sizes[giver] - min(sizes[name] for name in names) <= 1
    again = {name: each._replace(had=assignment[name]) for name, each in members.items()}
    assert assign_uniform(again, counts) == assignment


@pytest.mark.parametrize("seed", range(200))
def test_ranges_are_complete(seed: int) -> None:
    members, counts = drawn(Random(seed))
    check_complete(members, counts, assign_ranges(members, counts))


def test_a_new_member_gets_what_the_others_have_too_much() -> None:
    members = {
        "one": member(A, had=[(A, 0), (A, 1), (A, 2), (A, 3)]),
        "two": member(A),
    }
    found = assign_uniform(members, {A: 4})
    assert plain(found) == {"one": [(A, 0), (A, 1)], "two": [(A, 2), (A, 3)]}
    assert moved(members, found) == 2


def test_the_member_that_has_one_more_keeps_it() -> None:
    members = {"one": member(A, had=[(A, 0)]), "two": member(A, had=[(A, 1), (A, 2)])}
    assert moved(members, assign_uniform(members, {A: 3})) == 0


def test_different_subscriptions_are_balanced_topic_by_topic() -> None:
    members = {"one": member(A), "two": member(A, B), "three": member(B, C)}
    found = assign_uniform(members, {A: 4, B: 4, C: 1})
    check_complete(members, {A: 4, B: 4, C: 1}, found)
    assert sorted(map(len, found.values())) == [2, 3, 4]


def test_ranges_are_the_same_numbers_of_each_topic() -> None:
    members = {"z": member(A, B), "y": member(A, B, name="static"), "x": member(A, B)}
    assert plain(assign_ranges(members, {A: 5, B: 5})) == {
        "y": [(A, 0), (A, 1), (B, 0), (B, 1)],
        "x": [(A, 2), (A, 3), (B, 2), (B, 3)],
        "z": [(A, 4), (B, 4)],
    }


LOAD = 1.0


def held(*, delay_ms: int = 0, brokers: int = 3) -> Group:
    options = ClusterOptions(
        group_initial_rebalance_delay_ms=delay_ms, coordinator_load=(LOAD, LOAD)
    )
    return Group(Chat(ModelLine.of(brokers, options), "topic"))


def line_of(group: Group | EpochGroup) -> ModelLine:
    assert isinstance(group.chat.line, ModelLine)
    return group.chat.line


def move(group: Group | EpochGroup) -> None:
    """Let another broker coordinate the group."""
    line = line_of(group)
    partition = line.model.coordinators.groups.partition_of(group.name)
    group.at = next(each for each in partition.replicas if each != group.at)
    line.model.move_leader(*partition.where, group.at, line.now)


def described(group: Group) -> tuple[str, list[str]]:
    [found] = group.describe().groups
    return found.group_state, [each.member_id for each in found.members]


def alone(group: Group, **options: Any) -> Member:
    member = group.member(**options)
    member.join()
    member.sync((member, b"all"))
    return member


# --- another coordinator ------------------------------------------------------------------------


def test_a_new_coordinator_knows_the_members_once_it_has_read_the_log() -> None:
    group = held()
    member = alone(group)
    member.commit(7)
    old = group.at
    move(group)
    assert member.heartbeat() == ErrorCode.NONE, "it is loading, and says nothing"
    assert member.join() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    new, group.at = group.at, old
    assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
    group.at = new
    line_of(group).wait(LOAD)
    assert member.heartbeat() == ErrorCode.NONE
    assert described(group) == ("Stable", [member.member_id])
    member.sync()
    assert group.chat.said[-1] == {
        "error_code": "NONE",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignment": b"all",
    }


def test_sessions_begin_anew_at_a_new_coordinator() -> None:
    group = held()
    member = alone(group, session_ms=10_000)
    line = line_of(group)
    line.wait(8.0)
    move(group)
    line.wait(LOAD + 9.0)
    assert described(group) == ("Stable", [member.member_id])
    line.wait(2.0)
    assert described(group) == ("Empty", [])


def test_members_that_have_not_synced_are_forgotten_with_their_coordinator() -> None:
    group = held()
    leader, other = alone(group), group.member()
    other.joined(other.begin_join())
    asked = other.begin_join()
    move(group)
    assert other.joined(asked) == ErrorCode.NOT_COORDINATOR
    line_of(group).wait(LOAD)
    assert described(group) == ("Stable", [leader.member_id])
    assert leader.heartbeat() == ErrorCode.NONE
    assert other.join() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_its_assignment_is_told_of_the_move() -> None:
    group = held()
    leader, other = two_members(group)
    asked = other.begin_join(protocols=[{"name": "range", "metadata": b"\0\0other"}])
    leader.join()
    other.joined(asked)
    waits = other.begin_sync()
    move(group)
    group.chat.finish(waits)
    assert group.chat.said[-1] == {
        "error_code": "NOT_COORDINATOR",
        "protocol_type": None,
        "protocol_name": None,
        "assignment": b"",
    }
    line_of(group).wait(LOAD)
    assert leader.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert leader.heartbeat(generation_id=2) == ErrorCode.NONE


def test_a_member_that_has_left_is_back_until_its_session_ends() -> None:
    group = held()
    leader, other = two_members(group)
    other.leave()
    move(group)
    line_of(group).wait(LOAD)
    assert set(described(group)[1]) == {leader.member_id, other.member_id}
    line_of(group).wait(LONG_MS / 2000)
    assert leader.heartbeat() == ErrorCode.NONE
    line_of(group).wait(LONG_MS / 2000 + 1)
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert described(group) == ("PreparingRebalance", [leader.member_id])


def test_no_session_ends_while_the_coordinator_is_down() -> None:
    group = held(brokers=1)
    member = alone(group, session_ms=10_000)
    line = line_of(group)
    line.model.crash(group.at, line.now)
    line.wait(60.0)
    line.hang_up()
    line.model.restart(group.at, line.now)
    line.wait(LOAD + 9.0)
    assert member.heartbeat() == ErrorCode.NONE
    line.wait(11.0)
    assert described(group) == ("Empty", [])


def test_the_coordinator_crashes_in_the_midst_of_a_rebalance() -> None:
    group = held()
    leader, other = two_members(group)
    leader.begin_join()
    line = line_of(group)
    line.model.crash(group.at, line.now)
    line.wait(5.0)
    line.hang_up()
    group.chat.leader = next(each for each in line.brokers if each != group.at)
    group.at = group.chat.coordinator(group.name, 0)
    assert other.heartbeat() == ErrorCode.NONE
    asked = leader.begin_join()
    assert other.join() == ErrorCode.NONE
    assert leader.joined(asked) == ErrorCode.NONE
    assert (leader.generation, other.generation) == (3, 3)


# --- times --------------------------------------------------------------------------------------


def test_the_first_rebalance_waits_for_more_members() -> None:
    group = held(delay_ms=3_000)
    line = line_of(group)
    members = [group.member(instance_id=each) for each in "abc"]
    began = line.now
    asked = [members[0].begin_join()]
    for member in members[1:]:
        line.wait(2.0)
        asked.append(member.begin_join())
    for member, each in zip(members, asked, strict=True):
        member.joined(each)
    assert line.now - began == pytest.approx(9.0), "each new member gives the next ones time"
    assert {member.generation for member in members} == {1}


def test_the_first_rebalance_waits_no_longer_than_its_members_have_time() -> None:
    group = held(delay_ms=3_000)
    line = line_of(group)
    members = [group.member(instance_id=each, rebalance_ms=5_000) for each in "abc"]
    began = line.now
    asked = [members[0].begin_join()]
    for member in members[1:]:
        line.wait(2.0)
        asked.append(member.begin_join())
    for member, each in zip(members, asked, strict=True):
        member.joined(each)
    assert line.now - began == pytest.approx(5.0)


def test_a_new_member_waits_five_minutes_at_most() -> None:
    group = held()
    leader = alone(group, session_ms=1_000_000, rebalance_ms=1_000_000)
    began = line_of(group).now
    other = group.member()
    assert other.joined(other.begin_join(3)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert line_of(group).now - began == pytest.approx(300.0)
    assert described(group) == ("PreparingRebalance", [leader.member_id])


def test_a_lost_connection_does_not_end_a_session() -> None:
    group = held()
    member = alone(group)
    other = group.member()
    other.joined(other.begin_join())
    other.begin_join()
    line_of(group).close()
    assert described(group)[0] == "PreparingRebalance"
    again = group.member()
    again.member_id, again.generation = member.member_id, member.generation
    again.join()
    assert len(described(group)[1]) == 2


def test_no_state_follows_an_illegal_one() -> None:
    group = ClassicGroup("group")
    for state in ClassicGroupState:
        group.state = state
        for following in ClassicGroupState:
            if state not in PREVIOUS_STATES[following]:
                with pytest.raises(AssertionError, match="can't go"):
                    group.transit(following)


# --- the protocol of KIP-848 --------------------------------------------------------------------


def epochs(**options: int) -> EpochGroup:
    cluster = ClusterOptions(coordinator_load=(LOAD, LOAD))
    return EpochGroup(Chat(ModelLine.of(3, cluster), "topic"), 4, **options)


def states(group: EpochGroup) -> tuple[str, dict[str, int]]:
    [found] = group.describe().groups
    return found.group_state, {each.member_id: each.member_epoch for each in found.members}


def partitions(member: EpochMember) -> list[int]:
    return sorted(number for each in member.assigned for number in each["partitions"])


def test_a_new_coordinator_knows_epochs_and_assignments() -> None:
    group = epochs()
    one, two = group.member(), group.member()
    one.join()
    one.own()
    two.join()
    assert one.beat() == ErrorCode.NONE, "it is told to give two partitions up"
    move(group)
    assert one.beat() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    line_of(group).wait(LOAD)
    assert states(group) == ("Reconciling", {one.member_id: 2, two.member_id: 3})
    one.own()
    two.beat()
    assert states(group) == ("Stable", {one.member_id: 3, two.member_id: 3})
    assert (partitions(one), partitions(two)) == ([0, 1], [2, 3])


def test_sessions_of_epochs_begin_anew_at_a_new_coordinator() -> None:
    group = epochs()
    member = group.member()
    member.join()
    line = line_of(group)
    line.wait(40.0)
    move(group)
    line.wait(LOAD + 44.0)
    assert states(group) == ("Stable", {member.member_id: 2})
    line.wait(2.0)
    assert states(group) == ("Empty", {})


def test_the_time_to_give_partitions_up_begins_anew_at_a_new_coordinator() -> None:
    group = epochs(session_timeout_ms=60_000)
    one, two = group.member(rebalance_ms=10_000), group.member()
    one.join()
    two.join()
    one.beat()
    line = line_of(group)
    line.wait(8.0)
    move(group)
    line.wait(LOAD + 9.0)
    assert one.member_id in states(group)[1]
    line.wait(2.0)
    assert one.member_id not in states(group)[1]


def owners(group: EpochGroup) -> list[int]:
    """The owned partitions, as often as they have owners."""
    [found] = group.describe(heard=False).groups
    return [
        number
        for each in found.members
        for topic in each.assignment.topic_partitions
        for number in topic.partitions
    ]


def test_no_partition_has_two_owners_while_members_come_and_go() -> None:
    for seed in range(30):
        random = Random(seed)
        group = epochs()
        members = [group.member(rebalance_ms=5_000) for _ in range(4)]
        for _ in range(60):
            member = random.choice(members)
            match random.randrange(8):
                case 0:
                    member.join()
                    member.own()
                case 1 if member.epoch > 0:
                    member.leave()
                    member.assigned, member.epoch = [], 0
                case 2:
                    line_of(group).wait(random.uniform(0.0, 20.0))
                case 3:
                    move(group)
                    line_of(group).wait(LOAD)
                case _ if member.epoch > 0:
                    if member.beat():
                        member.assigned, member.epoch = [], 0
                    elif random.random() < 0.7:
                        member.own()
            owned = owners(group)
            assert len(owned) == len(set(owned)), f"seed {seed}"


def test_groups_come_to_rest() -> None:
    group = epochs()
    members = [group.member() for _ in range(3)]
    for member in members:
        member.join()
    for _ in range(4):
        for member in members:
            member.beat()
            member.own()
    assert states(group)[0] == "Stable"
    assert sorted(number for each in members for number in partitions(each)) == [0, 1, 2, 3]


def test_new_partitions_and_a_deleted_topic_begin_a_new_epoch() -> None:
    group = epochs()
    member = group.member()
    member.join()
    member.own()
    cluster = line_of(group).model.cluster
    topic = cluster.topics[group.topics[0]]
    cluster.add_partitions(topic, 6, 1)
    member.beat()
    assert (member.epoch, partitions(member)) == (3, [0, 1, 2, 3, 4, 5])
    member.own()
    cluster.delete_topic(topic)
    member.beat()
    assert partitions(member) == []
    member.own()
    assert (member.epoch, states(group)[0]) == (4, "Stable")


def by_regex(group: EpochGroup) -> EpochMember:
    """A member that subscribes to all topics of the group by an expression."""
    member = group.member()
    joins = {"member_epoch": 0, "topic_partitions": (), "subscribed_topic_names": ()}
    member.beat(**member.full(**joins), subscribed_topic_regex=f"{group.chat.topic}-.*")
    line_of(group).wait(0.0)
    member.beat()
    member.own()
    return member


def test_a_new_topic_is_found_by_its_name_some_time_later() -> None:
    group = epochs()
    member = by_regex(group)
    assert len(member.assigned) == 1
    line = line_of(group)
    line.create_topic(f"{group.chat.topic}-new", 2, {})
    for seconds, topics in ((1.0, 1), (8.0, 1), (1.5, 2)):
        line.wait(seconds)
        member.beat()
        line.wait(0.0)
        member.beat()
        assert len(member.assigned) == topics, "topics are looked for every ten seconds at most"


def test_a_deleted_topic_of_an_expression_is_given_up_at_once() -> None:
    group = epochs()
    member = by_regex(group)
    cluster = line_of(group).model.cluster
    cluster.delete_topic(cluster.topics[group.topics[0]])
    member.beat()
    assert member.assigned == []


def test_expressions_do_not_stand_for_internal_topics() -> None:
    group = epochs()
    member = group.member()
    joins = {"member_epoch": 0, "topic_partitions": (), "subscribed_topic_names": ()}
    member.beat(**member.full(**joins), subscribed_topic_regex="__.*")
    line_of(group).wait(0.0)
    member.beat()
    assert member.assigned == []


# --- both protocols -----------------------------------------------------------------------------


def mixed(policy: str = "bidirectional") -> Mixed:
    options = ClusterOptions(
        group_initial_rebalance_delay_ms=0,
        coordinator_load=(LOAD, LOAD),
        group_consumer_migration_policy=policy,
    )
    return Mixed(Chat(ModelLine.of(3, options), "topic"))


def classic_alone(group: Mixed) -> OlderMember:
    older = group.older()
    older.join()
    older.lead(divided=((0, 1, 2, 3),))
    older.owns(0, 1, 2, 3)
    return older


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_is_not_upgraded_unless_that_is_allowed(policy: str) -> None:
    group = mixed(policy)
    older = classic_alone(group)
    newer = group.epochs.member()
    assert newer.join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert older.heartbeat() == ErrorCode.NONE
    older.leave()
    assert newer.join() == ErrorCode.NONE


def test_classic_members_do_not_join_the_newer_protocol_if_that_is_disabled() -> None:
    group = mixed("disabled")
    newer = group.epochs.member()
    newer.join()
    older = group.older()
    assert older.join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    newer.leave()
    assert older.join() == ErrorCode.NONE


@pytest.mark.parametrize(("policy", "back"), [("upgrade", False), ("bidirectional", True)])
def test_a_group_goes_back_if_that_is_allowed(policy: str, back: bool) -> None:
    group = mixed(policy)
    classic_alone(group)
    newer = group.epochs.member()
    newer.join()
    newer.leave()
    [described] = group.classic.describe().groups
    assert described.group_state == ("PreparingRebalance" if back else "Dead")


def test_a_new_coordinator_knows_members_of_both_protocols() -> None:
    group = mixed()
    older, newer = classic_alone(group), group.epochs.member()
    newer.join()
    older.step()
    move(group.epochs)
    group.classic.at = group.epochs.at
    line_of(group.epochs).wait(LOAD)
    assert older.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    older.step()
    newer.beat()
    assert sorted(owners(group.epochs)) == [0, 1, 2, 3]
    assert partitions(newer) == [2, 3]
    line_of(group.epochs).wait(LONG_MS / 1000 + 1)
    assert [each.member_id for each in group.epochs.describe().groups[0].members] == [
        newer.member_id
    ]


def test_a_group_that_has_gone_over_is_of_its_new_protocol_at_a_new_coordinator() -> None:
    group = mixed()
    older, newer = classic_alone(group), group.epochs.member()
    newer.join()
    newer.leave()
    move(group.epochs)
    group.classic.at = group.epochs.at
    line_of(group.epochs).wait(LOAD)
    [described] = group.classic.describe().groups
    assert (described.group_state, len(described.members)) == ("Stable", 1)
    assert older.heartbeat(generation_id=2) == ErrorCode.NONE


def test_no_partition_has_two_owners_while_a_group_migrates() -> None:
    for seed in range(20):
        random = Random(seed)
        group = mixed()
        older = [group.older(rebalance_ms=5_000) for _ in range(2)]
        newer = [group.epochs.member(rebalance_ms=5_000) for _ in range(2)]
        for _ in range(60):
            match random.randrange(6):
                case 0:
                    newer[seed % 2].join()
                    newer[seed % 2].own()
                case 1:
                    each = random.choice(newer)
                    if each.epoch > 0:
                        each.leave()
                        each.assigned, each.epoch = [], 0
                case 2:
                    line_of(group.epochs).wait(random.uniform(0.0, 20.0))
                case 3 if group.epochs.describe(heard=False).groups[0].members:
                    random.choice(older).step()
                case _:
                    each = random.choice(newer)
                    if each.epoch > 0 and each.beat():
                        each.assigned, each.epoch = [], 0
                    elif each.epoch > 0 and random.random() < 0.7:
                        each.own()
            owned = owners(group.epochs)
            assert len(owned) == len(set(owned)), f"seed {seed}"
