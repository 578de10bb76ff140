"""The content of a transaction: consumed offsets, and the parts that other producers write."""

from __future__ import annotations

import pytest

from aioproducer.engine.records.builder import ProducerState
from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    Coordinator,
    CoordinatorType,
    FindCoordinator,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import AbortableTransactionError, IllegalStateError, InvalidTxnStateError
from aioproducer.model import ConsumerGroupMetadata, TransactionHandle
from tests.support.world import BUMP, PAYMENTS
from tests.unit.transactions.world import (
    ABORT,
    COMMIT,
    HOME,
    ILLEGAL_GENERATION,
    INVALID_STATE,
    ONE,
    VERSIONS,
    TransactionWorld,
    kinds,
    opened,
)

S = TransactionState
OF_READERS = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))


# --- offsets ---------------------------------------------------------------------------------
def test_in_version_1_the_group_is_taken_in_before_its_offsets_are_written() -> None:
    world = opened()
    pending = world.offsets()
    assert world.exchange() == AddOffsetsToTxn("readers", producer=PAYMENTS)
    assert not world.manager.is_written(pending)
    assert world.exchange() == OF_READERS
    request = world.ask()
    assert request is pending.request
    assert world.manager.node_for(request) == HOME
    world.answer(request)
    assert world.manager.is_written(pending)
    again = world.offsets()
    assert kinds(world.run()) == ["TxnOffsetCommit"], "the group is in the transaction"
    assert world.manager.is_written(again)


def test_in_version_2_the_offsets_take_their_group_in() -> None:
    world = opened(2)
    pending = world.offsets()
    world.manager.commit()
    assert world.exchange() == OF_READERS
    assert world.exchange() is pending.request
    assert world.exchange() == COMMIT, "they are something to be committed"


