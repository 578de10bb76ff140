"""Faults of sequence numbers and epochs."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.records.builder import NO_PRODUCER_STATE
from aioproducer.engine.sender import outcomes
from aioproducer.engine.sender.batch_sender import BatchSender
from aioproducer.engine.sender.gaps import Gaps
from aioproducer.engine.transactions.sequence_numbers import (
    ProducerIdState,
    SequenceNumbers,
    _Numbers,
)
from tests.simulation.mutations.patch import Mutation, Patch


def sequence_not_advanced(patch: Patch) -> None:
    """The next batch gets the number of the one before."""

    def mutant(stamp: Any) -> Any:
        def stamped(self: SequenceNumbers, partition: Any, count: int) -> Any:
            state = stamp(self, partition, count)
            if self.state is not ProducerIdState.UNUSED:
                self._numbers[partition].sequence = state.base_sequence
            return state

        return stamped

    patch(SequenceNumbers, "stamp", mutant)


def sequence_counts_batches(patch: Patch) -> None:
    """The number grows by one for a batch, not for a record."""

    def mutant(stamp: Any) -> Any:
        return lambda self, partition, _count: stamp(self, partition, 1)

    patch(SequenceNumbers, "stamp", mutant)


def sequence_reused_after_a_failed_batch(patch: Patch) -> None:
    """After a gap the numbers begin at 0 in the old epoch."""

    def mutant(_renew: Any) -> Any:
        def renewed(self: SequenceNumbers, partition: Any) -> None:
            before = self._numbers.pop(partition)
            self._numbers[partition] = _Numbers(before.producer_id, before.epoch)

        return renewed

    patch(SequenceNumbers, "renew", mutant)


def numbers_go_on_in_a_new_epoch(patch: Patch) -> None:
    """After a gap the epoch grows, and the numbers do not begin at 0."""

    def mutant(renew: Any) -> Any:
        def renewed(self: SequenceNumbers, partition: Any) -> None:
            before = self._numbers[partition].sequence
            renew(self, partition)
            if partition in self._numbers:
                self._numbers[partition].sequence = before

        return renewed

    patch(SequenceNumbers, "renew", mutant)


def numbers_of_a_late_batch_used_again(patch: Patch) -> None:
    """The batch after one that expired in flight gets its numbers, in the same epoch."""

    def mutant(left_by: Any) -> Any:
        def left(self: Gaps, batch: Any, *, uncertain: bool) -> None:
            numbers = self._sequence_numbers._numbers.get(batch.topic_partition)
            if uncertain and numbers is not None and self._transactions is None:
                numbers.sequence = batch.state.base_sequence
            else:
                left_by(self, batch, uncertain=uncertain)

        return left

    patch(Gaps, "left_by", mutant)


def epoch_bump_forgotten(patch: Patch) -> None:
    """A failed batch leaves no gap: its successors go on with their numbers."""
    patch(Gaps, "left_by", lambda _: lambda self, batch, uncertain: None)


def doubt_taken_for_a_gap(patch: Patch) -> None:
    """After a batch that may have been written, later ones get new numbers, written or not."""

    def certain(renumber: Any) -> Any:
        def renumbered(self: Partition, now: float) -> None:
            for batch in self.queue:
                batch.uncertain = False
            renumber(self, now)

        return renumbered

    patch(Gaps, "_doubt", lambda _: Gaps.note_missing)
    patch(Partition, "_after_doubts", lambda _: lambda _, barrier: barrier)
    patch(Partition, "renumber", certain)


def retry_numbered_anew(patch: Patch) -> None:
    """A batch gets a new number for each attempt."""

    def mutant(number: Any) -> Any:
        def numbered(self: BatchSender, batches: Any, now: float) -> None:
            for batch in batches:
                batch.state = NO_PRODUCER_STATE
            number(self, batches, now)

        return numbered

    patch(BatchSender, "_number", mutant)


def no_reset_after_fencing(patch: Patch) -> None:
    """A new epoch of a transactional producer goes on with the numbers of the old one."""

    def mutant(_begin: Any) -> Any:
        def begun(self: SequenceNumbers, producer_id: int, epoch: int) -> None:
            self.assigned(producer_id, epoch)
            for numbers in self._numbers.values():
                numbers.producer_id, numbers.epoch = producer_id, epoch

        return begun

    patch(SequenceNumbers, "begin_epoch", mutant)


def gap_renumbers_what_may_be_written(patch: Patch) -> None:
    """A batch whose number does not fit gets a new one, although it may be in the log."""

    def mutant(_decide: Any) -> Any:
        def decided(error: Any, standing: Any, result: Any = None) -> Any:
            return _decide(error, standing._replace(uncertain=False, first_in_line=True), result)

        return decided

    def certain(lose_number: Any) -> Any:
        def lost(self: Gaps, batch: Any) -> None:
            lose_number(self, batch)
            batch.uncertain = False

        return lost

    patch(outcomes, "decide_error", mutant)
    patch(Gaps, "lose_number", certain)


MUTATIONS: tuple[Mutation, ...] = (
    sequence_not_advanced,
    sequence_counts_batches,
    sequence_reused_after_a_failed_batch,
    numbers_go_on_in_a_new_epoch,
    numbers_of_a_late_batch_used_again,
    epoch_bump_forgotten,
    doubt_taken_for_a_gap,
    retry_numbered_anew,
    no_reset_after_fencing,
    gap_renumbers_what_may_be_written,
)
