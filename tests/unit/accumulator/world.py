"""An accumulator with a clock that the test holds and futures that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from aioproducer.accumulator import (
    AccumulatorSettings,
    ProducerBatch,
    RecordAccumulator,
    SerializedRecord,
)
from aioproducer.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.errors import ProducerError
from aioproducer.model import RecordMetadata, TopicPartition
from aioproducer.partitioning import PartitionFunction

START = 1_000.0


TIMESTAMP_MS = 1_700_000_000_000


BATCH = 1_000


FULL = 900
"""Bytes of a value that leaves no room in its batch for another like it."""


LINGER = 0.1


DELIVERY = 120.0


BLOCK = 60.0


class Token:
    """Stands for a future: takes one fate."""

    def __init__(self) -> None:
        self.fate: RecordMetadata | BaseException | None = None
        self.cancelled = False

    def done(self) -> bool:
        return self.cancelled or self.fate is not None

    def set_result(self, metadata: RecordMetadata, /) -> None:
        assert not self.done()
        self.fate = metadata

    def set_exception(self, error: BaseException, /) -> None:
        assert not self.done()
        self.fate = error

    def exception(self) -> BaseException | None:
        return self.fate if isinstance(self.fate, BaseException) else None

    @property
    def partition(self) -> int:
        assert isinstance(self.fate, RecordMetadata)
        return self.fate.partition


class Flushed:
    """Stands for the future of a flush."""

    resolved = False
    given_up = False
    error: BaseException | None = None

    def done(self) -> bool:
        return self.resolved or self.given_up or self.error is not None

    def set_result(self, _result: None, /) -> None:
        assert not self.done()
        self.resolved = True

    def set_exception(self, error: BaseException, /) -> None:
        assert not self.done()
        self.error = error


class World:
    """An accumulator and the hands that the sender and the admission lay on it."""

    def __init__(
        self,
        *,
        memory: int = 100 * BATCH,
        pending: int = 25 * BATCH,
        keep: int = 100 * BATCH,
        linger: float | None = LINGER,
        max_request_size: int = 100 * BATCH,
        partitioner: PartitionFunction | None = None,
        expansion: float = 1.0,
        admits: Callable[[TopicPartition], bool] | None = None,
        on_failed: Callable[[ProducerError], None] | None = None,
        **settings: Any,
    ) -> None:
        self.now = START
        self.wakes = 0
        self.accumulator = RecordAccumulator(
            AccumulatorSettings(
                memory=memory,
                pending_memory=pending,
                kept_memory=keep,
                batch_size=BATCH,
                max_request_size=max_request_size,
                linger=linger,
                adaptive_linger=0.005,
                delivery_timeout=DELIVERY,
                **settings,
            ),
            Random(3),
            self.wake,
            Token,
            lambda _topic: expansion,
            partitioner,
            admits,
            on_failed,
        )
        self.batches = self.accumulator.batches
        self.pool = self.accumulator._pool
        self.pending = self.accumulator.pending
        self.records = self.accumulator._records
        self.memory_quota = self.accumulator._memory_quota

    def wake(self) -> None:
        self.wakes += 1

    def learn(self, *leaders: int | None, topic: str = "t") -> None:
        partitions = tuple(PartitionLeader(number, node) for number, node in enumerate(leaders))
        self.accumulator.update_topic(TopicInfo(topic, None, partitions), self.now)
        for partition in self.accumulator._topics[topic].partitions:
            partition._acknowledged = self.acknowledged

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
        if self.accumulator.routes.append(token, TIMESTAMP_MS, topic, value, key, partition):
            return token
        if partition is None:
            partition = accumulator.choose_partition(topic, key, value)
        record = SerializedRecord(topic, partition, TIMESTAMP_MS, key, value, (), token)
        if not accumulator.append(record, self.now):
            accumulator.enqueue(record, self.now, self.now + BLOCK)
        return token

    def withdraw(self, token: Token) -> None:
        """Cancel a record in line."""
        token.cancelled = True
        (record,) = (record for record in self.pending if record.record.token is token)
        self.accumulator.pending.withdraw(record)

    def ready(self, node: int = 1, *, idle: bool = False) -> Any:
        """In how many seconds."""
        due = self.batches.ready(node, self.now, idle=idle)
        return None if due is None else pytest.approx(due - self.now)

    def drain(self, node: int = 1, max_size: int = 100 * BATCH) -> list[ProducerBatch]:
        return self.batches._dispatch.drain(node, max_size, self.now)

    def drain_one(self, node: int = 1) -> ProducerBatch:
        (batch,) = self.drain(node)
        return batch

    def retry(self, batch: ProducerBatch, after: float = 0.0) -> None:
        self.batches.retry(batch, self.now + after, self.now)

    def deliver(self, *batches: ProducerBatch) -> None:
        for batch in batches:
            batch.deliver(0, -1)
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
        return self.drain(node) if node in self.batches.nodes() else []


def places(batches: Sequence[ProducerBatch]) -> list[int]:
    return [batch.topic_partition.partition for batch in batches]
