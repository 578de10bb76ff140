"""The table of states, and that the manager goes no other way."""

from __future__ import annotations

from itertools import product

import pytest

from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.engine.transactions.transaction import TRANSITIONS, TransactionState, diagram

S = TransactionState
STEPS = list(product(S, S))


def in_state(state: TransactionState) -> TransactionManager:
    identity = SequenceNumbers(idempotent=True, transactional=True)
    manager = TransactionManager("payments", identity)
    manager.state = state
    return manager


def reachable(source: TransactionState) -> set[TransactionState]:
    found: set[TransactionState] = set()
    ahead = [source]
    while ahead:
        news = set(TRANSITIONS[ahead.pop()]) - found
        found |= news
        ahead += news
    return found


def test_every_state_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(S)
    assert reachable(S.UNINITIALIZED) == set(S) - {S.UNINITIALIZED}


@pytest.mark.parametrize(
    ("source", "target"), STEPS, ids=[f"{one.name}-{two.name}" for one, two in STEPS]
)
def test_the_manager_goes_the_ways_of_the_table_and_no_others(
    source: TransactionState, target: TransactionState
) -> None:
    manager = in_state(source)
    if target in TRANSITIONS[source]:
        manager._go(target)
        assert (manager.state, manager.state_changes) == (target, 1)
    else:
        with pytest.raises(AssertionError, match="->"):
            manager._go(target)
        assert (manager.state, manager.state_changes) == (source, 0)


def test_a_fatal_error_can_come_wherever_there_is_a_producer_id_and_is_the_end() -> None:
    direct = {state for state, targets in TRANSITIONS.items() if S.FATAL_ERROR in targets}
    assert direct == set(S) - {S.UNINITIALIZED, S.FATAL_ERROR}
    assert not TRANSITIONS[S.FATAL_ERROR]
    assert all(S.FATAL_ERROR in reachable(state) for state in set(S) - {S.FATAL_ERROR})


def test_a_commit_can_t_be_taken_back() -> None:
    assert S.ABORTING not in TRANSITIONS[S.COMMITTING]


def test_the_way_back_from_an_abortable_error_is_the_abort() -> None:
    assert set(TRANSITIONS[S.ABORTABLE_ERROR]) == {S.ABORTING, S.FATAL_ERROR}


def test_the_diagram_has_each_transition_with_its_reason() -> None:
    head, start, *arrows = diagram().splitlines()
    assert (head, start) == ("stateDiagram-v2", "    [*] --> UNINITIALIZED")
    assert arrows == [
        f"    {source.name} --> {target.name}: {why}"
        for source, targets in TRANSITIONS.items()
        for target, why in targets.items()
    ]
    assert "    READY --> IN_TRANSACTION: begin_transaction()" in arrows
    assert all(
        why and ":" not in why for targets in TRANSITIONS.values() for why in targets.values()
    )
