"""The simulation finds the faults that are put into the engine, and none without them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.simulation.drawing import make_plan
from tests.simulation.mutations import MUTATIONS, mutated
from tests.simulation.search import first_finding, new_seeds, violations

FOUND_BY: Final = {
    "abort_commits": 6,
    "aborted_records_read": 6,
    "acks_of_the_leader_alone": 188,
    "all_results_at_once": 2613,
    "close_waits_for_its_own_hook": 59,
    "commit_before_flush": 12,
    "commit_not_awaited": 173,
    "compressing_batch_said_to_be_written": 75,
    "doubt_before_a_barrier_not_waited_for": 2406,
    "doubt_taken_for_a_gap": 17,
    "drip_extends_every_api": 2328,
    "duplicate_taken_for_a_failure": 42,
    "epoch_bump_forgotten": 647,
    "expiry_forgotten": 34,
    "expiry_too_early": 31,
    "failed_record_committed": 33,
    "failed_record_not_kept": 17,
    "fenced_producer_goes_on": 314,
    "flush_forgets_slices": 2564,
    "flush_forgets_what_waited": 0,
    "flush_waits_for_its_own_hook": 14,
    "gap_renumbers_what_may_be_written": 1298,
    "idle_connection_used": 1146,
    "in_flight_not_limited": 3,
    "judged_before_reading": 29,
    "lost_number_forgotten": 647,
    "memory_not_returned": 0,
    "missing_descriptor_fatal": 2446,
    "no_reset_after_fencing": 6,
    "nothing_read_from_beyond_the_end": 19,
    "numbers_go_on_in_a_new_epoch": 8,
    "numbers_of_a_late_batch_used_again": 81,
    "offset_of_the_batch_for_all": 0,
    "offset_of_the_batch_in_each_slice": 2414,
    "offsets_not_waited_for": 2496,
    "offsets_outside_of_the_transaction": 1,
    "partition_added_in_a_later_round": 4790,
    "partition_not_added": 2,
    "passing_error_not_retried": 0,
    "record_read_twice": 0,
    "refusal_retried": 171,
    "replaced_cluster_refused": 2075,
    "requests_forgotten_with_their_connection": 46,
    "requests_written_whole": 2439,
    "retry_at_the_tail": 486,
    "retry_numbered_anew": 26,
    "sequence_counts_batches": 11,
    "sequence_not_advanced": 0,
    "sequence_reused_after_a_failed_batch": 8,
    "silent_broker_waited_for": 235,
    "split_out_of_order": 1286,
    "stops_count": 29,
    "tasks_end_with_the_loop": 2017,
    "trace_ends_twice": 2400,
    "uncertainty_forgotten_by_a_retry": 17,
    "value_copied_late": 2008,
    "value_serialized_late": 2002,
    "written_batch_said_to_be_unwritten": 466,
}
"""A seed whose life finds each mutation; ``python -m tests.simulation --find`` finds new ones.

A change of the engine, or of what plans are drawn, may take the fault out of a life.
"""
MOST_LIVES: Final = 2_000


pytestmark = pytest.mark.source_form


def test_each_mutation_has_a_life_that_finds_it() -> None:
    assert sorted(FOUND_BY) == sorted(MUTATIONS)


@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_a_known_life_finds_the_mutation_alone(mutation: str) -> None:
    plan = make_plan(FOUND_BY[mutation])
    with mutated(mutation):
        assert violations(plan)
    assert violations(plan) == []


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_new_lives_find_the_mutation(mutation: str) -> None:
    seeds = new_seeds(MOST_LIVES)
    found = first_finding(mutation, seeds)
    assert found is not None, f"no life of the seeds {seeds.start}-{seeds.stop} finds {mutation}"
