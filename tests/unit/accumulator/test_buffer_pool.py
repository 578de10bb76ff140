"""The pool's hard limit, its buffers, and the part of each node that no other can take."""

from __future__ import annotations

import sys
from random import Random

import pytest

from aioproducer.engine.accumulator import memory_quota
from aioproducer.engine.accumulator.memory_quota import BufferPool, NodeQuota

NODE, OTHER = 1, 2


def taken(pool: BufferPool, size: int, node: int = NODE) -> bytearray:
    buffer = pool.try_allocate(size, node)
    assert buffer is not None
    assert len(buffer) == size
    return buffer


def test_hands_out_its_total_and_not_a_byte_more() -> None:
    pool = BufferPool(100, 10)
    buffers = [taken(pool, 10), taken(pool, 10), taken(pool, 80)]
    assert pool.available == 0
    assert pool.try_allocate(1, NODE) is None
    for buffer in buffers:
        pool.deallocate(buffer, NODE)
    assert pool.available == 100
    assert pool.quota.used == 0


def test_returned_buffers_of_the_usual_size_are_handed_out_again() -> None:
    pool = BufferPool(100, 10)
    first = taken(pool, 10)
    pool.deallocate(first, NODE)
    assert taken(pool, 10) is first
    assert taken(pool, 10) is not first


def test_other_buffers_are_not_kept() -> None:
    pool = BufferPool(100, 10)
    for size in (9, 11):
        other = taken(pool, size)
        pool.deallocate(other, NODE)
        assert taken(pool, size) is not other


@pytest.mark.parametrize(("size", "left"), [(30, 70), (95, 0), (100, 0)])
def test_a_large_buffer_takes_what_it_lacks_from_the_free_list(size: int, left: int) -> None:
    pool = BufferPool(100, 10)
    buffers = [taken(pool, 10) for _ in range(10)]
    for buffer in buffers:
        pool.deallocate(buffer, NODE)
    taken(pool, size)
    assert pool.available == 100 - size
    for _ in range(left // 10):
        taken(pool, 10)
    assert pool.available < 10


@pytest.mark.source_form
def test_a_failed_allocation_gives_its_reservation_back(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = BufferPool(100, 10)

    def fail(size: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr(memory_quota, "new_buffer", fail)
    with pytest.raises(MemoryError):
        pool.try_allocate(50, NODE)
    monkeypatch.undo()
    assert pool.available == 100
    assert pool.quota.used == 0


def test_what_is_kept_for_another_node_is_not_handed_out() -> None:
    pool = BufferPool(100, 10)
    for node in (NODE, OTHER):
        pool.quota.join(node)
    while pool.try_allocate(10, NODE):
        pass
    assert (pool.available, pool.spare, pool.room(NODE), pool.room(OTHER)) == (30, 5, 5, 30)
    assert taken(pool, 25, OTHER)
    assert pool.room(OTHER) == 5


def test_memory_moves_between_nodes() -> None:
    pool = BufferPool(100, 10)
    for node in (NODE, OTHER):
        pool.quota.join(node)
    buffer = taken(pool, 70)
    pool.move(70, NODE, OTHER)
    assert (pool.quota.used_by.get(NODE, 0), pool.quota.used_by.get(OTHER, 0)) == (0, 70)
    pool.deallocate(buffer, OTHER)
    assert pool.room(NODE) == 75


def test_what_is_lent_is_nobodys_until_it_comes_back() -> None:
    pool = BufferPool(100, 10)
    for node in (NODE, OTHER):
        pool.quota.join(node)
    pool.lend(50)
    assert (pool.available, pool.spare, pool.room(NODE), pool.room(OTHER)) == (50, 0, 25, 25)
    pool.take_back(50)
    assert (pool.available, pool.spare) == (100, 50)


def test_a_pool_of_few_batches_keeps_nothing_for_anybody() -> None:
    pool = BufferPool(70, 10)
    for node in (NODE, OTHER):
        pool.quota.join(node)
    assert pool.room(NODE) == 70


def test_a_closed_pool_hands_out_nothing() -> None:
    pool = BufferPool(100, 10)
    before, after = taken(pool, 10), taken(pool, 10)
    references = sys.getrefcount(before)
    pool.deallocate(before, NODE)
    pool.close()
    assert pool.try_allocate(10, NODE) is None
    pool.deallocate(after, NODE)
    assert (sys.getrefcount(before), sys.getrefcount(after)) == (references, references)
    assert pool.available == 100


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_no_byte_is_lost_or_handed_out_twice(seed: int) -> None:
    random = Random(seed)
    pool = BufferPool(100, 10)
    held: list[tuple[bytearray, int]] = []
    lent = 0
    for _ in range(500):
        node = random.randrange(4)
        match random.randrange(6):
            case 0 | 1:
                buffer = pool.try_allocate(random.choice([3, 10, 10, 40]), node)
                if buffer is not None:
                    assert not any(buffer is other for other, _ in held)
                    held.append((buffer, node))
            case 2 | 3 if held:
                pool.deallocate(*held.pop(random.randrange(len(held))))
            case 4:
                random.choice([pool.quota.join, pool.quota.leave])(node)
            case 5 if lent:
                pool.take_back(lent)
                lent = 0
            case _ if pool.spare > 0:
                lent += 1
                pool.lend(1)
        assert pool.available == 100 - lent - sum(len(buffer) for buffer, _ in held) >= 0
        assert pool.quota.used == sum(len(buffer) for buffer, _ in held)


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
