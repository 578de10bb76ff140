"""The batches of one partition, from the one that leaves next to the one being filled."""

from __future__ import annotations

from collections import OrderedDict, deque

from aioproducer.accumulator.pending_records import PendingRecord
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.model import Place, TopicPartition


class Partition:
    """One partition's batches and what keeps them from leaving."""

    __slots__ = (
        "acknowledged",
        "backlog",
        "barrier",
        "batches",
        "delayed_until",
        "futures",
        "held",
        "leader",
        "next_order",
        "on_wire",
        "open",
        "topic_partition",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.leader: int | None = None
        self.batches: deque[ProducerBatch] = deque()
        """Batches that wait to be sent, the next one first."""
        self.open: ProducerBatch | None = None
        """The last of ``batches`` while records may still join it; None while records wait."""
        self.on_wire: list[ProducerBatch] = []
        """Batches in a request that was not answered yet."""
        self.waiting: deque[PendingRecord] = deque()
        """Records that found no memory for their batch; later ones queue behind them."""
        self.held = 0
        """Bytes of pooled memory in its batches, sent or not."""
        self.futures = 0
        """The number of futures of records in its full batches."""
        self.delayed_until = 0.0
        """A retry leaves no earlier than this."""
        self.acknowledged = False
        """A batch was delivered under the partition's present epoch."""
        self.next_order = 0
        self.barrier: Place | None = None
        """Only batches with a number and a place before this may leave; None: all may."""
        self.backlog: Backlog | None = None
        """The backlog that lists it as having a batch that may leave."""

    @property
    def busy(self) -> bool:
        """True if a batch or a record is here."""
        return bool(self.batches or self.on_wire) or any(
            not record.settled for record in self.waiting
        )

    def close_batch(self) -> None:
        """Let no more records join the open batch."""
        if self.open is not None:
            self.open.builder.close()
            self.open = None

    def close_full_batch(self) -> None:
        """Close the open batch, which need not linger for more records."""
        self.close_batch()
        if self.backlog is not None:
            self.backlog.full = True

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch again in the order in which it first left."""
        later = 0
        for queued in self.batches:
            if queued.order < 0 or queued.order > batch.order:
                break
            later += 1
        self.batches.insert(later, batch)


class Backlog:
    """The partitions led by one node that have a batch which may leave, the next to go first."""

    __slots__ = ("full", "oldest", "partitions")

    def __init__(self) -> None:
        self.partitions: OrderedDict[Partition, None] = OrderedDict()
        self.full = False
        """Some batch here need not linger: it is full, or a retry."""
        self.oldest = float("inf")
        """A lower bound of the creation of the batches here."""

    def add(self, queue: Partition) -> None:
        """List ``queue``, last in turn."""
        head = queue.batches[0]
        queue.backlog = self
        self.partitions[queue] = None
        if head is not queue.open or head.order >= 0:
            self.full = True
        self.oldest = min(self.oldest, head.created)

    def discard(self, queue: Partition) -> None:
        """List ``queue`` no longer."""
        queue.backlog = None
        del self.partitions[queue]

    def pop(self) -> Partition:
        """Take the first in turn."""
        queue, _ = self.partitions.popitem(last=False)
        queue.backlog = None
        return queue
