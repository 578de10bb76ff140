"""Who gets which partitions; Java's assignors judge in tests/kafka/test_kafkas_own_classes.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import pytest

from aioproducer.engine.groups.assignors import (
    Assignment,
    GroupMember,
    PartitionCounts,
    PartitionRacks,
    Steps,
    cooperative_steps,
    range_steps,
    round_robin_steps,
    sticky_steps,
)
from aioproducer.model import TopicPartition
from tests.support import reference_assignors as reference
from tests.support.operations import Name, calls_of_steps
from tests.support.reference_assignors import random_group, random_racks
from tests.support.responses import at_once


def assign_ranges(
    group: Sequence[GroupMember], counts: PartitionCounts, racks: PartitionRacks | None = None
) -> Assignment:
    return at_once(range_steps(group, counts, racks or {}))


def assign_round_robin(group: Sequence[GroupMember], counts: PartitionCounts) -> Assignment:
    return at_once(round_robin_steps(group, counts))


def assign_sticky(group: Sequence[GroupMember], counts: PartitionCounts) -> Assignment:
    return at_once(sticky_steps(group, counts))


def cooperative_sticky(group: Sequence[GroupMember], counts: PartitionCounts) -> Assignment:
    return at_once(cooperative_steps(group, counts))


Assignor = Callable[[Sequence[GroupMember], PartitionCounts], Assignment]
ASSIGNORS: list[Assignor] = [assign_ranges, assign_round_robin, assign_sticky, cooperative_sticky]
SEEDS = range(300)


def places(*texts: str) -> list[TopicPartition]:
    """``"orders-1"`` and so on."""
    split = [text.rsplit("-", 1) for text in texts]
    return [TopicPartition(topic, int(number)) for topic, number in split]


def members(*topics: str) -> list[GroupMember]:
    """Members ``m0``, ``m1`` and so on, with the topics of each."""
    return [GroupMember(f"m{place}", tuple(each.split())) for place, each in enumerate(topics)]


@pytest.mark.parametrize("assign", ASSIGNORS)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_partition_has_one_member_that_wants_it(assign: Assignor, seed: int) -> None:
    group, counts = random_group(Random(seed))
    assignment = assign(group, counts)
    assert set(assignment) == {member.member_id for member in group}
    wanted = {member.member_id: set(member.topics) for member in group}
    given = [(where, owner) for owner, found in assignment.items() for where in found]
    assert all(where.topic in wanted[owner] for where, owner in given)
    everything = {
        TopicPartition(topic, number)
        for member in group
        for topic in member.topics
        for number in range(counts[topic])
    }
    assert Counter(where for where, _ in given) == dict.fromkeys(everything, 1)


def test_ranges_of_each_topic() -> None:
    found = assign_ranges(members("a b", "a b", "b"), {"a": 3, "b": 4})
    assert found == {
        "m0": places("a-0", "a-1", "b-0", "b-1"),
        "m1": places("a-2", "b-2"),
        "m2": places("b-3"),
    }


def test_ranges_are_near_their_members() -> None:
    """KIP-881; Kafka's own assignor judges all cases, in tests/kafka."""
    group = [GroupMember("m0", ("a",), rack="x"), GroupMember("m1", ("a",), rack="y")]
    racks = {
        TopicPartition("a", number): frozenset(rack) for number, rack in enumerate(["y", "x", "y"])
    }
    assert assign_ranges(group, {"a": 3}, racks) == {
        "m0": places("a-1"),
        "m1": places("a-0", "a-2"),
    }
    everywhere = dict.fromkeys(racks, frozenset("xy"))
    assert assign_ranges(group, {"a": 3}, everywhere) == assign_ranges(group, {"a": 3})


def test_one_after_another() -> None:
    found = assign_round_robin(members("a b", "b", "a b"), {"a": 3, "b": 2})
    assert found == {"m0": places("a-0", "a-2"), "m1": places("b-0"), "m2": places("a-1", "b-1")}


@pytest.mark.parametrize("assign", [assign_ranges, assign_round_robin])
def test_static_members_come_first_and_keep_their_place(assign: Assignor) -> None:
    group = [GroupMember("z", ("a",), "s1"), GroupMember("a", ("a",))]
    assert assign(group, {"a": 1}) == {"z": places("a-0"), "a": []}
    again = [GroupMember("another-id", ("a",), "s1"), GroupMember("a", ("a",))]
    assert assign(again, {"a": 1}) == {"another-id": places("a-0"), "a": []}


