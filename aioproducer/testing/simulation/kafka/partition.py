"""A partition: its leader with epoch, its replicas, and the log that they share.

Sources: Kafka's ``Partition``, ``ReplicaManager``, ``ReplicationControlManager``, ``UnifiedLog``
and ``LeaderEpochFileCache``.

The log has batches by offset, and the epochs of the leaders that wrote them. A follower holds a
beginning of the leader's log, so one log and the end offset of each replica tell all logs. If a
replica that lacks records becomes the leader, the log is cut to its end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.batch import NO_TIMESTAMP, Batch, StoredRecord
from aioproducer.testing.simulation.kafka.producer_state import ProducerStates, Verification

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record; ``UNDEFINED_…``: the log can't tell."""

    epoch: int = UNDEFINED_EPOCH
    offset: int = UNDEFINED_OFFSET


class TimestampAndOffset(NamedTuple):
    """A record, as ListOffsets names it."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class PartitionLog:
    """Batches one after another; :attr:`start_offset` moves on when records are deleted."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.end_offset = 0
        """The offset of the next record."""
        self._epochs: list[tuple[int, int]] = []
        """Epochs and their first offsets, both growing."""

    # --- writing ---------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Take a batch that has its offset and epoch."""
        self.batches.append(batch)
        self.end_offset = batch.next_offset

    def begin_epoch(self, epoch: int) -> None:
        """A leader with ``epoch`` writes from here on. Source: ``LeaderEpochFileCache.assign``."""
        while self._epochs and self._epochs[-1][1] >= self.end_offset:
            self._epochs.pop()
        self._epochs.append((epoch, self.end_offset))

    def truncate(self, offset: int) -> None:
        """Drop the batches that hold ``offset`` or later ones: no log has a part of a batch."""
        while self.batches and self.batches[-1].next_offset > offset:
            self.end_offset = self.batches.pop().base_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        while self._epochs and self._epochs[-1][1] >= self.end_offset:
            self._epochs.pop()

    def delete_before(self, offset: int) -> None:
        """Records before ``offset`` are gone. Source: ``maybeIncrementLogStartOffset``."""
        self.start_offset = max(self.start_offset, offset)
        while self.batches and self.batches[0].next_offset <= self.start_offset:
            self.batches.pop(0)
        before = [each for each in self._epochs if each[1] <= self.start_offset]
        if before:
            later = self._epochs[len(before) :]
            self._epochs = [(before[-1][0], self.start_offset), *later]

    # --- reading ---------------------------------------------------------------------------

    def batches_from(self, offset: int, before: int) -> Iterator[Batch]:
        """The batches that hold ``offset`` or later ones, and nothing from ``before`` on."""
        first = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        for place in range(first, len(self.batches)):
            batch = self.batches[place]
            if batch.next_offset > before:
                return
            yield batch

    def records(self) -> list[StoredRecord]:
        """The records, without markers, each with the end of its transaction."""
        ended: dict[int, bool] = {}
        known: list[tuple[Batch, bool | None]] = []
        for batch in reversed(self.batches):
            if batch.control:
                ended[batch.producer_id] = batch.commits
            else:
                known.append((batch, ended.get(batch.producer_id) if batch.transactional else True))
        return [
            record
            for batch, visible in reversed(known)
            for record in batch.records(visible)
            if record.offset >= self.start_offset
        ]

    # --- epochs and timestamps -------------------------------------------------------------

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Source: ``LeaderEpochFileCache.endOffsetFor``."""
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return EpochEnd()
        if epoch == self._epochs[-1][0]:
            return EpochEnd(epoch, self.end_offset)
        place = bisect_right(self._epochs, epoch, key=lambda each: each[0])
        if place == len(self._epochs):
            return EpochEnd()
        floor = epoch if place == 0 else self._epochs[place - 1][0]
        return EpochEnd(floor, self._epochs[place][1])

    def epoch_at(self, offset: int) -> int:
        """The epoch of the leader that wrote ``offset``."""
        place = bisect_right(self._epochs, offset, key=lambda each: each[1])
        return self._epochs[place - 1][0] if place else UNDEFINED_EPOCH

    def first_since(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record with such a timestamp or a later one."""
        for batch in self.batches:
            if batch.max_timestamp_ms >= timestamp_ms:
                for offset, found in _timestamps(batch):
                    if found >= timestamp_ms and offset >= self.start_offset:
                        return TimestampAndOffset(found, offset, batch.leader_epoch)
        return None

    def with_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record that has the greatest timestamp of all."""
        if not self.batches:
            return None
        newest = max(self.batches, key=lambda batch: batch.max_timestamp_ms)
        for offset, found in _timestamps(newest):
            if found == newest.max_timestamp_ms:
                return TimestampAndOffset(found, offset, newest.leader_epoch)
        return None


def _timestamps(batch: Batch) -> Sequence[tuple[int, int]]:
    """Offsets and timestamps of the records, a marker included."""
    if batch.control:
        return [(batch.base_offset, batch.max_timestamp_ms)]
    return [(record.offset, record.timestamp_ms) for record in batch.records(None)]


NO_LEADER: Final = -1


class Appended(NamedTuple):
    """The outcome of a batch."""

    code: ErrorCode
    base_offset: int = -1
    required_offset: int = 0
    """The high watermark at which all replicas have the batch."""
    log_append_time_ms: int = NO_TIMESTAMP
    repeated: bool = False
    """True: the log had it already."""


class Leadership(NamedTuple):
    """A leader, as metadata shows it."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]


