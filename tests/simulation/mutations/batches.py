"""Faults of batches: their order, their outcomes, and what is said about them."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.accumulator import ProducerBatch, batch_queue, producer_batch, results
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.results import Flushes
from aioproducer.engine.sender import completer, outcomes
from aioproducer.engine.sender.outcomes import Deliver, Fail, Retry
from aioproducer.errors import Disposition, kafka_error
from tests.simulation.mutations.patch import Mutation, Patch


def retry_at_the_tail(patch: Patch) -> None:
    """A failed batch is queued behind those that came later."""

    def mutant(_requeue: Any) -> Any:
        def requeued(self: Partition, taken: Any, batches: Any, now: float) -> None:
            self.in_flight.remove(taken)
            self.close_batch()
            self.queue.extend(batches)
            self._line_up_anew(now)

        return requeued

    patch(Partition, "requeue", mutant)


def split_out_of_order(patch: Patch) -> None:
    """The parts of a batch get their places in the wrong order."""
    patch(producer_batch, "_number", lambda number: lambda batch, parts: number(batch, parts[::-1]))


def refusal_retried(patch: Patch) -> None:
    """A batch that the broker has refused for good is sent again."""

    def mutant(decide: Any) -> Any:
        def decided(error: Any, standing: Any, result: Any = None) -> Any:
            outcome = decide(error, standing, result)
            return Retry(error) if isinstance(outcome, Fail) and standing.may_retry else outcome

        return decided

    patch(outcomes, "decide_error", mutant)


def passing_error_not_retried(patch: Patch) -> None:
    """A batch fails although its error passes."""

    def mutant(decide: Any) -> Any:
        def decided(error: Any, standing: Any, result: Any = None) -> Any:
            return decide(error, standing._replace(may_retry=False), result)

        return decided

    patch(outcomes, "decide_error", mutant)
    patch(completer, "decide_error", mutant)


def duplicate_taken_for_a_failure(patch: Patch) -> None:
    """DUPLICATE_SEQUENCE_NUMBER fails the batch that is in the log."""

    def mutant(decide: Any) -> Any:
        def decided(result: Any, where: str, standing: Any) -> Any:
            outcome = decide(result, where, standing)
            if isinstance(outcome, Deliver) and result.error_code:
                error = kafka_error(result.error_code, where)
                assert error.disposition is Disposition.DELIVERED
                return Fail(error, {})
            return outcome

        return decided

    patch(completer, "decide", mutant)


def written_batch_said_to_be_unwritten(patch: Patch) -> None:
    """A batch that expires in flight is not marked as one that may have been written."""
    patch(ProducerBatch, "may_have_been_written", lambda _: lambda batch: batch.uncertain)


def uncertainty_forgotten_by_a_retry(patch: Patch) -> None:
    """A batch counts as unwritten once it is queued again."""

    def mutant(_uncertain: Any) -> Any:
        return lambda before, error: False

    patch(completer, "still_uncertain", mutant)
    patch(outcomes, "still_uncertain", mutant)


def expiry_too_early(patch: Patch) -> None:
    """Batches expire after a tenth of delivery_timeout_ms."""

    def mutant(expired: Any) -> Any:
        def found(self: Any, now: float, most: float = float("inf")) -> Any:
            return expired(self, now + self.delivery_timeout * 0.9, most)

        return found

    patch(batch_queue.BatchQueue, "expired", mutant)


def expiry_forgotten(patch: Patch) -> None:
    """No batch expires."""
    patch(batch_queue.BatchQueue, "expired", lambda _: lambda self, now, most=0.0: [])


def offset_of_the_batch_for_all(patch: Patch) -> None:
    """The offsets of a batch's records begin one too high."""

    def mutant(complete: Any) -> Any:
        def completed(self: Any, batch: Any, base_offset: int, *more: Any) -> None:
            complete(self, batch, base_offset + (base_offset >= 0), *more)

        return completed

    patch(results.LateResults, "complete_futures", mutant)


def compressing_batch_said_to_be_written(patch: Patch) -> None:
    """A batch that waits for its compression counts as one that was sent."""

    def mutant(_may: Any) -> Any:
        def may(batch: Any) -> bool:
            return bool(batch.uncertain or batch in batch.partition.in_flight)

        return may

    patch(ProducerBatch, "may_have_been_written", mutant)


def flush_forgets_what_waited(patch: Patch) -> None:
    """flush() does not wait for records that have waited for memory."""
    patch(Flushes, "moved", lambda _: lambda self, item, to: None)


def offset_of_the_batch_in_each_slice(patch: Patch) -> None:
    """The offsets of each slice of a batch's results begin with the batch's first one."""

    def mutant(set_results: Any) -> Any:
        def some_set(self: Any, most: int) -> int:
            offset = self.base_offset
            self.base_offset -= self.first if offset >= 0 else 0
            done: int = set_results(self, most)
            self.base_offset = offset
            return done

        return some_set

    patch(results._Rest, "set_results", mutant)


def flush_forgets_slices(patch: Patch) -> None:
    """flush() does not wait for the results of a delivered batch that come in later turns."""

    def mutant(moved: Any) -> Any:
        def has_moved(self: Flushes, item: Any, to: Any) -> None:
            if not isinstance(to, results._Rest):
                moved(self, item, to)

        return has_moved

    patch(Flushes, "moved", mutant)


def all_results_at_once(patch: Patch) -> None:
    """The records of a large delivery get their results in one turn of the loop."""
    patch(results.LateResults, "_set", lambda set_: lambda self, most: set_(self, 10**9))


def doubt_before_a_barrier_not_waited_for(patch: Patch) -> None:
    """A batch that may be in the log behind a gap is not sent again with its number."""
    patch(Partition, "_after_doubts", lambda _: lambda self, barrier: barrier)


MUTATIONS: tuple[Mutation, ...] = (
    offset_of_the_batch_in_each_slice,
    flush_forgets_slices,
    all_results_at_once,
    retry_at_the_tail,
    split_out_of_order,
    refusal_retried,
    passing_error_not_retried,
    duplicate_taken_for_a_failure,
    written_batch_said_to_be_unwritten,
    uncertainty_forgotten_by_a_retry,
    expiry_too_early,
    expiry_forgotten,
    offset_of_the_batch_for_all,
    compressing_batch_said_to_be_written,
    flush_forgets_what_waited,
    doubt_before_a_barrier_not_waited_for,
)
