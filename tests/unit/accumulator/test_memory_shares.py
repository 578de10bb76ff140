"""No broker gets all memory, and one that returns nothing is not waited for."""

from __future__ import annotations

import pytest

from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.memory_shares import FUTURE_BYTES, STUCK_AFTER, MemoryShares
from aioproducer.accumulator.partition_queue import PartitionQueue
from aioproducer.model import TopicPartition

BATCH = 100
TOTAL = 32 * BATCH
RESERVE = TOTAL // 8
START = 50.0


class World:
    def __init__(self, total: int = TOTAL) -> None:
        self.pool = BufferPool(total, BATCH)
        self.wanted: dict[PartitionQueue, int] = {}
        self.shares = MemoryShares(self.pool, BATCH, self.wanted.get)

    def queue(self, leader: int) -> PartitionQueue:
        queue = PartitionQueue(TopicPartition("t", leader))
        queue.leader = leader
        return queue

    def take(self, queue: PartitionQueue, size: int = BATCH, now: float = START) -> bool:
        """What a batch that is begun does; False: it may not."""
        if not self.shares.may_take(queue, size) or self.pool.available < size:
            return False
        self.pool.lend(size)
        self.shares.take(queue, size, now)
        return True

    def give_back(self, queue: PartitionQueue, now: float, size: int = BATCH) -> None:
        self.pool.take_back(size)
        self.shares.give_back(queue, size, now)

    def wait(self, queue: PartitionQueue, size: int = BATCH) -> None:
        self.wanted[queue] = size
        self.shares.wait(queue)

    def fill(self, queue: PartitionQueue) -> None:
        while self.take(queue):
            pass


@pytest.fixture
def world() -> World:
    return World()


def test_one_node_leaves_the_last_part_to_others(world: World) -> None:
    hog, other = world.queue(1), world.queue(2)
    world.fill(hog)
    assert world.pool.available == RESERVE
    world.fill(other)
    assert world.pool.available == 0
    assert other.held == RESERVE


