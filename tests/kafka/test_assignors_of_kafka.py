"""Ten thousand random groups are divided as Kafka's own assignors divide them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from aioproducer.engine.groups.assignors import (
    Assignment,
    GroupMember,
    PartitionCounts,
    assign_ranges,
    assign_round_robin,
)
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.conftest import said
from tests.support.random_groups import random_group

pytestmark = pytest.mark.kafka

GROUPS = 10_000
Assignor = Callable[[Sequence[GroupMember], PartitionCounts], Assignment]


@pytest.mark.parametrize(
    ("name", "assign"), [("range", assign_ranges), ("roundrobin", assign_round_robin)]
)
def test_the_partitions_of_each_member(
    newest: KafkaDistribution, name: str, assign: Assignor
) -> None:
    random = Random(name)
    groups = [random_group(random) for _ in range(GROUPS)]
    lines = [
        "\t".join(
            [
                name,
                " ".join(f"{topic}={count}" for topic, count in counts.items()),
                *(
                    f"{each.member_id}/{each.instance_id or ''}/{' '.join(each.topics)}"
                    for each in members
                ),
            ]
        )
        for members, counts in groups
    ]
    theirs = said(newest, "Assignors", "\n".join(lines))
    assert len(theirs) == GROUPS
    for (members, counts), line in zip(groups, theirs, strict=True):
        found = dict(each.split("=") for each in line.split("\t"))
        ours = assign(members, counts)
        assert found == {
            member_id: " ".join(map(str, given)) for member_id, given in ours.items()
        }, members