@pytest.mark.parametrize("version", VERSIONS)
def test_each_group_has_its_own_coordinator(version: int) -> None:
    world = opened(version)
    for name in ("a", "b"):
        world.offsets(ConsumerGroupMetadata(name))
    asked = [world.exchange(node=node) for node in (HOME,) for _ in range(2 * (3 - version))]
    world.run()
    found = [each.coordinator for each in world.asked if isinstance(each, FindCoordinator)]
    assert found[1:] == [Coordinator(CoordinatorType.GROUP, name) for name in ("a", "b")]
    assert asked
    groups = [each.group_id for each in world.asked if isinstance(each, AddOffsetsToTxn)]
    assert groups == (["a", "b"] if version == 1 else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_comes_behind_the_offsets(version: int) -> None:
    world = opened(version)
    world.offsets()
    world.offsets()
    ending = world.manager.commit()
    assert kinds(world.run())[-3:] == ["TxnOffsetCommit", "TxnOffsetCommit", "EndTxn"]
    assert ending.done


def test_the_next_transaction_takes_the_group_in_again() -> None:
    world = opened()
    world.offsets()
    world.end(committed=True)
    world.begin()
    world.offsets()
    assert kinds(world.run()) == ["AddOffsetsToTxn", "TxnOffsetCommit"]


def test_offsets_that_the_group_refuses_make_the_transaction_abortable() -> None:
    world = opened(2)
    pending = world.offsets()
    world.exchange()
    world.exchange(ILLEGAL_GENERATION)
    assert world.manager.state is S.ABORTABLE_ERROR
    with pytest.raises(AbortableTransactionError, match=r"send offsets.*ILLEGAL_GENERATION"):
        world.manager.is_written(pending)
    assert world.next() is None
    world.end(committed=False)
    with pytest.raises(IllegalStateError):
        world.manager.is_written(pending)


def test_offsets_answered_when_the_transaction_is_being_aborted_change_nothing() -> None:
    world = opened(2)
    pending = world.offsets()
    world.exchange()
    request = world.ask()
    world.manager.abort()
    world.answer(request)
    assert not pending.written
    assert world.exchange() == ABORT


# --- transactions that others take part in ---------------------------------------------------
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_a_shared_transaction_is_ended_whether_we_wrote_or_not(
    version: int, committed: bool
) -> None:
    world = opened(version, shared=True)
    assert world.end(committed=committed).done
    ended = kinds(world.asked)[2:]
    assert ended == (["EndTxn"] if version == 2 else ["EndTxn", "InitProducerId"])
    assert world.manager.handle.epoch == 1, "others have numbered batches in the old one"
    assert world.manager.transaction is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_shared_transaction_that_nobody_heard_of_asks_nobody(version: int) -> None:
    world = opened(version, shared=True)
    assert world.manager.transaction is not None
    world.manager.transaction.handed_out = False
    asked = len(world.asked)
    assert world.end(committed=True).done
    assert len(world.asked) == asked
    assert world.state() is S.READY


def test_a_shared_transaction_begins_in_an_epoch_that_nobody_has_used() -> None:
    world = opened()
    world.write(ONE)
    world.end(committed=True)
    assert not world.manager.begin(shared=True)
    assert world.manager.state is S.INITIALIZING
    assert world.run() == [BUMP]
    assert world.manager.begin(shared=True)
    assert world.manager.handle.epoch == 1
    assert world.sequence_numbers.fresh


def test_in_version_2_every_epoch_between_transactions_is_unused() -> None:
    world = opened(2)
    world.write(ONE)
    world.end(committed=True)
    assert world.manager.begin(shared=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_whoever_joins_writes_and_ends_with_the_handle_alone(version: int) -> None:
    world = TransactionWorld(version, TransactionHandle("payments", 9, 4, version))
    assert world.manager.state is S.IN_TRANSACTION
    world.write(ONE)
    assert world.sequence_numbers.stamp(ONE, 1) == ProducerState(9, 4, 1, transactional=True)
    ending = world.end(committed=True)
    assert ending.done
    added = ["AddPartitionsToTxn"] if version == 1 else []
    asked = [each for each in kinds(world.asked) if each != "FindCoordinator"]
    assert asked == [*added, "EndTxn"], "it gets no epoch of its own"
    assert world.state() is S.READY
    with pytest.raises(IllegalStateError, match="joined one transaction, which has ended"):
        world.manager.begin()


def test_a_transaction_that_somebody_else_committed_is_not_said_to_be_aborted() -> None:
    """CompleteCommit answers an abort as if no transaction were open."""
    world = opened(shared=True)
    ending = world.manager.abort()
    world.exchange(INVALID_STATE)
    assert not ending.done
    assert isinstance(ending.error, IllegalStateError)
    assert isinstance(ending.error.__cause__, InvalidTxnStateError)
    assert "may have committed it" in str(ending.error)
    assert world.manager.state is S.INITIALIZING, "the next one can work"
    world.run()
    world.begin()


# --- handed over -----------------------------------------------------------------------------
@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_that_was_handed_over_is_not_aborted_by_its_giver(version: int) -> None:
    world = opened(version, shared=True)
    handle = world.manager.hand_out()
    assert not world.manager.joined
    assert world.manager.hand_out(over=True) == handle
    assert world.manager.joined
    assert world.manager.hand_out() == handle, "it still takes part"


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_who_handed_a_transaction_over_may_end_it_and_begins_no_other(
    version: int, committed: bool
) -> None:
    world = opened(version, shared=True)
    world.manager.hand_out(over=True)
    with pytest.raises(IllegalStateError, match="end it first"):
        world.manager.begin(shared=True)
    world.write(ONE)
    assert world.end(committed=committed).done
    assert world.state() is S.READY
    for shared in (True, False):
        with pytest.raises(IllegalStateError, match="handed its transaction over, which has ended"):
            world.manager.begin(shared=shared)
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        world.manager.hand_out(over=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_a_shared_open_transaction_is_handed_over(version: int) -> None:
    world = opened(version)
    with pytest.raises(IllegalStateError, match="was not begun for others"):
        world.manager.hand_out(over=True)
    assert not world.manager.joined
    world.end(committed=False)
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        world.manager.hand_out(over=True)
    world.begin()
    world.write(ONE)
    assert world.end(committed=True).done, "it goes on as before"
