"""The accumulator under any sequence of events, beside a simple model of what must hold.

The model's broker takes a partition's batches in the order of their numbers, as Kafka does for an
idempotent producer; it answers any batch that comes too early with a retriable error.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aioproducer.engine.accumulator import ProducerBatch, SerializedRecord
from aioproducer.engine.accumulator.memory_quota import NodeKey
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.records.builder import frame_batch
from aioproducer.errors import BufferExhaustedError, DeliveryTimeoutError, KafkaError
from aioproducer.model import TopicPartition
from tests.support.tokens import FlushToken, Token
from tests.support.world import World
from tests.unit.accumulator.world import delivered

BATCH = 500
FEW_BATCHES = 4 * BATCH + 77
MANY_BATCHES = 16 * BATCH + 77
"""Enough for a reserve."""
PENDING = 1_200
NODES = [1, 2, 3]
TOPICS = ["a", "b"]
FATES = ["answer", "answer", "refuse", "lose", "put back", "too large"]
KEYS = [None, None, None, None, b"a", b"b", b"c", b"d"]
SIZES = [0, 10, 10, 10, 100, 300, 420, 900, 1_200]
BLOCK = 2.0
DELIVERY = 5.0


class Flush(FlushToken):
    """A flush of ``tokens``, which nothing fails."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens

    def set_exception(self, error: BaseException, /) -> None:
        raise AssertionError("nobody broke the producer")


