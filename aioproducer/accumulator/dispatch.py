"""Dispatch of batches: one backlog per node, backoffs, and the order of retries.

Source: ``ready`` and ``drain`` of Kafka's ``RecordAccumulator``. Where Kafka looks at every
partition to find out what is ready, each node here has a :class:`Backlog` that knows, so no step
costs more with more topics.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count

from aioproducer.accumulator.partition import Backlog, Partition
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.accumulator.topic import Topic, queue_for
from aioproducer.model import Place, TopicPartition
from aioproducer.records.record_batch import NO_PRODUCER_STATE


class Dispatch:
    """Tracks for each batch whether it waits, may leave, or is in flight.

    ``one_at_a_time``: at most one batch of a partition in flight. ``in_order``: retries leave in
    their first order, because they carry sequence numbers. ``admits`` returns True if batches
    may leave for a partition; :meth:`release` lists a refused partition later.
    """

    def __init__(
        self,
        topics: Mapping[str, Topic],
        *,
        one_at_a_time: bool,
        in_order: bool,
        admits: Callable[[TopicPartition], bool] | None = None,
    ) -> None:
        self._topics = topics
        self._one_at_a_time = one_at_a_time
        self._in_order = in_order
        self._admits = admits
        self._backlogs: dict[int, Backlog] = {}
        self._leaderless = Backlog()
        """Partitions without a leader: no node gets their batches."""
        self._delayed: list[tuple[float, int, Partition]] = []
        self._ticket = count()
        self._on_wire: set[ProducerBatch] = set()

    # --- what may leave --------------------------------------------------------------------

    def enlist(self, queue: Partition, now: float) -> None:
        """List ``queue`` in its leader's backlog if its first batch may leave."""
        if queue.backlog is not None or not queue.batches:
            if queue.backlog is not None and len(queue.batches) > 1:
                queue.backlog.full = True
            return
        if queue.delayed_until > now:
            return
        if queue.barrier is not None and not _before(queue.batches[0], queue.barrier):
            return
        if queue.on_wire and self._must_wait(queue):
            return
        if self._admits is not None and not self._admits(queue.topic_partition):
            return
        self._backlog_of(queue.leader).add(queue)

    def _backlog_of(self, leader: int | None) -> Backlog:
        if leader is None:
            return self._leaderless
        backlog = self._backlogs.get(leader)
        if backlog is None:
            backlog = self._backlogs[leader] = Backlog()
        return backlog

    def _must_wait(self, queue: Partition) -> bool:
        head = queue.batches[0]
        if self._one_at_a_time:
            return True
        if not self._in_order:
            return False
        # A broker without state of the producer takes any first sequence number. So nothing
        # follows the first batch of an epoch before it is acknowledged, nor one that is still
        # on its way to another broker.
        if queue.leader is not None and (
            not queue.acknowledged or any(batch.node != queue.leader for batch in queue.on_wire)
        ):
            return True
        # Nothing follows a batch that may be there already: brokers know the last five of a
        # partition, and it must stay among them until its fate is sure.
        return any(
            batch.uncertain or (head.order >= 0 and batch.order < head.order)
            for batch in queue.on_wire
        )

    def redirect(self, queue: Partition, now: float) -> None:
        """``queue`` has another leader: its waiting batches leave for that one, at once."""
        _delist(queue)
        if queue.leader is not None:
            queue.delayed_until = now
        self.enlist(queue, now)

    def release_delayed(self, now: float) -> float | None:
        """List the partitions whose backoff is over; returns the end of the next backoff."""
        while self._delayed:
            due, _, queue = self._delayed[0]
            if due > now:
                return due
            heapq.heappop(self._delayed)
            self.enlist(queue, now)
        return None

    def release(self, places: Iterable[TopicPartition], now: float) -> None:
        """List the partitions at ``places``: their batches may leave now."""
        for place in places:
            queue = self._queue_at(place)
            if queue is not None:
                self.enlist(queue, now)

    def forget_acknowledged(self) -> None:
        """No broker knows the producer any more: it has another id."""
        for queues in self._topics.values():
            for queue in (*queues.partitions, *queues.retired.values()):
                queue.acknowledged = False

    def nodes(self) -> Collection[int]:
        """The nodes for which batches wait."""
        return [node for node, backlog in self._backlogs.items() if backlog.partitions]

    def topics_without_leader(self) -> set[str]:
        """The topics with a batch whose partition has no leader."""
        return {queue.topic_partition.topic for queue in self._leaderless.partitions}

    def leader_of(self, batch: ProducerBatch) -> int | None:
        """The node that leads the batch's partition; None: no node does."""
        return queue_for(batch, self._topics).leader

    # --- what leaves -----------------------------------------------------------------------

    def ready(self, node: int, now: float, linger: float) -> float | None:
        """The time from which batches for ``node`` may leave, ``now`` or later; None: no batch.

        ``linger``: the seconds that a batch which is not full waits for more records.
        """
        backlog = self._backlogs.get(node)
        if backlog is None or not backlog.partitions:
            return None
        if backlog.full or not linger:
            return now
        return max(now, backlog.oldest + linger)

    def drain(self, node: int, max_size: int, now: float) -> list[ProducerBatch]:
        """Take one batch of each partition in turn, ``max_size`` bytes in all (or one batch).

        The partitions that were left out, or have more batches, are the first and the last of the
        next turn.
        """
        backlog = self._backlogs[node]
        drained: list[ProducerBatch] = []
        backlog.full = False
        backlog.oldest = float("inf")
        size = 0
        for _ in range(len(backlog.partitions)):
            queue = next(iter(backlog.partitions))
            batch = queue.batches[0]
            if drained and size + batch.size > max_size:
                backlog.full = True
                break
            backlog.pop()
            queue.batches.popleft()
            if queue.open is batch:
                queue.close_batch()
            if batch.order < 0:
                batch.order = queue.next_order
                queue.next_order += 1
            queue.on_wire.append(batch)
            self._on_wire.add(batch)
            batch.node = node
            size += batch.size
            drained.append(batch)
            self.enlist(queue, now)
        return drained

    # --- what is on its way ----------------------------------------------------------------

    def is_first_in_line(self, batch: ProducerBatch) -> bool:
        """True if no earlier batch of its partition still waits for its outcome."""
        queue = queue_for(batch, self._topics)
        earlier = [*queue.on_wire, *queue.batches] if queue.batches else queue.on_wire
        return not any(0 <= other.order < batch.order for other in earlier)

    def is_on_wire(self, batch: ProducerBatch) -> bool:
        """True if ``batch`` was drained, has no outcome and was not put back."""
        return batch in self._on_wire

    # --- what comes back -------------------------------------------------------------------

    def retry(self, batch: ProducerBatch, not_before: float, now: float) -> None:
        """Queue a batch again after a failed attempt, to leave no earlier than ``not_before``."""
        batch.attempts += 1
        self.put_back(batch, not_before, now)

    def put_back(self, batch: ProducerBatch, not_before: float, now: float) -> None:
        """Queue a drained batch again in its place."""
        queue = queue_for(batch, self._topics)
        queue.delayed_until = max(queue.delayed_until, not_before)
        if queue.delayed_until > now:
            heapq.heappush(self._delayed, (queue.delayed_until, next(self._ticket), queue))
        self.replace(batch, [batch], now)

    def replace(self, drained: ProducerBatch, batches: Sequence[ProducerBatch], now: float) -> None:
        """Queue ``batches`` in the place of a drained one."""
        queue = queue_for(drained, self._topics)
        queue.on_wire.remove(drained)
        self._on_wire.remove(drained)
        _delist(queue)
        for batch in batches:
            queue.put_back(batch)
        self.enlist(queue, now)

    def complete(self, queue: Partition, batch: ProducerBatch, now: float) -> None:
        """``batch`` of ``queue`` has its outcome; batches that waited for it may leave."""
        if batch.delivered:
            queue.acknowledged = True
        if batch in self._on_wire:
            self._on_wire.remove(batch)
            queue.on_wire.remove(batch)
        elif batch in queue.batches:
            _delist(queue)
            queue.batches.remove(batch)
            if queue.open is batch:
                queue.close_batch()
        self.enlist(queue, now)

    # --- behind a batch that failed for good -----------------------------------------------

    def hold_back(self, place: TopicPartition, barrier: Place | None, now: float) -> bool:
        """Let only batches leave that are numbered before ``barrier``; True if there are none."""
        queue = self._queue_at(place)
        if queue is None:
            return barrier is not None
        queue.barrier = barrier
        _delist(queue)
        self.enlist(queue, now)
        if barrier is None or queue.on_wire:
            return False
        # Those with a number are the first, in their order.
        return not (queue.batches and _before(queue.batches[0], barrier))

    def number_anew(self, place: TopicPartition, now: float) -> None:
        """Let the queued batches get numbers of a new epoch; none of them is in the log."""
        queue = self._queue_at(place)
        if queue is None:
            return
        for batch in queue.batches:
            if batch.order < 0:
                break
            batch.state = NO_PRODUCER_STATE
            batch.uncertain = False
        queue.acknowledged = False
        queue.barrier = None
        _delist(queue)
        self.enlist(queue, now)

    def _queue_at(self, place: TopicPartition) -> Partition | None:
        """The queue of a partition; None: the topic no longer has it, or is not known any more."""
        queues = self._topics.get(place.topic)
        return None if queues is None else queues.find(place.partition)


def _before(batch: ProducerBatch, barrier: Place) -> bool:
    """True if ``batch`` has a sequence number, and a place before ``barrier``."""
    return batch.state is not NO_PRODUCER_STATE and batch.order < barrier


def _delist(queue: Partition) -> None:
    if queue.backlog is not None:
        queue.backlog.discard(queue)
