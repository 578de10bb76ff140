"""Who is granted memory, and when callers should wait: each node by itself."""

from __future__ import annotations

import pytest

from aioproducer.engine.accumulator.memory_quota import (
    FUTURE_BYTES,
    BufferPool,
    MemoryQuota,
    PendingMemory,
    Pressure,
)
from aioproducer.engine.accumulator.partition import Backlogs, Partition
from aioproducer.foundation.tuning import STUCK_AFTER
from aioproducer.model import TopicPartition

BATCH = 100
TOTAL = 32 * BATCH
START = 50.0
SPARE = TOTAL // 2
NODES = 4


class QuotaUsers:
    """Partitions that use one quota; each of ``nodes`` leads one beside those that tests make."""

    def __init__(self, total: int = TOTAL, nodes: int = 0) -> None:
        self.pool = BufferPool(total, BATCH)
        self.pending = PendingMemory(total // 4, self.pool, total)
        self.backlogs = Backlogs(one_at_a_time=False, in_order=False)
        self.wanted: dict[Partition, int] = {}
        self.memory_quota = MemoryQuota(self.pool, self.pending, BATCH, self.wanted.get)
        for node in range(1, nodes + 1):
            self.partition(node)

    def partition(self, leader: int | None) -> Partition:
        partition = Partition(TopicPartition("t", 0), self.backlogs)
        self.move(partition, leader)
        return partition

    def move(self, partition: Partition, leader: int | None) -> None:
        before = partition.leader
        partition.move_leader(leader, START)
        self.memory_quota.moved(partition, before, START)

    def take(self, partition: Partition, size: int = BATCH, now: float = START) -> bool:
        """What a batch that is begun does; False: it may not."""
        return self.memory_quota.allocate(partition, size, now) is not None

    def give_back(self, partition: Partition, now: float, size: int = BATCH) -> None:
        """A batch was delivered."""
        self.memory_quota.delivered(partition, now)
        self.memory_quota.release(partition, bytearray(size))

    def wait(self, partition: Partition, size: int = BATCH) -> None:
        self.wanted[partition] = size
        self.memory_quota.wait(partition, START)

    def granted(self, now: float = START) -> Partition | None:
        """Who gets memory now; it waits no more."""
        grant = self.memory_quota.grant(now)
        if grant is None:
            return None
        assert len(grant.buffer) == self.wanted.pop(grant.partition)
        return grant.partition

    def fill(self, partition: Partition) -> None:
        while self.take(partition):
            pass


@pytest.fixture
def world() -> QuotaUsers:
    return QuotaUsers(nodes=NODES)


# --- quotas ----------------------------------------------------------------------------------


def test_nodes_that_return_nothing_leave_the_last_one_its_part(world: QuotaUsers) -> None:
    for node in range(1, NODES):
        world.fill(world.partition(node))
    last = world.partition(NODES)
    world.fill(last)
    assert last.held == SPARE // NODES


def test_many_partitions_of_one_node_share_its_part(world: QuotaUsers) -> None:
    partitions = [world.partition(1) for _ in range(TOTAL // BATCH)]
    taken = sum(world.take(partition, BATCH) for partition in partitions)
    assert taken == (SPARE + SPARE // NODES) // BATCH


def test_partitions_without_leader_use_what_is_kept_for_nobody(world: QuotaUsers) -> None:
    homeless = world.partition(None)
    world.fill(homeless)
    assert homeless.held == SPARE


def test_memory_moves_with_its_partition(world: QuotaUsers) -> None:
    hog, other = world.partition(1), world.partition(2)
    world.fill(hog)
    world.move(hog, 2)
    assert world.pool.quota.used_by.get(1, 0) == 0
    assert not world.take(other)
    assert world.take(world.partition(1))


def test_a_node_that_leads_nothing_any_more_keeps_no_part() -> None:
    world = QuotaUsers()
    only, moving = world.partition(1), world.partition(2)
    world.move(moving, 1)
    world.fill(only)
    assert only.held == TOTAL


# --- who waits -------------------------------------------------------------------------------


def test_the_one_that_holds_least_is_served_first(world: QuotaUsers) -> None:
    rich, poor = world.partition(1), world.partition(1)
    world.take(rich)
    world.wait(rich)
    world.wait(poor)
    assert world.granted() is poor
    assert world.granted() is rich
    assert world.granted() is None


def test_so_it_is_among_nodes(world: QuotaUsers) -> None:
    rich, poor = world.partition(1), world.partition(2)
    world.take(rich)
    for partition in (rich, poor, world.partition(1)):
        world.wait(partition)
    assert world.granted() is poor


def test_who_waits_no_more_is_passed_over(world: QuotaUsers) -> None:
    gone, there = world.partition(1), world.partition(2)
    world.wait(gone)
    world.wait(there)
    del world.wanted[gone]
    assert world.granted() is there
    assert world.take(world.partition(1)), "nobody of its node waits any more"


def test_a_hog_waits_without_keeping_others_from_their_part(world: QuotaUsers) -> None:
    hog, other = world.partition(1), world.partition(2)
    world.fill(hog)
    world.wait(hog)
    world.wait(other)
    assert world.granted() is other
    assert world.granted() is None
    world.give_back(hog, START)
    assert world.granted() is hog


def test_new_batches_do_not_overtake_those_of_their_node_that_wait(world: QuotaUsers) -> None:
    hog, late = world.partition(1), world.partition(1)
    world.fill(hog)
    world.wait(hog, 3 * BATCH)
    assert world.granted() is None
    world.give_back(hog, START)
    assert not world.take(late)
    assert world.granted() is None
    world.give_back(hog, START, 2 * BATCH)
    assert world.granted() is hog
    assert not world.take(late)


def test_a_large_record_gets_what_becomes_spare(world: QuotaUsers) -> None:
    """Others take their own parts meanwhile, and no more."""
    large, busy = world.partition(1), world.partition(2)
    world.take(large)
    world.fill(busy)
    world.wait(large, SPARE)
    assert world.granted() is None
    lacking = SPARE - (SPARE // NODES - BATCH)
    for _ in range(lacking // BATCH):
        assert world.granted() is None
        world.give_back(busy, START)
        assert not world.take(busy)
        world.take(world.partition(3))
    assert world.granted() is large
    assert world.pool.quota.used_by.get(3, 0) == SPARE // NODES


def test_a_large_record_that_is_taken_back_claims_nothing(world: QuotaUsers) -> None:
    large, busy = world.partition(1), world.partition(2)
    world.take(large)
    world.fill(busy)
    world.wait(large, SPARE)
    assert world.granted() is None
    world.give_back(busy, START)
    assert not world.take(busy)
    del world.wanted[large]
    assert world.granted() is None
    assert world.take(busy)


def test_what_waits_moves_with_its_partition(world: QuotaUsers) -> None:
    hog, moving = world.partition(1), world.partition(1)
    world.fill(hog)
    world.wait(moving)
    assert world.granted() is None
    world.move(moving, 2)
    world.memory_quota.wait(moving, START)
    assert world.granted() is moving


def test_a_grant_tells_how_long_it_was_waited_for(world: QuotaUsers) -> None:
    world.wait(world.partition(1))
    grant = world.memory_quota.grant(START + 7.0)
    assert grant is not None
    assert grant.waited == 7.0


# --- pressure --------------------------------------------------------------------------------


def test_a_full_node_presses_and_the_others_do_not(world: QuotaUsers) -> None:
    assert not world.memory_quota.pressure(1)
    world.fill(world.partition(1))
    assert world.memory_quota.pressure(1) is Pressure.FULL
    assert not world.memory_quota.pressure(2)


def test_a_node_that_leads_all_partitions_is_not_stuck() -> None:
    world = QuotaUsers()
    only = world.partition(1)
    assert world.take(only)
    assert not world.memory_quota.is_stuck(1, START + 10 * STUCK_AFTER), "it leads all"
    world.partition(2)
    assert world.memory_quota.is_stuck(1, START + 10 * STUCK_AFTER)


def test_a_node_is_stuck_when_it_has_delivered_nothing_for_long(world: QuotaUsers) -> None:
    hog = world.partition(1)
    assert not world.memory_quota.is_stuck(1, START + 1_000), "it has nothing to deliver"
    world.fill(hog)
    assert not world.memory_quota.is_stuck(1, START + 0.9)
    assert world.memory_quota.is_stuck(1, START + STUCK_AFTER)
    world.give_back(hog, START + 0.9)
    assert not world.memory_quota.is_stuck(1, START + STUCK_AFTER)
    assert world.memory_quota.is_stuck(1, START + 0.9 + STUCK_AFTER)


def test_what_expires_is_no_sign_of_life(world: QuotaUsers) -> None:
    hog = world.partition(1)
    world.fill(hog)
    world.memory_quota.release(hog, bytearray(BATCH))
    assert world.take(hog, now=START + STUCK_AFTER)
    assert world.memory_quota.is_stuck(1, START + STUCK_AFTER)


def test_an_idle_node_begins_anew(world: QuotaUsers) -> None:
    partition = world.partition(1)
    world.take(partition)
    world.give_back(partition, START)
    world.take(partition, now=START + 100)
    assert not world.memory_quota.is_stuck(1, START + 100.9)


def test_who_waits_makes_batches_leave_but_not_for_a_stuck_node(world: QuotaUsers) -> None:
    hog = world.partition(1)
    world.fill(hog)
    world.wait(hog)
    assert world.granted() is None
    for node in (1, 2):
        assert world.memory_quota.is_awaited(node, START)
    assert world.memory_quota.is_awaited(1, START + STUCK_AFTER)
    assert not world.memory_quota.is_awaited(2, START + STUCK_AFTER)


# --- futures ---------------------------------------------------------------------------------

MANY_FUTURES = TOTAL // (2 * FUTURE_BYTES)


def use_what_is_spare(world: QuotaUsers, partition: Partition) -> None:
    """Leave a batch of the pool that no other node is guaranteed, and no pending memory."""
    spare = world.pending.quota.spare
    world.pending.quota.take(0, spare)
    while world.pool.spare >= 2 * BATCH:
        assert world.take(partition)


def test_futures_take_spare_memory_of_the_pool_and_no_more() -> None:
    world = QuotaUsers()
    partition = world.partition(1)
    world.take(partition)
    world.memory_quota.count_futures(partition, 2 * MANY_FUTURES - 1)
    assert not world.memory_quota.pressure(1)
    world.memory_quota.count_futures(partition, 1)
    assert world.memory_quota.pressure(1) is Pressure.FULL
    world.memory_quota.count_futures(partition, -1)
    assert not world.memory_quota.pressure(1)
    while (world.pool.spare + world.pending.quota.spare) // FUTURE_BYTES >= MANY_FUTURES:
        world.take(partition)
    assert world.memory_quota.pressure(1) is Pressure.FULL, "batches took what was spare"


def test_many_futures_leave_no_room_though_there_is_memory_for_a_batch() -> None:
    world = QuotaUsers()
    partition = world.partition(1)
    use_what_is_spare(world, partition)
    world.memory_quota.count_futures(partition, MANY_FUTURES - 1)
    assert not world.memory_quota.pressure(1)
    world.memory_quota.count_futures(partition, 1)
    assert world.memory_quota.pressure(1) is Pressure.FULL
    world.memory_quota.count_futures(partition, MANY_FUTURES + 1)
    assert world.memory_quota.pressure(1) is Pressure.CRITICAL
    world.memory_quota.count_futures(partition, -MANY_FUTURES - 2)
    assert not world.memory_quota.pressure(1)


def test_the_futures_of_one_node_leave_room_to_the_others(world: QuotaUsers) -> None:
    stuck, other = world.partition(1), world.partition(2)
    world.take(stuck)
    world.memory_quota.count_futures(stuck, 10 * MANY_FUTURES)
    assert world.memory_quota.pressure(1) is Pressure.CRITICAL
    assert not world.memory_quota.pressure(2)
    world.take(other)
    world.memory_quota.count_futures(other, MANY_FUTURES // 2 // NODES)
    assert world.memory_quota.pressure(2) is Pressure.FULL


def test_futures_move_with_their_partition(world: QuotaUsers) -> None:
    moving = world.partition(1)
    use_what_is_spare(world, world.partition(3))
    world.take(moving)
    world.memory_quota.count_futures(moving, MANY_FUTURES)
    world.move(moving, 2)
    assert not world.memory_quota.pressure(1)
    assert world.memory_quota.pressure(2) is Pressure.FULL


# --- how large a batch may be: many nodes, many partitions -------------------------------------


def test_few_partitions_have_full_batches_however_little_memory_there_is() -> None:
    world = QuotaUsers(16 * BATCH)
    for _ in range(16):
        world.take(world.partition(1))
        assert world.memory_quota.fair_size(BATCH) == BATCH


def test_no_batch_is_larger_than_what_a_node_is_guaranteed() -> None:
    world = QuotaUsers(nodes=32)
    fair = world.memory_quota.fair_size(BATCH)
    assert fair == SPARE // 32
    for node in range(2, 31):
        partition = world.partition(node)
        while world.take(partition, world.memory_quota.fair_size(BATCH)):
            pass
    assert world.take(world.partition(1), world.memory_quota.fair_size(BATCH))


def test_many_partitions_have_smaller_batches_so_that_each_can_have_one() -> None:
    world = QuotaUsers()
    partitions = [world.partition(number % 3) for number in range(100)]
    for round_number in range(3):
        sizes = {}
        for partition in partitions:
            size = world.memory_quota.fair_size(BATCH)
            if world.take(partition, size):
                sizes[partition] = size
        for partition, size in sizes.items():
            world.give_back(partition, START, size)
        if round_number:
            assert len(sizes) == 100
            assert max(sizes.values()) < BATCH // 2


def test_a_partition_counts_once_whatever_it_holds() -> None:
    world = QuotaUsers()
    one = world.partition(1)
    for _ in range(10):
        world.take(one)
        world.take(world.partition(1))
    assert world.memory_quota.fair_size(BATCH) == BATCH
    for _ in range(10):
        world.take(world.partition(1), 10)
    assert world.memory_quota.fair_size(TOTAL) == TOTAL // (2 * 21)


def test_partitions_that_hold_memory_no_more_are_forgotten_in_time() -> None:
    world = QuotaUsers()
    partitions = [world.partition(1) for _ in range(64)]
    for partition in partitions:
        world.take(partition, 10)
    fair = world.memory_quota.fair_size(BATCH)
    assert fair == TOTAL // 128
    for partition in partitions[1:]:
        world.give_back(partition, START, 10)
    sizes = []
    for seconds in range(1, 60):  # the one that is left always holds some
        world.take(partitions[0], 10, START + seconds)
        world.give_back(partitions[0], START + seconds, 10)
        sizes.append(world.memory_quota.fair_size(BATCH))
    assert sizes == sorted(sizes)
    assert sizes[8] == fair
    assert sizes[-1] == BATCH