def test_so_do_many_partitions_of_one_node(world: World) -> None:
    queues = [world.queue(1) for _ in range(TOTAL // BATCH)]
    assert sum(world.take(queue) for queue in queues) == (TOTAL - RESERVE) // BATCH


def test_what_nodes_with_little_hold_may_be_the_last(world: World) -> None:
    queues = [world.queue(node) for node in range(3)]
    for _ in range(TOTAL // BATCH // 3):
        assert all(world.take(queue) for queue in queues)
    world.fill(queues[0])
    assert world.pool.available < BATCH


def test_a_small_pool_has_no_reserve() -> None:
    world = World(4 * BATCH)
    world.fill(world.queue(1))
    assert world.pool.available == 0


def test_the_one_that_holds_least_is_served_first(world: World) -> None:
    rich, poor = world.queue(1), world.queue(1)
    world.take(rich)
    world.wait(rich)
    world.wait(poor)
    assert world.shares.next_waiting() == (poor, BATCH)
    assert world.shares.next_waiting() == (rich, BATCH)
    assert world.shares.next_waiting() is None
    assert not world.shares.exhausted


def test_who_waits_no_more_is_passed_over(world: World) -> None:
    gone, there = world.queue(1), world.queue(2)
    world.wait(gone)
    world.wait(there)
    del world.wanted[gone]
    assert world.shares.next_waiting() == (there, BATCH)


def test_a_hog_waits_without_keeping_others_from_the_reserve(world: World) -> None:
    hog, other = world.queue(1), world.queue(2)
    world.fill(hog)
    world.wait(hog)
    world.wait(other)
    assert world.shares.next_waiting() == (other, BATCH)
    assert world.shares.next_waiting() is None
    assert world.shares.exhausted
    world.give_back(hog, START)
    assert world.shares.next_waiting() == (hog, BATCH)


def test_new_batches_of_a_hog_do_not_overtake_those_that_wait(world: World) -> None:
    hog, late = world.queue(1), world.queue(1)
    world.fill(hog)
    world.wait(hog, 3 * BATCH)
    assert world.shares.next_waiting() is None
    world.give_back(hog, START)
    assert not world.take(late)
    assert world.shares.next_waiting() is None
    world.give_back(hog, START, 2 * BATCH)
    assert world.shares.next_waiting() == (hog, 3 * BATCH)
    assert world.take(late)


def test_a_hog_that_moves_to_another_leader_is_looked_at_again(world: World) -> None:
    hog, moving = world.queue(1), world.queue(1)
    world.fill(hog)
    world.wait(moving)
    assert world.shares.next_waiting() is None
    world.shares.move(moving, 2, START)
    assert world.shares.next_waiting() == (moving, BATCH)


def test_memory_moves_with_its_partition(world: World) -> None:
    hog, other = world.queue(1), world.queue(2)
    world.fill(hog)
    world.shares.move(hog, 2, START)
    assert not world.take(other)
    world.give_back(hog, START)
    assert world.take(other)
    assert world.take(world.queue(1))


def test_it_is_crowded_until_the_hog_is_stuck(world: World) -> None:
    hog = world.queue(1)
    assert not world.shares.crowded(START)
    world.fill(hog)
    assert world.shares.crowded(START)
    assert world.shares.next_change(START) == START + STUCK_AFTER
    assert not world.shares.crowded(START + STUCK_AFTER)
    assert world.shares.next_change(START + STUCK_AFTER) is None


def test_a_hog_that_returns_memory_is_not_stuck(world: World) -> None:
    hog = world.queue(1)
    world.fill(hog)
    world.give_back(hog, START + 0.9)
    assert world.take(hog, now=START + 0.9)
    assert world.shares.crowded(START + STUCK_AFTER)
    assert not world.shares.crowded(START + 0.9 + STUCK_AFTER)


def test_without_any_memory_it_is_crowded_whoever_is_stuck(world: World) -> None:
    for node in (1, 2):
        world.fill(world.queue(node))
    assert world.shares.crowded(START + 100)


def test_a_waiting_hog_does_not_crowd_once_it_is_stuck(world: World) -> None:
    hog = world.queue(1)
    world.fill(hog)
    world.wait(hog)
    assert world.shares.next_waiting() is None
    assert world.shares.crowded(START)
    assert not world.shares.crowded(START + STUCK_AFTER)


# --- futures ---------------------------------------------------------------------------------

MANY_FUTURES = TOTAL // (2 * FUTURE_BYTES) + 1


def test_many_futures_leave_no_room_though_there_is_memory(world: World) -> None:
    queue = world.queue(1)
    world.take(queue)
    world.shares.promise(queue, MANY_FUTURES - 1)
    assert not world.shares.crowded(START)
    world.shares.promise(queue, 1)
    assert world.shares.crowded(START)
    world.shares.keep_promise(queue, 1)
    assert not world.shares.crowded(START)


def test_futures_of_a_stuck_broker_are_not_waited_for(world: World) -> None:
    stuck, other = world.queue(1), world.queue(2)
    world.take(stuck)
    world.take(other)
    world.shares.promise(stuck, MANY_FUTURES)
    world.shares.promise(other, 1)
    assert world.shares.crowded(START)
    assert world.shares.next_change(START) == START + STUCK_AFTER
    assert not world.shares.crowded(START + STUCK_AFTER)


def test_a_stuck_broker_s_futures_have_a_bound_too(world: World) -> None:
    """Else a single broker that answers late would let them grow without end."""
    queue = world.queue(1)
    world.take(queue)
    world.shares.promise(queue, 2 * (MANY_FUTURES - 1))
    assert not world.shares.crowded(START + STUCK_AFTER)
    world.shares.promise(queue, 1)
    assert world.shares.crowded(START + 100)


def test_futures_move_with_their_partition(world: World) -> None:
    moving, other = world.queue(1), world.queue(1)
    world.take(moving)
    world.take(other)
    world.shares.promise(moving, MANY_FUTURES)
    world.shares.move(moving, 2, START + STUCK_AFTER)
    assert world.shares.crowded(START + STUCK_AFTER)
    world.give_back(other, START + STUCK_AFTER)
    assert not world.shares.crowded(START + 2 * STUCK_AFTER)
    world.shares.keep_promise(moving, MANY_FUTURES)
    world.give_back(moving, START)
    assert not world.shares.crowded(START + STUCK_AFTER)


# --- many partitions -------------------------------------------------------------------------


def test_few_partitions_have_full_batches_however_little_memory_there_is() -> None:
    world = World(16 * BATCH)
    for number in range(16):
        world.take(world.queue(number))
        assert world.shares.fair(BATCH) == BATCH


def test_many_partitions_have_smaller_batches_so_that_each_can_have_one() -> None:
    world = World()
    queues = [world.queue(number % 3) for number in range(100)]
    for round_number in range(3):
        sizes = {}
        for queue in queues:
            size = world.shares.fair(BATCH)
            if world.take(queue, size):
                sizes[queue] = size
        for queue, size in sizes.items():
            world.give_back(queue, START, size)
        if round_number:
            assert len(sizes) == 100
            assert max(sizes.values()) < BATCH // 2


def test_a_partition_counts_once_whatever_it_holds() -> None:
    world = World()
    one = world.queue(1)
    for _ in range(10):
        world.take(one)
        world.take(world.queue(1))
    assert world.shares.fair(BATCH) == BATCH
    for _ in range(10):
        world.take(world.queue(1), 10)
    assert world.shares.fair(TOTAL) == TOTAL // (2 * 21)


def test_partitions_that_hold_memory_no_more_are_forgotten_in_time() -> None:
    world = World()
    queues = [world.queue(number) for number in range(64)]
    for queue in queues:
        world.take(queue, 10)
    assert world.shares.fair(BATCH) == TOTAL // 128
    for queue in queues[1:]:
        world.give_back(queue, START, 10)
    sizes = []
    for seconds in range(1, 60):  # the one that is left always holds some
        world.take(queues[0], 10, START + seconds)
        world.give_back(queues[0], START + seconds, 10)
        sizes.append(world.shares.fair(BATCH))
    assert sizes == sorted(sizes)
    assert sizes[8] == TOTAL // 128
    assert sizes[-1] == BATCH
