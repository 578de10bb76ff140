"""The choice of the batches that leave now: backlogs of nodes, backoffs, the order of retries.

Source: ``ready`` and ``drain`` of Kafka's ``RecordAccumulator``. Kafka examines every partition to
find ready batches. Here each node has a :class:`Backlog` of them, so no step costs more with more
topics.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection
from itertools import count

from aioproducer.accumulator.partition import Partition
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.model import TopicPartition


class Backlog:
    """The partitions of one leader whose first batch may leave; the next one to send is first."""

    __slots__ = ("is_due", "oldest", "partitions")

    def __init__(self) -> None:
        self.partitions: OrderedDict[Partition, None] = OrderedDict()
        self.is_due = False
        """True if a batch here need not linger: it is full, or a retry."""
        self.oldest = float("inf")
        """A lower bound of the creation of the batches here."""

    def add(self, partition: Partition, first: ProducerBatch) -> None:
        """List ``partition``, whose first batch is ``first``, last in turn."""
        self.partitions[partition] = None
        if first is not partition.open_batch or first.order >= 0:
            self.is_due = True
        self.oldest = min(self.oldest, first.created)


class Dispatch:
    """Lists the partitions whose first batch may leave, by node, and takes batches in turn.

    ``one_at_a_time``: at most one batch of a partition in flight. ``in_order``: retries leave in
    their first order, because they carry sequence numbers. ``admit`` asks for a
    partition to be let into the transaction, and returns True if its batches may leave at once; a
    refused one has to be listed again later.
    """

    def __init__(
        self,
        *,
        one_at_a_time: bool,
        in_order: bool,
        admit: Callable[[TopicPartition], bool] | None = None,
    ) -> None:
        self._one_at_a_time = one_at_a_time
        self._in_order = in_order
        self._admit = admit
        self._backlogs: dict[int, Backlog] = {}
        self._leaderless = Backlog()
        """Partitions without a leader: no node gets their batches."""
        self._listed: dict[Partition, Backlog] = {}
        """The backlog that lists a partition."""
        self._delayed: list[tuple[float, int, Partition]] = []
        self._ticket = count()

    # --- which partitions are listed ---------------------------------------------------------

    def enlist(self, partition: Partition, now: float) -> None:
        """List ``partition`` in its leader's backlog if its first batch may leave."""
        listed = self._listed.get(partition)
        if listed is not None:
            if partition.queued > 1:
                listed.is_due = True
            return
        first = partition.first_batch
        if first is not None and self._may_leave(partition, first, now):
            backlog = self._listed[partition] = self._backlog_of(partition.leader)
            backlog.add(partition, first)

    def relist(self, partition: Partition, now: float) -> None:
        """List ``partition`` anew: its first batch or its leader has changed."""
        self._delist(partition)
        self.enlist(partition, now)

    def _delist(self, partition: Partition) -> None:
        listed = self._listed.pop(partition, None)
        if listed is not None:
            del listed.partitions[partition]

    def _may_leave(self, partition: Partition, first: ProducerBatch, now: float) -> bool:
        if partition.delayed_until > now or partition.is_blocked:
            return False
        if partition.in_flight and self._must_wait(partition, first):
            return False
        return self._admit is None or self._admit(partition.topic_partition)

    def _must_wait(self, partition: Partition, first: ProducerBatch) -> bool:
        """True if ``first`` may not follow the batches in flight."""
        if self._one_at_a_time:
            return True
        if not self._in_order:
            return False
        leader, in_flight = partition.leader, partition.in_flight
        # A broker without state of the producer accepts any first sequence number. So no batch
        # follows the first one of an epoch before that is acknowledged, or follows a batch in
        # flight to another broker.
        if leader is not None and (
            not partition.is_acknowledged or any(batch.node != leader for batch in in_flight)
        ):
            return True
        # No batch follows one that may be in the log: brokers know the last five batches of a
        # partition, and it must stay among them until its outcome is certain.
        return any(
            batch.uncertain or (first.order >= 0 and batch.order < first.order)
            for batch in in_flight
        )

    def _backlog_of(self, leader: int | None) -> Backlog:
        if leader is None:
            return self._leaderless
        backlog = self._backlogs.get(leader)
        if backlog is None:
            backlog = self._backlogs[leader] = Backlog()
        return backlog

    # --- backoffs ----------------------------------------------------------------------------

    def delay(self, partition: Partition, not_before: float, now: float) -> None:
        """Let no batch of ``partition`` leave before that time."""
        due = partition.delay(not_before)
        if due > now:
            heapq.heappush(self._delayed, (due, next(self._ticket), partition))

    def release_delayed(self, now: float) -> float | None:
        """List the partitions whose backoff is over; returns the end of the next backoff."""
        while self._delayed:
            due, _, partition = self._delayed[0]
            if due > now:
                return due
            heapq.heappop(self._delayed)
            self.enlist(partition, now)
        return None

    # --- batches leave ---------------------------------------------------------------------

    def nodes(self) -> Collection[int]:
        """The nodes with batches to send."""
        return [node for node, backlog in self._backlogs.items() if backlog.partitions]

    @property
    def has_leaderless(self) -> bool:
        """True if a batch's partition has no leader."""
        return bool(self._leaderless.partitions)

    def topics_without_leader(self) -> set[str]:
        """The topics with a batch whose partition has no leader."""
        return {partition.topic_partition.topic for partition in self._leaderless.partitions}

    def backlog(self, node: int) -> Backlog | None:
        """The batches for ``node`` that may leave; None: there never were any."""
        return self._backlogs.get(node)

    def may_wait(self, node: int, now: float, most: float) -> bool:
        """True if no batch for ``node`` is full, a retry, or older than ``most`` seconds."""
        backlog = self._backlogs[node]
        return not backlog.is_due and now - backlog.oldest < most

    def no_linger(self, partition: Partition) -> None:
        """Let the batches of ``partition`` leave without lingering, if they may leave."""
        listed = self._listed.get(partition)
        if listed is not None:
            listed.is_due = True

    def drain(self, node: int, max_size: int, now: float) -> list[ProducerBatch]:
        """Take one batch of each partition in turn, ``max_size`` bytes in all (or one batch).

        In the next turn, partitions that were left out come first, and partitions with more batches
        come last.
        """
        backlog = self._backlogs[node]
        drained: list[ProducerBatch] = []
        backlog.is_due = False
        backlog.oldest = float("inf")
        size = 0
        for _ in range(len(backlog.partitions)):
            partition = next(iter(backlog.partitions))
            first = partition.first_batch
            assert first is not None, "a listed partition has a queued batch"
            if drained and size + first.size > max_size:
                backlog.is_due = True
                break
            self._delist(partition)
            size += first.size
            drained.append(partition.take(node))
            if partition.queued:
                self.enlist(partition, now)
        return drained
