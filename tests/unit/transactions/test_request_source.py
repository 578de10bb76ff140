"""The exchange with coordinators that move, load or do not respond."""

from __future__ import annotations

import pytest

from aioproducer.engine.transactions.requests import (
    Coordinator,
    CoordinatorType,
    FindCoordinator,
    Reaction,
)
from aioproducer.engine.transactions.transaction import TransactionState
from tests.unit.transactions.world import (
    COMMIT,
    CONCURRENT,
    LOADING,
    LOST,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    ONE,
    OTHER,
    VERSIONS,
    TransactionWorld,
    opened,
)

S = TransactionState
TRANSACTIONS = FindCoordinator(Coordinator(CoordinatorType.TRANSACTION, "payments"))
OF_READERS = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))


# --- coordinators move -----------------------------------------------------------------------
@pytest.mark.parametrize("code", [NOT_COORDINATOR, NOT_AVAILABLE])
def test_a_coordinator_that_is_none_any_more_is_looked_for(code: int) -> None:
    world = opened()
    world.write(ONE)
    ending = world.manager.commit()
    request = world.ask()
    assert world.answer(request, code) is Reaction.FIND_COORDINATOR
    assert world.exchange(node=OTHER) == TRANSACTIONS
    assert world.next() == request
    assert world.manager.node_for(request) == OTHER
    world.run()
    assert ending.done


def test_a_coordinator_that_does_not_answer_is_looked_for_and_asked_the_same() -> None:
    world = opened(2)
    world.offsets()
    world.exchange()
    request = world.ask()
    world.manager.unreachable(request, LOST)
    assert world.exchange(node=OTHER) == OF_READERS
    assert world.ask() is request
    world.answer(request)
    world.manager.commit()
    assert world.ask() == COMMIT, "the other coordinator is known still"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("lost", ["AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"])
def test_what_may_be_read_late_must_not_change_the_next_transaction(
    version: int, lost: str
) -> None:
    """KIP-890: with version 1 the next one has the same epoch, unless another one is asked for."""
    world = opened(version)
    world.manager.add_partition(ONE)
    world.offsets()
    ending = world.manager.commit()
    was_lost = False
    for _ in range(20):
        request = world.next()
        if request is None or world.state() is S.INITIALIZING:
            break
        if type(request).__name__ == lost and not was_lost:
            was_lost = True
            world.manager.response_lost(world.ask(), LOST)
        else:
            world.exchange()
    assert ending.done
    asked_for = version == 1 and was_lost
    assert world.state() is (S.INITIALIZING if asked_for else S.READY)


def test_a_lost_search_for_a_coordinator_is_begun_again() -> None:
    world = TransactionWorld()
    world.manager.initialize()
    world.manager.unreachable(world.ask(), LOST)
    assert world.next() == TRANSACTIONS


@pytest.mark.parametrize(
    ("code", "reaction"), [(LOADING, Reaction.RETRY), (CONCURRENT, Reaction.RETRY_SOON)]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_passes_is_asked_again_and_changes_nothing(
    version: int, code: int, reaction: Reaction
) -> None:
    world = TransactionWorld(version)
    world.manager.initialize()
    for _ in range(3):
        request = world.next()
        moves = world.manager.state_changes
        if isinstance(request, FindCoordinator):
            world.exchange()
            continue
        assert world.answer(world.ask(), code) is reaction
        assert world.next() == request
        assert world.manager.state_changes == moves
    world.run()
    world.begin()
    world.manager.add_partition(ONE)
    world.offsets()
    world.manager.commit()
    while (request := world.next()) is not None:
        if not isinstance(request, FindCoordinator):
            assert world.answer(world.ask(), code) is reaction
            assert world.next() == request
        world.exchange()
    assert world.manager.state is S.READY