class Partition:
    """One partition, with its first ``isr``.

    ``config`` is the topic's, read at each use, since it may be altered.
    """

    def __init__(
        self,
        where: TopicPartition,
        replicas: Collection[int],
        isr: Collection[int],
        config: Mapping[str, str],
    ) -> None:
        self.where = where
        self.config = config
        self.replicas = tuple(replicas)
        self.isr = set(isr)
        self.leader = next(each for each in self.replicas if each in self.isr)
        self.leader_epoch = 0
        self.log = PartitionLog()
        self.producers = ProducerStates()
        self.high_watermark = 0
        self.end_offsets = dict.fromkeys(replicas, 0)
        self.epoch_start = 0
        """The end of the log when the present leader was elected."""
        self._shown_before: dict[int, tuple[float, Leadership]] = {}
        """The leader that brokers report until they learn of the present one, by broker."""
        self.stalled_until: dict[int, float] = {}
        """The followers that fetch nothing before a time."""
        self.loaded_at = 0.0
        """The time from which the leader can coordinate what the partition is about."""
        self.log.begin_epoch(0)

    @property
    def min_isr(self) -> int:
        """Source: ``Partition.effectiveMinIsr``."""
        return min(int(self.config["min.insync.replicas"]), len(self.replicas))

    @property
    def state(self) -> tuple[int, ...]:
        """Numbers that change with everything that a fetch can find."""
        log = self.log
        return self.high_watermark, log.end_offset, log.start_offset, self.leader_epoch

    @property
    def last_stable_offset(self) -> int:
        """The end of what ``read_committed`` may see. Source: ``UnifiedLog.lastStableOffset``."""
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # --- the leader's work -----------------------------------------------------------------

    def lacks_replicas(self, acks: int) -> bool:
        """True if a write with these ``acks`` is refused for want of replicas in sync."""
        return acks == -1 and len(self.isr) < self.min_isr

    def append(self, batch: Batch, verified: Verification | None, now_ms: int) -> Appended:
        """Append what a client sent. Source: ``Partition.appendRecordsToLeader``."""
        log_append_time = None
        if self.config["message.timestamp.type"] == "LogAppendTime":
            log_append_time = now_ms
        placed = batch.at(self.log.end_offset, self.leader_epoch, log_append_time)
        shown_time = NO_TIMESTAMP if log_append_time is None else log_append_time
        if batch.has_producer:
            if (known := self.producers.duplicate_of(placed)) is not None:
                place = known.first_offset, known.last_offset + 1, known.timestamp_ms
                return Appended(ErrorCode.NONE, *place, repeated=True)
            if code := self.producers.refuses(placed, verified):
                return Appended(code)
            self.producers.append(placed)
        self._write(placed)
        return Appended(ErrorCode.NONE, placed.base_offset, placed.next_offset, shown_time)

    def append_of_coordinator(self, batch: Batch) -> None:
        """Append what the coordinator has checked."""
        placed = batch.at(self.log.end_offset, self.leader_epoch, None)
        self.producers.append(placed)
        self._write(placed)

    def append_marker(self, marker: Batch, *, commit: bool, coordinator_epoch: int) -> None:
        """Append the end of a transaction, which ``producers.refuses_marker`` allows."""
        placed = marker.at(self.log.end_offset, self.leader_epoch, None)
        self.producers.end_transaction(placed, commit=commit, coordinator_epoch=coordinator_epoch)
        self._write(placed)

    def _write(self, batch: Batch) -> None:
        self.log.append(batch)
        self.end_offsets[self.leader] = self.log.end_offset
        self.advance_high_watermark()

    def replicated(self, follower: int, offset: int) -> None:
        """A follower has the log up to ``offset``; one that has all of it joins the ISR."""
        self.end_offsets[follower] = max(self.end_offsets[follower], offset)
        if self.end_offsets[follower] >= max(self.high_watermark, self.epoch_start):
            self.isr.add(follower)
        self.advance_high_watermark()

    def advance_high_watermark(self) -> bool:
        """Source: ``Partition.maybeIncrementLeaderHW``."""
        if self.leader == NO_LEADER:
            return False
        reached = min(self.end_offsets[each] for each in self.isr)
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    def reached(self, broker: int, leader_epoch: int, required_offset: int) -> ErrorCode | None:
        """Whether all replicas have what a produce request wrote; None: not yet.

        Sources: ``Partition.checkEnoughReplicasReachOffset`` and ``DelayedProduce``.
        """
        if self.leader != broker or self.leader_epoch != leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < required_offset:
            return None
        if len(self.isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # --- leaders and replicas --------------------------------------------------------------

    @property
    def leadership(self) -> Leadership:
        """The present leader."""
        return Leadership(self.leader, self.leader_epoch, frozenset(self.isr))

    def shown_by(self, broker: int, now: float) -> Leadership:
        """The leader that ``broker`` reports to clients."""
        until, earlier = self._shown_before.get(broker, (now, self.leadership))
        return earlier if now < until else self.leadership

    def learned_later(self, broker: int, time: float, shown: Leadership) -> None:
        """Let ``broker`` show ``shown`` up to ``time``."""
        self._shown_before[broker] = time, shown

    def coordinates(self, broker: int, now: float) -> ErrorCode:
        """Why ``broker`` does not coordinate by this partition; ``none``: it does."""
        if self.leader != broker:
            return ErrorCode.NOT_COORDINATOR
        if now < self.loaded_at:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Source: ``Partition.checkCurrentLeaderEpoch``."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def elect(self, leader: int) -> None:
        """Let ``leader`` lead: one of the replicas, or ``NO_LEADER``."""
        self.leader = leader
        self.leader_epoch += 1
        if leader == NO_LEADER:
            return
        if leader not in self.isr:
            self.isr = {leader}  # an unclean election
        self.truncate(self.end_offsets[leader])
        self.log.begin_epoch(self.leader_epoch)
        self.epoch_start = self.log.end_offset
        self.advance_high_watermark()

    def truncate(self, offset: int) -> None:
        """Cut the log, as all replicas but the new leader must."""
        if offset < self.log.end_offset:
            self.log.truncate(offset)
            self.producers = ProducerStates.from_log(self.log.batches)
        offset = self.log.end_offset
        for replica, end in self.end_offsets.items():
            self.end_offsets[replica] = min(end, offset)
        self.high_watermark = min(self.high_watermark, offset)

    def lose(self, offset: int) -> None:
        """Lose the records from ``offset`` on, as after an unclean election."""
        for replica, end in self.end_offsets.items():
            self.end_offsets[replica] = min(end, offset)
        self.elect(self.leader)

    def forget_memory(self) -> None:
        """The leader has restarted, and only knows a snapshot of its producers."""
        self.producers = ProducerStates.from_log(self.log.batches)
        self.producers.keep_last_batches()

    def shrink_isr(self, broker: int) -> None:
        """Take a replica out; the last one stays in. Source: ``Partition.maybeShrinkIsr``."""
        if self.isr != {broker}:
            self.isr.discard(broker)
            self.advance_high_watermark()

    def delete_records(self, offset: int) -> None:
        """Move the start of the log. Source: ``Partition.deleteRecordsOnLeader``."""
        self.log.delete_before(offset)
