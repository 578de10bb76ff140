"""Groups drawn at random, for assignors."""

from __future__ import annotations

from random import Random

from aioproducer.engine.groups.assignors import GroupMember, PartitionCounts, PartitionRacks
from aioproducer.model import TopicPartition

_NAMES = ("a", "b", "member-1", "member-2", "Z", "ä", "\ue000", "\U0001f986", "m-10", "m-9")
"""Java sorts the last ones in another order than their code points have."""


def random_group(random: Random) -> tuple[list[GroupMember], PartitionCounts]:
    """One to ten members, and one to five topics; a topic may have no partition."""
    topics = [f"topic-{number}" for number in range(random.randint(1, 5))]
    counts = {topic: random.choice([0, 1, 2, 3, 7, 20]) for topic in topics}
    same = tuple(topics) if random.random() < 0.5 else None
    members = []
    for name in random.sample(_NAMES, random.randint(1, len(_NAMES))):
        wanted = random.sample(topics, random.randint(1, len(topics)))
        static = f"static-{name}" if random.random() < 0.3 else None
        members.append(GroupMember(f"{name}-{random.randrange(99)}", same or tuple(wanted), static))
    return members, counts


def random_racks(
    random: Random, members: list[GroupMember], counts: PartitionCounts
) -> tuple[list[GroupMember], PartitionRacks]:
    """The members, some of them in racks, and the racks of each partition's replicas."""
    racks = ["a", "b", "c", "d"][: random.randint(1, 4)]
    share, replicas = random.choice([0.0, 0.5, 1.0]), random.randint(0, 3)
    placed = [
        each._replace(
            rack=random.choice([*racks, "elsewhere"]) if random.random() < share else None
        )
        for each in members
    ]
    return placed, {
        TopicPartition(topic, number): frozenset(random.choices(racks, k=replicas))
        for topic, count in counts.items()
        for number in range(count)
    }
