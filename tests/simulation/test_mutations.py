"""The simulation finds the faults that are put into the engine, and none without them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.simulation.drawing import make_plan
from tests.simulation.mutations import MUTATIONS, mutated
from tests.simulation.search import first_finding
from tests.simulation.seeds import new_seeds
from tests.simulation.shrinking import kinds, violations

FOUND_BY: Final[dict[str, tuple[int, str]]] = {
    "abort_commits": (6, "transactions_are_atomic"),
    "aborted_records_read": (6, "the_reader_returns_the_log"),
    "acks_of_the_leader_alone": (401, "nothing_lost"),
    "close_waits_for_its_own_hook": (59, "calls_end"),
    "commit_before_flush": (12, "transactions_are_atomic"),
    "commit_not_awaited": (173, "transactions_are_atomic"),
    "compressing_batch_said_to_be_written": (75, "nothing_untruthful"),
    "doubt_taken_for_a_gap": (17, "nothing_untruthful"),
    "duplicate_taken_for_a_failure": (42, "errors_of_the_right_class"),
    "epoch_bump_forgotten": (647, "it_goes_on"),
    "expiry_forgotten": (34, "failures_come_in_time"),
    "expiry_too_early": (31, "healthy_records_do_not_fail"),
    "failed_record_committed": (33, "transactions_are_atomic"),
    "failed_record_not_kept": (17, "failed_records_are_kept"),
    "fenced_producer_goes_on": (314, "the_fenced_write_no_more"),
    "flush_forgets_what_waited": (0, "no_future_without_end"),
    "flush_waits_for_its_own_hook": (14, "calls_end"),
    "gap_renumbers_what_may_be_written": (1298, "nothing_twice"),
    "idle_connection_used": (156, "healthy_records_do_not_fail"),
    "in_flight_not_limited": (3, "few_requests_are_in_flight"),
    "judged_before_reading": (29, "healthy_records_do_not_fail"),
    "lost_number_forgotten": (647, "it_goes_on"),
    "memory_not_returned": (0, "memory_returns"),
    "no_reset_after_fencing": (6, "it_goes_on"),
    "nothing_read_from_beyond_the_end": (19, "the_reader_returns_the_log"),
    "numbers_go_on_in_a_new_epoch": (8, "it_goes_on"),
    "numbers_of_a_late_batch_used_again": (81, "nothing_lost"),
    "offset_of_the_batch_for_all": (0, "nothing_lost"),
    "offsets_outside_of_the_transaction": (1, "offsets_move_with_transactions"),
    "partition_not_added": (2, "it_goes_on"),
    "passing_error_not_retried": (0, "errors_of_the_right_class"),
    "record_read_twice": (0, "calls_end"),
    "refusal_retried": (171, "refused_records_fail"),
    "requests_forgotten_with_their_connection": (46, "it_goes_on"),
    "retry_at_the_tail": (486, "nothing_out_of_order"),
    "retry_numbered_anew": (11, "numbers_fit"),
    "sequence_counts_batches": (6, "numbers_fit"),
    "sequence_not_advanced": (0, "nothing_lost"),
    "sequence_reused_after_a_failed_batch": (8, "it_goes_on"),
    "silent_broker_waited_for": (369, "healthy_records_do_not_fail"),
    "split_out_of_order": (189, "nothing_out_of_order"),
    "stops_count": (29, "healthy_records_do_not_fail"),
    "uncertainty_forgotten_by_a_retry": (17, "nothing_untruthful"),
    "written_batch_said_to_be_unwritten": (378, "nothing_untruthful"),
}
"""The first seed whose life finds each mutation, and a promise that is broken there."""
MOST_LIVES: Final = 2_000


def test_each_mutation_has_a_life_that_finds_it() -> None:
    assert sorted(FOUND_BY) == sorted(MUTATIONS)


@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_a_known_life_finds_the_mutation_alone(mutation: str) -> None:
    seed, promise = FOUND_BY[mutation]
    plan = make_plan(seed)
    with mutated(mutation):
        assert promise in kinds(violations(plan))
    assert violations(plan) == []


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_new_lives_find_the_mutation(mutation: str) -> None:
    seeds = new_seeds(MOST_LIVES)
    found = first_finding(mutation, seeds)
    assert found is not None, f"no life of the seeds {seeds.start}-{seeds.stop} finds {mutation}"
