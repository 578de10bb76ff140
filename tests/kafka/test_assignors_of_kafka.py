"""Ten thousand random groups are divided as Kafka's own assignors divide them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from aioproducer.engine.groups.assignors import (
    Assignment,
    GroupMember,
    PartitionCounts,
    PartitionRacks,
    assign_ranges,
    assign_round_robin,
)
from aioproducer.model import TopicPartition
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.conftest import said
from tests.support.random_groups import random_group, random_racks

pytestmark = pytest.mark.kafka

GROUPS = 10_000
Assignor = Callable[[list[GroupMember], PartitionCounts, PartitionRacks], Assignment]


def line_of(
    name: str, members: list[GroupMember], counts: PartitionCounts, racks: PartitionRacks
) -> str:
    """A group, as the program in Java reads it."""

    def racks_of(topic: str) -> str:
        partitions = [TopicPartition(topic, number) for number in range(counts[topic])]
        return "".join(f"{','.join(sorted(racks[where]))};" for where in partitions)

    def said_by(member: GroupMember) -> str:
        topics = " ".join(member.topics)
        return f"{member.member_id}/{member.instance_id or ''}/{topics}/{member.rack or ''}"

    topics = " ".join(f"{topic}={racks_of(topic)}" for topic in counts)
    return "\t".join([name, topics, *map(said_by, members)])


@pytest.mark.parametrize(
    ("name", "assign"),
    [
        ("range", assign_ranges),
        ("roundrobin", lambda members, counts, _: assign_round_robin(members, counts)),
    ],
)
def test_the_partitions_of_each_member(
    newest: KafkaDistribution, name: str, assign: Assignor
) -> None:
    random = Random(name)
    groups = []
    for _ in range(GROUPS):
        members, counts = random_group(random)
        groups.append((counts, *random_racks(random, members, counts)))
    lines = [line_of(name, members, counts, racks) for counts, members, racks in groups]
    theirs = said(newest, "Assignors", "\n".join(lines))
    assert len(theirs) == GROUPS
    differs = 0
    for (counts, members, racks), line in zip(groups, theirs, strict=True):
        found = dict(each.split("=") for each in line.split("\t"))
        ours = assign(members, counts, racks)
        assert found == {
            member_id: " ".join(map(str, given)) for member_id, given in ours.items()
        }, (members, racks)
        differs += ours != assign(members, counts, {})
    assert (differs > GROUPS // 100) == (name == "range"), "racks matter in some of the groups"
