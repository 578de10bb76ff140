"""The steps of tests of the accumulator: records, rounds and deliveries by hand."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from aioproducer.engine.accumulator import (
    BatchPhase,
    Flushes,
    LateResults,
    ProducerBatch,
    SerializedRecord,
)
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.errors import ProducerError
from tests.support.tokens import Token
from tests.support.world import MAX_BLOCK, World

START = 1_000.0


TIMESTAMP_MS = 1_700_000_000_000


BATCH = 1_000


FULL = 900
"""Bytes of a value that leaves no room in its batch for another like it."""


LINGER = 0.1

BLOCK = MAX_BLOCK


class AccumulatorWorld(World):
    """An accumulator, and the steps that the sender takes with it, called by the test."""

    def __init__(self, **given: Any) -> None:
        defaults: dict[str, Any] = {
            "now": START,
            "random": lambda: Random(3),
            "make_future": Token,
            "memory": 100 * BATCH,
            "pending_memory": 25 * BATCH,
            "kept_memory": 100 * BATCH,
            "batch_size": BATCH,
            "max_request_size": 100 * BATCH,
            "linger": LINGER,
            "in_order": True,
            "adaptive_partitioning": True,
        }
        super().__init__(**(defaults | given))
        self.memory_quota = self.accumulator.memory_quota
        self.backlogs = self.batches.backlogs

    def wake(self, now: float | None = None) -> None:
        """There is no sender to wake."""
        self.wakes += 1

    def learn(self, *leaders: int | None, topic: str = "t") -> None:
        partitions = tuple(PartitionLeader(number, node) for number, node in enumerate(leaders))
        self.accumulator.update_topic(TopicInfo(topic, None, partitions), self.now)
        for partition in self.accumulator._topics[topic].partitions:
            partition._acknowledged = 0 if self.acknowledged else -1

    acknowledged = True
    """Every partition has acknowledged a batch before."""

    def send(
        self,
        partition: int | None = 0,
        size: int = 10,
        *,
        key: bytes | None = None,
        topic: str = "t",
    ) -> Token:
        """What ``Producer.send()`` does."""
        token, value, accumulator = Token(), bytes(size), self.accumulator
        if self.accumulator.routes.append(
            token, TIMESTAMP_MS * 1_000_000, None, topic, value, key, partition
        ):
            return token
        if asks := partition is None and accumulator.partitioner is not None:
            partition = accumulator.choose_partition(topic, key, value)
        record = SerializedRecord(
            topic,
            partition,
            TIMESTAMP_MS,
            key,
            value,
            (),
            token,
            by_partitioner=asks,
        )
        if not accumulator.append(record, self.now):
            accumulator.enqueue(record, self.now)
        return token

    def withdraw(self, token: Token) -> None:
        """Cancel a record in line."""
        token.cancelled = True
        (record,) = (record for record in self.pending if record.record.token is token)
        self.accumulator.pending.withdraw(record)

    def ready(self, node: int = 1, *, idle: bool = False) -> Any:
        """In how many seconds."""
        backlog = self.backlogs.of(node)
        if not backlog.partitions:
            return None
        return pytest.approx(self.batch_sender.leaves_at(backlog, not idle, self.now) - self.now)

    def drain(self, node: int = 1, max_size: int = 100 * BATCH) -> list[ProducerBatch]:
        return self.backlogs.of(node).take(max_size, self.now)

    def drain_one(self, node: int = 1) -> ProducerBatch:
        (batch,) = self.drain(node)
        return batch

    def retry(self, batch: ProducerBatch, after: float = 0.0) -> None:
        self.batches.retry(batch, self.now + after, self.now)

    def deliver(self, *batches: ProducerBatch) -> None:
        for batch in batches:
            delivered(batch)
            self.complete(batch)

    def fail(self, batch: ProducerBatch) -> None:
        batch.fail(ProducerError("failed"))
        self.complete(batch)

    def complete(self, batch: ProducerBatch) -> None:
        self.batches.complete(batch, self.now)

    def admit(self) -> bool:
        """Give memory to the first in line; whether there was any."""
        grant = self.memory_quota.grant(self.now)
        return grant is not None and self.accumulator.pending._fill(grant, self.now)

    def deliver_all(self, *nodes: int) -> None:
        """Until nothing is left."""
        while not self.accumulator.is_empty:
            batches = [batch for node in nodes or (1,) for batch in self.drain_if_any(node)]
            self.deliver(*batches)
            assert self.admit() or batches

    def drain_if_any(self, node: int) -> list[ProducerBatch]:
        return self.drain(node) if node in self.backlogs.nodes() else []


def places(batches: Sequence[ProducerBatch]) -> list[int]:
    return [batch.topic_partition.partition for batch in batches]


def place_of(batch: ProducerBatch) -> int:
    """The number of batches of its partition that left before it."""
    return batch.order // batch.order_share


def requested(batch: ProducerBatch) -> ProducerBatch:
    """``batch`` in the phase in which its request leaves it."""
    if batch.phase is BatchPhase.QUEUED:
        batch.enter(BatchPhase.TAKEN)
    if batch.phase is BatchPhase.TAKEN:
        batch.enter(BatchPhase.SENT)
    return batch


def delivered(batch: ProducerBatch, base_offset: int = 0, log_append_time_ms: int = -1) -> None:
    """Write ``batch`` to the log, so that its records have their results."""
    LateResults(Flushes()).complete_futures(requested(batch), base_offset, log_append_time_ms)
