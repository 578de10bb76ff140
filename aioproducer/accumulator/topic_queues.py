"""The partitions of one topic, and the one that keyless records stick to."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from aioproducer.accumulator.partition_queue import NO_LEADER, PartitionQueue
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.model import TopicPartition
from aioproducer.partitioning import Partitions, next_sticky_partition
from aioproducer.records.builder import BATCH_OVERHEAD


class TopicQueues:
    """A queue for each partition of ``topic``."""

    __slots__ = ("partitions", "produced", "retired", "sticky", "sticky_batch", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.partitions: list[PartitionQueue] = []
        self.retired: dict[int, PartitionQueue] = {}
        """Partitions that the topic has no more (it was made anew), while batches are left."""
        self.sticky: PartitionQueue | None = None
        """Where keyless records go now; None: to be chosen."""
        self.sticky_batch: ProducerBatch | None = None
        """The last batch that was begun for a keyless record."""
        self.produced = 0
        """Bytes of the earlier such batches since ``sticky`` was chosen."""

    @property
    def busy(self) -> bool:
        """Whether a batch or a record is here."""
        return any(queue.busy for queue in [*self.partitions, *self.retired.values()])

    def queue(self, partition: int) -> PartitionQueue:
        """The queue of a partition that the topic has, or had when its batches were begun."""
        if partition < len(self.partitions):
            return self.partitions[partition]
        return self.retired[partition]

    def find(self, partition: int) -> PartitionQueue | None:
        """The same; None: there is none any more."""
        if partition < len(self.partitions):
            return self.partitions[partition]
        return self.retired.get(partition)

    def count_sticky_batch(self) -> None:
        """No more keyless records go into :attr:`sticky_batch`: add up what went."""
        if self.sticky_batch is not None:
            self.produced += self.sticky_batch.size - BATCH_OVERHEAD
            self.sticky_batch = None

    def resize(self, count: int) -> None:
        """Have ``count`` partitions; if the topic was made anew with fewer, the others retire."""
        for partition in range(len(self.partitions), count):
            queue = self.retired.pop(partition, None)
            self.partitions.append(queue or PartitionQueue(TopicPartition(self.topic, partition)))
        for queue in self.partitions[count:]:
            self.retired[queue.topic_partition.partition] = queue
            if queue is self.sticky:
                self.sticky = None
        del self.partitions[count:]
        self.retired = {number: queue for number, queue in self.retired.items() if queue.busy}

    def as_seen_by_partitioner(self) -> Partitions:
        """The topic as a user's partitioner gets it."""
        available = [
            queue.topic_partition.partition
            for queue in self.partitions
            if queue.leader != NO_LEADER
        ]
        return Partitions(len(self.partitions), available)


class StickyChoice:
    """Chooses the partition that keyless records stick to (KIP-794).

    ``adaptive``: partitions with more waiting batches are chosen less often.
    ``unavailable``: says of a node that it has not taken batches for too long
    (``partitioner_availability_timeout_ms``); its partitions are then left out.
    """

    def __init__(
        self, random: Random, *, adaptive: bool, unavailable: Callable[[int], bool]
    ) -> None:
        self._random = random
        self._adaptive = adaptive
        self._unavailable = unavailable

    def choose(self, queues: TopicQueues) -> PartitionQueue:
        """Choose anew."""
        led = [queue for queue in queues.partitions if queue.leader != NO_LEADER]
        if self._adaptive:
            led = [queue for queue in led if not self._unavailable(queue.leader)] or led
        candidates = led or queues.partitions
        ids = [queue.topic_partition.partition for queue in candidates]
        loads = [len(queue.batches) for queue in candidates] if self._adaptive and led else None
        queues.sticky = chosen = queues.partitions[next_sticky_partition(self._random, ids, loads)]
        queues.produced = 0
        queues.sticky_batch = chosen.open
        return chosen