class AccumulatorMachine(RuleBasedStateMachine):
    one_at_a_time = False
    memory = FEW_BATCHES
    kept = FEW_BATCHES
    """Bytes that pending records leave to the batches."""
    batch_size = BATCH
    most_doublings = 0

    def __init__(self) -> None:
        super().__init__()
        self.now = 50.0
        self.timestamp_ms = 1_000
        world = World(
            random=lambda: Random(1),
            make_future=lambda: None,
            memory=self.memory,
            pending_memory=PENDING,
            kept_memory=self.kept,
            batch_size=self.batch_size,
            most_doublings=self.most_doublings,
            max_request_size=1_500,
            linger=None,
            delivery_timeout=DELIVERY,
            max_block=BLOCK,
            one_at_a_time=self.one_at_a_time,
            in_order=not self.one_at_a_time,
            adaptive_partitioning=True,
        )
        self.accumulator, self.batch_sender = world.accumulator, world.batch_sender
        self.batches, self.pending = world.batches, world.pending
        self.pool, self.pending_memory = world.pool, world.pending_memory
        self.memory_quota = self.accumulator.memory_quota
        self.tokens: list[Token] = []
        self.leaders: dict[str, list[int | None]] = {}
        self.on_wire: dict[ProducerBatch, int] = {}
        self.flushes: list[Flush] = []
        self.was_split = False
        self.log: dict[TopicPartition, list[Token]] = defaultdict(list)

    # --- what happens ----------------------------------------------------------------------

    @rule(
        topic=st.sampled_from(TOPICS),
        partition=st.none() | st.integers(0, 1),
        key=st.sampled_from(KEYS),
        size=st.sampled_from(SIZES),
        times=st.sampled_from([1, 1, 2, 6]),
    )
    def send(
        self, topic: str, partition: int | None, key: bytes | None, size: int, times: int
    ) -> None:
        for _ in range(times):
            self.send_one(topic, partition, key, bytes(size))

    def send_one(self, topic: str, partition: int | None, key: bytes | None, value: bytes) -> None:
        """What ``Producer.send`` does."""
        token = Token(len(self.tokens))
        accumulator = self.accumulator
        if accumulator.routes.append(
            token, self.timestamp_ms * 1_000_000, None, topic, value, key, partition
        ):
            self.tokens.append(token)
            return
        record = SerializedRecord(topic, partition, self.timestamp_ms, key, value, (), token)
        if not accumulator.append(record, self.now):
            try:
                accumulator.enqueue(record, self.now)
            except BufferExhaustedError:
                return
        self.tokens.append(token)

    @rule(
        topic=st.sampled_from(TOPICS),
        leaders=st.lists(st.sampled_from([*NODES, None]), min_size=2, max_size=4),
    )
    def learn(self, topic: str, leaders: list[int | None]) -> None:
        """Leaders move, partitions come; they never go, for then order means nothing."""
        known = self.leaders.get(topic, [])
        self.leaders[topic] = leaders + known[len(leaders) :]
        self.update(topic)

    def update(self, topic: str) -> None:
        partitions = tuple(
            PartitionLeader(number, leader) for number, leader in enumerate(self.leaders[topic])
        )
        self.accumulator.update_topic(TopicInfo(topic, None, partitions), self.now)

    @rule(seconds=st.sampled_from([0.001, 0.1, 1.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.timestamp_ms += int(seconds * 1_000)
        self.batches.backlogs.release_delayed(self.now)
        for batch in self.batches.expired(self.now):
            assert batch.deadline <= self.now
            self.fail(batch, DeliveryTimeoutError("late"))
        for record in self.pending.expired(self.now):
            assert record.deadline <= self.now
            self.accumulator.pending.fail([record], BufferExhaustedError("waited too long"))

    @rule(node=st.sampled_from(NODES), idle=st.booleans())
    def drain(self, node: int, idle: bool) -> None:
        backlog = self.batches.backlogs.of(node)
        if (
            not backlog.partitions
            or self.batch_sender.leaves_at(backlog, not idle, self.now) > self.now
        ):
            return
        batches = backlog.take(self.batches.max_request_size, self.now)
        assert batches
        assert len({batch.topic_partition for batch in batches}) == len(batches)
        assert len(batches) == 1 or sum(batch.size for batch in batches) <= 1_500
        for batch in batches:
            topic, partition = batch.topic_partition
            assert self.leaders[topic][partition] == node
            assert batch.count > 0
            assert frame_batch(batch.builder, batch.state, None, None)
            assert batch not in self.on_wire
            self.on_wire[batch] = batch.count

    @precondition(lambda self: self.on_wire)
    @rule(pick=st.integers(0, 99), fate=st.sampled_from(FATES))
    def a_response_comes(self, pick: int, fate: str) -> None:
        batch = list(self.on_wire)[pick % len(self.on_wire)]
        assert batch.count == self.on_wire[batch], "records joined a batch on the wire"
        if fate == "refuse":
            self.fail(batch, KafkaError("refused"))
        elif fate == "too large" and batch.count > 1:
            del self.on_wire[batch]
            self.was_split = True
            assert self.batches.split(batch, self.now) > 1
        elif fate == "put back":
            del self.on_wire[batch]
            self.batches.put_back(batch, self.now, self.now)
        elif fate == "answer" and not self.overtook_another(batch):
            self.deliver(batch)
        else:
            del self.on_wire[batch]
            self.batches.retry(batch, self.now + 0.1, self.now)

    def overtook_another(self, batch: ProducerBatch) -> bool:
        return any(
            0 <= other.order < batch.order and other.topic_partition == batch.topic_partition
            for other in self.batches
        )

    @rule()
    def memory_is_handed_out(self) -> None:
        self.accumulator.waiters.serve(self.now)

    @precondition(lambda self: self.tokens)
    @rule(pick=st.integers(1, 30), noticed=st.booleans())
    def somebody_cancels(self, pick: int, noticed: bool) -> None:
        token = self.tokens[-(pick % len(self.tokens))]
        if token.done():
            return
        token.cancelled = True
        record = next((record for record in self.pending if record.record.token is token), None)
        if noticed and record is not None:
            self.accumulator.pending.withdraw(record)
            assert record not in self.pending

    @rule()
    def flush(self) -> None:
        flushed = Flush([token for token in self.tokens if not (token.metadata or token.error)])
        self.flushes.append(flushed)
        self.accumulator.flush(flushed)

    # --- how it is carried out -------------------------------------------------------------

    def deliver(self, batch: ProducerBatch) -> None:
        log = self.log[batch.topic_partition]
        base_offset = len(log)
        log.extend(batch.builder.tokens)
        delivered(batch, base_offset)
        self.complete(batch)

    def fail(self, batch: ProducerBatch, error: Exception) -> None:
        batch.fail(error)
        self.complete(batch)

    def complete(self, batch: ProducerBatch) -> None:
        self.on_wire.pop(batch, None)
        self.batches.complete(batch, self.now)

    # --- what always holds -----------------------------------------------------------------

    @invariant()
    def every_byte_is_accounted_for(self) -> None:
        held = sum(len(batch.buffer or b"") for batch in self.batches)
        futures = sum(batch.futures for batch in self.batches)
        assert self.memory_quota.futures.used == futures
        borrowed = self.memory - held - self.pool.available
        assert 0 <= borrowed <= self.memory - self.kept
        assert self.pending_memory.quota.used == sum(record.size for record in self.pending)
        assert len(self.pending) < 2 or max(0, self.pending_memory.quota.used - PENDING) <= borrowed
        assert self.pending or not borrowed

    @invariant()
    def every_byte_counts_for_the_node_that_leads(self) -> None:
        held, futures, waiting = (Counter[NodeKey]() for _ in range(3))
        for batch in self.batches:
            topic, partition = batch.topic_partition
            held[self.leaders[topic][partition]] += len(batch.buffer or b"")
            futures[self.leaders[topic][partition]] += batch.futures
        for record in self.pending:
            leaders = self.leaders.get(record.topic)
            node = None if leaders is None else record.node
            assert leaders is None or node in leaders
            waiting[node] += record.size
        for node in (*NODES, None):
            assert self.pool.quota.used_by.get(node, 0) == held[node]
            assert self.memory_quota.futures.used_by.get(node, 0) == futures[node]
            assert self.pending_memory.quota.used_by.get(node, 0) == waiting[node]

    @invariant()
    def records_are_in_the_log_in_the_order_of_their_sends(self) -> None:
        for place, tokens in self.log.items():
            numbers = [token.number for token in tokens]
            assert numbers == sorted(set(numbers))
            for offset, token in enumerate(tokens):
                if token.metadata is not None:
                    assert token.metadata.topic_partition == place
                    assert token.metadata.offset == offset

    @invariant()
    def a_flush_ends_when_all_has_its_fate(self) -> None:
        for flushed in self.flushes:
            if flushed.resolved:
                assert all(token.done() for token in flushed.tokens)
            if all(token.metadata or token.error for token in flushed.tokens):
                # Of a batch that is split, it also waits for the parts with later records.
                assert flushed.resolved or self.was_split

    @invariant()
    def one_at_a_time_is_kept(self) -> None:
        if self.one_at_a_time:
            places = [batch.topic_partition for batch in self.on_wire]
            assert len(set(places)) == len(places)

    # --- the end ---------------------------------------------------------------------------

    def teardown(self) -> None:
        for topic in TOPICS:
            self.leaders[topic] = [
                leader if leader is not None else 1 for leader in self.leaders.get(topic, [1, 2])
            ]
            self.update(topic)
        self.accumulator.close()
        for _ in range(len(self.tokens) * 3 + 10):
            if self.accumulator.is_empty:
                break
            self.now += 0.0001
            self.batches.backlogs.release_delayed(self.now + 1.0)
            for batch in sorted(self.on_wire, key=lambda batch: batch.order):
                if self.overtook_another(batch):
                    del self.on_wire[batch]
                    self.batches.retry(batch, self.now, self.now)
                else:
                    self.deliver(batch)
            self.memory_is_handed_out()
            for topic in TOPICS:
                for partition in range(len(self.leaders[topic])):
                    self.skip_backoff(topic, partition)
            for node in NODES:
                self.drain(node, idle=True)
            self.every_byte_is_accounted_for()
        assert not self.batches
        assert not self.pending
        assert self.pending_memory.quota.used == 0
        assert self.pool.available == self.memory
        assert all(token.done() for token in self.tokens)
        assert all(flushed.resolved for flushed in self.flushes)
        self.records_are_in_the_log_in_the_order_of_their_sends()
        logged = [token.number for tokens in self.log.values() for token in tokens]
        delivered = {token.number for token in self.tokens if token.metadata is not None}
        assert len(logged) == len(set(logged))
        assert delivered <= set(logged)
        assert all(self.accumulator.forget_topic(topic, self.now) for topic in TOPICS)

    def skip_backoff(self, topic: str, partition: int) -> None:
        """A leader that moves away and back lets a partition leave at once."""
        home = self.leaders[topic][partition]
        for leader in (None, home):
            self.leaders[topic][partition] = leader
            self.update(topic)


class OneAtATimeMachine(AccumulatorMachine):
    one_at_a_time = True


class RoomyMachine(AccumulatorMachine):
    memory = MANY_BATCHES
    kept = 9 * BATCH


class GrowingMachine(RoomyMachine):
    batch_size = BATCH // 4
    most_doublings = 3


common = settings(
    max_examples=100,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPipelined = AccumulatorMachine.TestCase
TestPipelined.settings = common
TestOneAtATime = OneAtATimeMachine.TestCase
TestOneAtATime.settings = common
TestRoomy = RoomyMachine.TestCase
TestRoomy.settings = common
TestGrowing = GrowingMachine.TestCase
TestGrowing.settings = common


def step(machine: AccumulatorMachine, random: Random) -> None:
    """One event, the usual ones most often."""
    chance = random.random()
    if chance < 0.30:
        partition = random.choice([None, None, 0, 1])
        machine.send(
            random.choice(TOPICS),
            partition,
            random.choice(KEYS),
            random.choice(SIZES),
            random.choice([1, 1, 2, 6]),
        )
    elif chance < 0.55:
        machine.drain(random.choice(NODES), random.random() < 0.5)
    elif chance < 0.75:
        if machine.on_wire:
            machine.a_response_comes(random.randrange(100), random.choice(FATES))
    elif chance < 0.85:
        machine.memory_is_handed_out()
    elif chance < 0.92:
        machine.time_passes(random.choice([0.001, 0.001, 0.1, 0.1, 1.0]))
    elif chance < 0.95:
        if machine.tokens:
            machine.somebody_cancels(random.randrange(1, 31), random.random() < 0.5)
    elif chance < 0.98:
        leaders = [*NODES, *NODES, None]
        count = random.choice([2, 2, 2, 3])
        machine.learn(random.choice(TOPICS), [random.choice(leaders) for _ in range(count)])
    else:
        machine.flush()


@pytest.mark.parametrize(
    "machine", [AccumulatorMachine, OneAtATimeMachine, RoomyMachine, GrowingMachine]
)
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 20))]
)
def test_a_long_life(machine: type[AccumulatorMachine], seed: int) -> None:
    print(f"{seed=}")
    random, life = Random(seed), machine()
    for _ in range(1_500):
        step(life, random)
        life.every_byte_is_accounted_for()
        life.a_flush_ends_when_all_has_its_fate()
        life.one_at_a_time_is_kept()
    life.teardown()
    assert sum(len(tokens) for tokens in life.log.values()) > 20
