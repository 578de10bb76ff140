"""A partition: its leader with epoch, its replicas, and the log that they share.

Sources: Kafka's ``Partition``, ``ReplicaManager`` and ``ReplicationControlManager``.

A follower holds a beginning of the leader's log, so one log and the end offset of each replica
tell all logs. If a replica that lacks records becomes the leader, the log is cut to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.batch import NO_TIMESTAMP, Batch
from aioproducer.testing.simulation.kafka.log import PartitionLog
from aioproducer.testing.simulation.kafka.producer_state import ProducerStates, Verification

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
