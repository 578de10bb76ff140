"""The assignors of the model's coordinators: balanced, sticky, and as Kafka's in known cases."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from aioproducer.testing.simulation.kafka.groups.consumer_group import (
    Assignment,
    Counts,
    Members,
    Subscription,
    TopicIdPartition,
    assign_ranges,
    assign_uniform,
)

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
