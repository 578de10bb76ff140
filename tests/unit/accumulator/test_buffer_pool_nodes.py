"""Each node has a part that no other can take, and the rest goes to whoever comes first."""

from __future__ import annotations

from random import Random

import pytest

from aioproducer.engine.accumulator.buffer_pool import NodeQuota


def quota(*nodes: int, total: int = 120) -> NodeQuota:
    made = NodeQuota(total)
    for node in nodes:
        made.join(node)
    return made


def fill(made: NodeQuota, node: int) -> int:
    """Take one by one what there is; how many."""
    count = 0
    while made.allows(node, 1):
        made.take(node, 1)
        count += 1
    return count


def test_a_single_node_may_use_everything() -> None:
    assert fill(quota(1), 1) == 120


def test_before_any_node_is_known_everything_is_free() -> None:
    assert fill(quota(), 0) == 120


@pytest.mark.parametrize("stuck", [1, 2, 3, 5])
def test_however_many_nodes_take_all_they_can_the_last_has_its_part(stuck: int) -> None:
    made = quota(*range(stuck + 1))
    part = 60 // (stuck + 1)
    assert [fill(made, node) for node in range(stuck)] == [60 + part, *[part] * (stuck - 1)]
    assert made.room(stuck) == part
    assert fill(made, stuck) == part


def test_a_node_without_partitions_uses_what_is_kept_for_nobody() -> None:
    made = quota(1, 2)
    assert fill(made, 3) == 60
    assert [fill(made, node) for node in (1, 2)] == [30, 30]


def test_a_node_that_uses_nothing_may_take_more_than_any_limit() -> None:
    made = quota(1, 2, 3)
    assert made.allows(1, 120)
    made.take(1, 1)
    assert not made.allows(1, 119)
    assert made.allows(2, 119)
    assert not made.allows(2, 120)


def test_nodes_that_come_and_go_change_the_parts() -> None:
    made = quota(1, 2)
    fill(made, 1)
    made.join(3)
    assert not made.allows(3, 31)
    assert (made.part, made.room(1), made.room(2), made.room(3)) == (20, 0, 20, 20)
    made.leave(2)
    made.leave(3)
    assert made.room(1) == 30
    assert made.room(2) == 30


def test_more_for_whoever_comes_first() -> None:
    made = quota(1, 2)
    made.grow(10)
    assert (made.part, made.spare) == (30, 70)
    made.grow(-10)
    assert made.spare == 60


def test_without_guarantees_the_first_takes_all() -> None:
    made = NodeQuota(100, guarantees=False)
    for node in (1, 2):
        made.join(node)
    assert fill(made, 1) == 100
    assert made.room(2) == 0


@pytest.mark.parametrize("seed", range(30))
def test_no_order_of_events_takes_a_members_part(seed: int) -> None:
    """But for what was taken while there were fewer members, or by a node that used nothing."""
    random = Random(seed)
    made = quota(0, 1, 2)
    for _ in range(300):
        node = random.randrange(4)
        if random.random() < 0.6:
            units = random.randrange(1, 8)
            if units <= made.room(node):
                made.take(node, units)
        else:
            made.take(node, -random.randrange(made.used_by.get(node, 0) + 1))
        assert made.used == sum(made.used_by.values()) <= made.total
        for member in range(3):
            assert made.room(member) >= made.part - made.used_by.get(member, 0)
            kept = sum(max(0, made.part - made.used_by.get(each, 0)) for each in range(3))
            assert made.spare == made.total - made.used - kept >= 0