# --- sticky -------------------------------------------------------------------------------------


def is_even(group: Sequence[GroupMember], assignment: Assignment) -> bool:
    """No member has two more than another one that could have one of them."""
    return not any(
        len(assignment[rich.member_id]) > len(assignment[poor.member_id]) + 1
        and any(where.topic in poor.topics for where in assignment[rich.member_id])
        for rich in group
        for poor in group
    )


def next_round(group: Sequence[GroupMember], found: Assignment) -> list[GroupMember]:
    """The members with what they have got."""
    return [
        each._replace(owned=tuple(found.get(each.member_id, ())), generation=each.generation + 1)
        for each in group
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_sticky_is_even_whoever_comes_and_goes(seed: int) -> None:
    random = Random(f"sticky {seed}")
    group, counts = random_group(random)
    for _ in range(5):
        assignment = assign_sticky(group, counts)
        assert is_even(group, assignment)
        again = assign_sticky(next_round(group, assignment), counts)
        assert again == assignment, "nothing has changed"
        group = next_round(group, assignment)
        random.shuffle(group)
        if len(group) > 1 and random.random() < 0.5:
            group.pop()
        else:
            group.append(group[0]._replace(member_id=f"new-{random.random()}", owned=()))
            group[-1] = group[-1]._replace(instance_id=None)


@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_a_member_that_comes_takes_its_share_and_nothing_else_moves(count: int) -> None:
    group = [GroupMember(f"m{number:02}", ("a",)) for number in range(count)]
    before = assign_sticky(group, {"a": 100})
    newcomer = GroupMember("new", ("a",))
    after = assign_sticky([*next_round(group, before), newcomer], {"a": 100})
    moved = [
        where
        for member in group
        for where in set(after[member.member_id]) - set(before[member.member_id])
    ]
    assert moved == []
    assert len(after["new"]) == 100 // (count + 1)


@pytest.mark.parametrize("count", [2, 5, 30])
def test_the_partitions_of_a_member_that_goes_are_all_that_move(count: int) -> None:
    group = [GroupMember(f"m{number:02}", ("a",)) for number in range(count)]
    before = assign_sticky(group, {"a": 100})
    after = assign_sticky(next_round(group, before)[:-1], {"a": 100})
    assert all(set(before[each.member_id]) <= set(after[each.member_id]) for each in group[:-1])


def test_of_two_owners_the_later_one_keeps_a_partition() -> None:
    old = GroupMember("old", ("a",), None, tuple(places("a-0", "a-1")), 4)
    new = GroupMember("new", ("a",), None, tuple(places("a-1", "a-2")), 5)
    found = assign_sticky([old, new], {"a": 4})
    assert set(places("a-1", "a-2")) <= set(found["new"])
    assert places("a-0")[0] in found["old"]


def test_owned_partitions_that_are_gone_are_forgotten() -> None:
    owned = tuple(places("a-0", "a-7", "gone-0", "b-0"))
    member = GroupMember("m", ("a", "gone"), None, owned, 1)
    assert assign_sticky([member], {"a": 1, "b": 1}) == {"m": places("a-0")}


# --- cooperative --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_partition_changes_hands_with_a_round_between(seed: int) -> None:
    random = Random(f"cooperative {seed}")
    group, counts = random_group(random)
    group = next_round(group, assign_sticky(group, counts))
    group = [random.choice([each, each._replace(topics=each.topics[:1])]) for each in group]
    group.append(GroupMember("new", group[0].topics))
    for _ in range(3):
        owner = {where: each.member_id for each in group for where in each.owned}
        found = cooperative_sticky(group, counts)
        for member_id, given in found.items():
            assert all(owner.get(where, member_id) == member_id for where in given)
        group = next_round(group, found)
    assert is_even(group, found)
    everything = {
        TopicPartition(topic, number)
        for member in group
        for topic in member.topics
        for number in range(counts[topic])
    }
    assert {where for given in found.values() for where in given} == everything


# --- the cost -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_assignments_are_those_of_the_plain_assignors(seed: int) -> None:
    random = Random(f"reference {seed}")
    group, counts = random_group(random)
    for _ in range(3):
        placed, racks = random_racks(random, group, counts)
        assert assign_ranges(group, counts) == reference.assign_ranges(group, counts)
        assert assign_ranges(placed, counts, racks) == reference.assign_ranges(
            placed, counts, racks
        )
        assert assign_round_robin(group, counts) == reference.assign_round_robin(group, counts)
        assert cooperative_sticky(group, counts) == reference.cooperative_sticky(group, counts)
        found = assign_sticky(group, counts)
        assert found == reference.assign_sticky(group, counts)
        group = next_round(group, found)
        random.shuffle(group)
        del group[: random.randrange(len(group))]  # the others get what these had
        left = [
            each._replace(topics=tuple(random.sample(each.topics, len(each.topics) // 2)))
            if random.random() < 0.2
            else each
            for each in group
        ]
        names = {each.member_id for each in group}
        group = left + [each for each in random_group(random)[0] if each.member_id not in names]
        counts = {**dict.fromkeys(sorted({t for each in group for t in each.topics}), 7), **counts}


Drawn = tuple[list[GroupMember], PartitionCounts, PartitionRacks]


def of_many_topics(size: int, name: type[str]) -> Drawn:
    """Topics with one partition, and members that have come to one that had them."""
    topics = tuple(name(f"topic-{number}") for number in range(size))
    group = [GroupMember(f"m{number}", topics) for number in range(3)]
    owned = tuple(TopicPartition(topic, 0) for topic in topics)
    group[0] = group[0]._replace(owned=owned, generation=1)
    return group, dict.fromkeys(topics, 1), {}


def of_many_partitions(size: int, name: type[str]) -> Drawn:
    """One topic, of which a member has all partitions as another one comes."""
    topic = name("topic")
    owned = tuple(TopicPartition(topic, number) for number in range(size))
    group = [GroupMember("m0", (topic,), owned=owned, generation=1), GroupMember("m1", (topic,))]
    return group, {topic: size}, {}


def of_many_members(size: int, name: type[str]) -> Drawn:
    """Each member wants one topic of two, and the half of them is new."""
    topics = name("a"), name("b")
    group = [
        GroupMember(
            f"m{number}",
            (topics[number % 2],),
            owned=(TopicPartition(topics[number % 2], number // 2),) if number % 4 < 2 else (),
            generation=1,
        )
        for number in range(size)
    ]
    return group, dict.fromkeys(topics, size), {}


def of_racks(size: int, name: type[str]) -> Drawn:
    """Members in racks, and two topics with replicas in two of three."""
    topics, racks = (name("a"), name("b")), (name("x"), name("y"), name("z"))
    group = [
        GroupMember(f"m{number}", topics, rack=racks[number % 3]) for number in range(size // 10)
    ]
    placed = {
        TopicPartition(topic, number): frozenset((racks[number % 3], racks[(number + 1) % 3]))
        for topic in topics
        for number in range(size)
    }
    return group, dict.fromkeys(topics, size), placed


GROUPS = [of_many_topics, of_many_partitions, of_many_members, of_racks]
STEPS: dict[str, Callable[..., Steps[Assignment]]] = {
    "range": range_steps,
    "roundrobin": lambda group, counts, racks: round_robin_steps(group, counts),
    "sticky": lambda group, counts, racks: sticky_steps(group, counts),
    "cooperative-sticky": lambda group, counts, racks: cooperative_steps(group, counts),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("draw", GROUPS)
def test_the_cost_grows_as_the_group(name: str, draw: Callable[[int, type[str]], Drawn]) -> None:
    small, large = (sum(calls_of_steps(STEPS[name](*draw(n, Name)))) for n in (500, 2_000))
    assert large < 5.5 * small  # 4.8 times, for n log n


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("draw", GROUPS)
def test_ten_thousand_partitions_are_divided_in_short_steps(
    name: str, draw: Callable[[int, type[str]], Drawn]
) -> None:
    steps = calls_of_steps(STEPS[name](*draw(10_000, str)))
    assert max(steps) < 60_000  # which take less than ten milliseconds
