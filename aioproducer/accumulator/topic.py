"""The partitions of one topic, and the one that keyless records stick to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aioproducer.accumulator.partition import Partition
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.errors import InvalidPartitionError
from aioproducer.model import TopicPartition
from aioproducer.partitioning import PartitionFunction, Partitions
from aioproducer.records.acceleration import OpenBuilders
from aioproducer.records.builder import BATCH_OVERHEAD


class Topic:
    """A queue for each partition of ``topic``."""

    __slots__ = (
        "open_batches",
        "partitions",
        "produced",
        "retired",
        "sticky",
        "sticky_batch",
        "topic",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.partitions: list[Partition] = []
        self.retired: dict[int, Partition] = {}
        """Partitions that the topic has no more (it was made anew), while batches are left."""
        self.sticky: Partition | None = None
        """The queue of keyless records at present; None: to be chosen."""
        self.sticky_batch: ProducerBatch | None = None
        """The last batch that was begun for a keyless record."""
        self.produced = 0
        """Bytes of the earlier such batches since ``sticky`` was chosen."""
        self.open_batches = OpenBuilders()
        """The open batches that records can join at once."""

    @property
    def busy(self) -> bool:
        """True if a batch or a record is here."""
        return any(queue.busy for queue in [*self.partitions, *self.retired.values()])

    def queue(self, partition: int) -> Partition:
        """The queue of a partition that the topic has, or had when its batches were begun."""
        if partition < len(self.partitions):
            return self.partitions[partition]
        return self.retired[partition]

    def find(self, partition: int) -> Partition | None:
        """The queue of a partition; None: the topic has no such partition any more."""
        if partition < len(self.partitions):
            return self.partitions[partition]
        return self.retired.get(partition)

    def count_sticky_batch(self) -> None:
        """No more keyless records go into :attr:`sticky_batch`: add up its bytes."""
        if self.sticky_batch is not None:
            self.produced += self.sticky_batch.size - BATCH_OVERHEAD
            self.sticky_batch = None

    def resize(self, count: int, fresh: Mapping[int, Partition] = MappingProxyType({})) -> None:
        """Have ``count`` partitions; if the topic was made anew with fewer, the others retire.

        ``fresh``: queues that were made before, for partitions that it lacks.
        """
        for partition in range(len(self.partitions), count):
            queue = self.retired.pop(partition, None) or fresh.get(partition)
            self.partitions.append(queue or Partition(TopicPartition(self.topic, partition)))
        for queue in self.partitions[count:]:
            self.retired[queue.topic_partition.partition] = queue
            if queue is self.sticky:
                self.sticky = None
        del self.partitions[count:]
        self.open_batches.partitions = [
            None if queue.open is None else queue.open.builder for queue in self.partitions
        ]
        self.retired = {number: queue for number, queue in self.retired.items() if queue.busy}

    def ask(self, partitioner: PartitionFunction, key: bytes | None, value: bytes | None) -> int:
        """The partition that a user's partitioner chooses.

        Raises :class:`InvalidPartitionError` if it fails or names one that does not exist.
        """
        count = len(self.partitions)
        try:
            chosen = partitioner(self.topic, key, value, self._as_seen_by_partitioner())
        except Exception as error:
            raise InvalidPartitionError(
                f"the partitioner failed for a record of topic {self.topic!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if type(chosen) is bool or not isinstance(chosen, int) or not 0 <= chosen < count:
            raise InvalidPartitionError(
                f"the partitioner returned {chosen!r} for topic {self.topic!r}, which has the "
                f"partitions 0 to {count - 1}"
            )
        return chosen

    def _as_seen_by_partitioner(self) -> Partitions:
        available = [
            queue.topic_partition.partition for queue in self.partitions if queue.leader is not None
        ]
        return Partitions(len(self.partitions), available)


def queue_for(batch: ProducerBatch, topics: Mapping[str, Topic]) -> Partition:
    """The queue that ``batch`` belongs to."""
    topic, partition = batch.topic_partition
    return topics[topic].queue(partition)
