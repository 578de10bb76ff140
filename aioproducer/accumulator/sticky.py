"""The partition that a topic's keyless records stick to for ``batch_size`` bytes (KIP-794)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from aioproducer.accumulator.partition import Partition
from aioproducer.accumulator.topic import Topic
from aioproducer.partitioning import next_sticky_partition


class StickyChoice:
    """Chooses the sticky partition, and the moment to choose anew.

    ``adaptive``: partitions with more waiting batches are chosen less often.
    ``unavailable``: says of a node that it has not taken batches for too long
    (``partitioner_availability_timeout_ms``); its partitions are then left out. None: no node is.
    """

    def __init__(
        self,
        random: Random,
        batch_size: int,
        *,
        adaptive: bool,
        unavailable: Callable[[int], bool] | None,
    ) -> None:
        self._random = random
        self._batch_size = batch_size
        self._adaptive = adaptive
        self._unavailable = unavailable

    def choose(self, queues: Topic) -> Partition:
        """Choose anew."""
        led = [queue for queue in queues.partitions if queue.leader is not None]
        unavailable = self._unavailable
        if self._adaptive and unavailable is not None:
            reached = [
                queue for queue in led if queue.leader is None or not unavailable(queue.leader)
            ]
            led = reached or led
        candidates = led or queues.partitions
        ids = [queue.topic_partition.partition for queue in candidates]
        loads = [len(queue.batches) for queue in candidates] if self._adaptive and led else None
        queues.sticky = chosen = queues.partitions[next_sticky_partition(self._random, ids, loads)]
        queues.produced = 0
        queues.sticky_batch = chosen.open
        return chosen

    def for_batch(self, queues: Topic, size: int) -> Partition:
        """The partition for a record of ``size`` bytes that begins a batch.

        Only at such a moment may it change, so no batch leaves half full for its sake.
        """
        queues.count_sticky_batch()
        if queues.produced + size > self._batch_size:
            queues.sticky = None
        return queues.sticky or self.choose(queues)

    def for_waiting(self, queues: Topic, size: int) -> Partition:
        """The partition for a record of ``size`` bytes that waits, with whatever batch it gets."""
        queue = queues.sticky or self.choose(queues)
        queues.produced += size
        if queues.produced > self._batch_size:
            queues.sticky = None
        return queue
