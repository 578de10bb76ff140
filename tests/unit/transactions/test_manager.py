"""The transactional producer as a state machine: its table, requests, states and epochs."""

from __future__ import annotations

from itertools import product

import pytest

from aioproducer.engine.records.builder import ProducerState
from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.requests import (
    AddPartitionsToTxn,
    Coordinator,
    CoordinatorType,
    FindCoordinator,
)
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.engine.transactions.transaction import TRANSITIONS, TransactionState, diagram
from aioproducer.errors import FatalTransactionError, ProducerFencedError
from aioproducer.model import TransactionHandle
from tests.support.world import BUMP, FENCE, PAYMENTS
from tests.unit.transactions.world import (
    ABORT,
    ABORTABLE,
    COMMIT,
    FAILED,
    FENCED,
    GROUP_UNAUTHORIZED,
    HOME,
    LOST,
    ONE,
    TWO,
    UNAUTHORIZED,
    VERSIONS,
    TransactionWorld,
    kinds,
    opened,
)

S = TransactionState
TRANSACTIONS = FindCoordinator(Coordinator(CoordinatorType.TRANSACTION, "payments"))


# --- the way in ------------------------------------------------------------------------------
@pytest.mark.parametrize("version", VERSIONS)
def test_the_coordinator_is_found_and_then_asked_for_an_identity(version: int) -> None:
    world = TransactionWorld(version)
    assert world.next() is None
    world.manager.initialize()
    assert world.exchange() == TRANSACTIONS
    assert world.next() == FENCE, "it fences whoever was there"
    assert world.manager.node_for(FENCE) == HOME
    world.exchange(producer_id=7, epoch=3)
    assert world.manager.state is S.READY
    assert world.manager.handle == TransactionHandle("payments", 7, 3, version)
    assert world.sequence_numbers.stamp(ONE, 5) == ProducerState(7, 3, 0, transactional=True)
    assert world.next() is None


def test_any_broker_says_who_the_coordinator_is() -> None:
    world = TransactionWorld()
    world.manager.initialize()
    assert world.manager.node_for(world.ask()) is None


@pytest.mark.parametrize("code", [UNAUTHORIZED, 31, 50, 42, ABORTABLE])
def test_a_producer_that_is_refused_is_so_for_good(code: int) -> None:
    world = TransactionWorld()
    world.manager.initialize()
    world.exchange()
    world.exchange(code)
    assert world.manager.state is S.FATAL_ERROR
    assert world.next() is None
    refusal = world.manager.refusal("initialize transactions")
    assert isinstance(refusal, FatalTransactionError)
    assert "can't initialize transactions" in str(refusal)
    assert "close the producer" in str(refusal)
    assert refusal.__cause__ is world.manager.error


@pytest.mark.parametrize("code", [GROUP_UNAUTHORIZED, ABORTABLE])
def test_without_a_transaction_to_abort_what_is_abortable_elsewhere_is_fatal(code: int) -> None:
    world = TransactionWorld()
    world.manager.initialize()
    world.exchange(code)
    assert world.manager.state is S.FATAL_ERROR


# --- a transaction in version 1 --------------------------------------------------------------
def test_in_version_1_partitions_are_taken_in_before_their_batches_leave() -> None:
    world = opened()
    assert not world.manager.add_partition(ONE)
    assert not world.manager.add_partition(TWO)
    assert not world.manager.add_partition(ONE), "asking again changes nothing"
    assert world.exchange() == AddPartitionsToTxn(frozenset({ONE, TWO}), producer=PAYMENTS), (
        "all that wait at once"
    )
    assert world.manager.add_partition(ONE)
    assert world.manager.add_partition(TWO)
    assert world.next() is None


def test_a_partition_that_comes_while_others_are_taken_in_is_asked_for_next() -> None:
    world = opened()
    world.manager.add_partition(ONE)
    request = world.ask()
    assert not world.manager.add_partition(TWO)
    world.answer(request)
    assert world.manager.add_partition(ONE)
    assert not world.manager.add_partition(TWO)
    assert world.exchange() == AddPartitionsToTxn(frozenset({TWO}), producer=PAYMENTS)


def test_in_version_1_a_transaction_goes_as_in_kafka_and_the_next_one_has_the_same_epoch() -> None:
    world = opened()
    world.write(ONE)
    handle = world.manager.handle
    ending = world.manager.commit()
    assert (ending.committed, ending.open) == (True, True)
    assert world.exchange() == COMMIT
    assert (ending.done, ending.open, ending.error) == (True, False, None)
    assert world.manager.state is S.READY
    assert world.manager.handle == handle
    world.begin()
    assert not world.manager.add_partition(ONE), "it is not in this one yet"
    world.write(ONE)
    assert world.sequence_numbers.stamp(ONE, 1).base_sequence == 2, "the numbers go on"


def test_a_commit_waits_for_partitions_that_are_not_taken_in_yet() -> None:
    world = opened()
    world.flushed = False
    world.manager.add_partition(ONE)
    world.manager.commit()
    assert world.exchange() == AddPartitionsToTxn(frozenset({ONE}), producer=PAYMENTS)
    assert world.next() is None, "its batch is on its way"
    world.flushed = True
    assert world.next() == COMMIT


def test_an_abort_takes_nothing_in_any_more() -> None:
    world = opened()
    world.write(ONE)
    world.manager.add_partition(TWO)
    world.offsets()
    world.manager.abort()
    assert kinds(world.run()) == ["EndTxn"]
    assert world.manager.state is S.READY


def test_partitions_are_outside_again_when_the_transaction_has_ended() -> None:
    world = opened()
    world.manager.add_partition(ONE)
    world.manager.abort()
    assert world.run() == [], "nothing had been taken in"
    world.begin()
    assert world.next() is None
    assert not world.manager.add_partition(ONE)


# --- a transaction in version 2 --------------------------------------------------------------
def test_in_version_2_batches_leave_at_once_and_the_end_brings_an_epoch() -> None:
    world = opened(2)
    before = world.manager.handle
    assert world.manager.add_partition(ONE)
    assert world.next() is None
    assert world.sequence_numbers.stamp(ONE, 3) == ProducerState(70, 0, 0, transactional=True)
    ending = world.manager.commit()
    world.flushed = False
    assert world.next() is None
    world.flushed = True
    assert world.exchange(producer_id=71, epoch=0) == COMMIT
    assert ending.done
    assert world.manager.state is S.READY
    assert world.manager.handle == TransactionHandle("payments", 71, 0, 2)
    assert world.manager.handle != before
    world.begin()
    assert world.sequence_numbers.stamp(ONE, 1) == ProducerState(71, 0, 0, transactional=True)


@pytest.mark.parametrize("committed", [True, False])
def test_in_version_2_no_epoch_is_asked_for_whatever_went_wrong(committed: bool) -> None:
    world = opened(2)
    world.write(ONE)
    if not committed:
        world.manager.delivery_failed(FAILED)
    world.end(committed=committed)
    assert kinds(world.asked) == ["FindCoordinator", "InitProducerId", "EndTxn"]
    assert world.manager.state is S.READY
    assert world.manager.handle.epoch == 1


# --- transactions with nothing in them -------------------------------------------------------
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_an_empty_transaction_asks_nobody(version: int, committed: bool) -> None:
    world = opened(version)
    handle = world.manager.handle
    ending = world.manager.commit() if committed else world.manager.abort()
    assert world.next() is None
    assert ending.done
    assert world.manager.state is S.READY
    assert world.manager.handle == handle


def test_an_empty_transaction_ends_when_pending_records_have_their_outcome() -> None:
    """They may wait for their topic's metadata."""
    world = opened()
    ending = world.manager.commit()
    world.flushed = False
    assert world.next() is None
    assert ending.open


@pytest.mark.parametrize("sent", [False, True])
def test_with_version_2_an_abort_asks_only_if_a_batch_has_left(sent: bool) -> None:
    """A coordinator that still ends the transaction before takes another end for a fenced one's."""
    world = opened(version=2)
    world.manager.add_partition(ONE)  # its batch lingers
    if sent:
        world.sequence_numbers.stamp(ONE, 1)
    ending = world.manager.abort()
    assert kinds(world.run()) == (["EndTxn"] if sent else [])
    assert ending.done
    assert world.manager.state is S.READY


def test_what_was_asked_may_have_reached_the_coordinator_so_the_abort_is_told() -> None:
    world = opened()
    world.manager.add_partition(ONE)
    world.manager.unreachable(world.ask(), LOST)
    world.manager.abort()
    assert kinds(world.run()) == ["EndTxn"]


# --- a new epoch after a failure -------------------------------------------------------------
def test_after_a_failure_the_next_transaction_has_a_new_epoch() -> None:
    """KIP-360: what is still on its way from the failed one is refused then."""
    world = opened()
    world.write(ONE)
    world.manager.delivery_failed(FAILED)
    assert world.manager.state is S.ABORTABLE_ERROR
    ending = world.manager.abort()
    assert world.exchange() == ABORT
    assert ending.done
    assert world.state() is S.INITIALIZING
    assert world.exchange() == BUMP, "it fences nobody newer"
    assert world.state() is S.READY
    assert world.manager.handle.epoch == 1
    world.begin()
    assert world.sequence_numbers.stamp(ONE, 1) == ProducerState(70, 1, 0, transactional=True)


def test_a_numbered_batch_that_was_given_up_costs_an_epoch_too() -> None:
    world = opened()
    world.write(ONE)
    world.manager.numbers_lost()
    world.manager.abort()
    assert kinds(world.run()) == ["EndTxn", "InitProducerId"]
    world.begin()
    world.write(ONE)
    world.end(committed=True)
    assert world.manager.handle.epoch == 1, "once"


def test_an_abort_without_a_failure_keeps_the_epoch() -> None:
    world = opened()
    world.write(ONE)
    assert world.end(committed=False).done
    assert world.manager.state is S.READY
    assert world.manager.handle.epoch == 0


@pytest.mark.parametrize("code", [FENCED, 47])
def test_an_epoch_that_is_not_the_newest_any_more_is_the_end(code: int) -> None:
    world = opened()
    world.write(ONE)
    world.manager.delivery_failed(FAILED)
    ending = world.manager.abort()
    world.exchange()
    world.exchange(code)
    assert ending.done, "that one was aborted"
    assert world.manager.state is S.FATAL_ERROR
    assert isinstance(world.manager.refusal("begin a transaction"), ProducerFencedError)


# --- another version of the protocol ---------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "version"),
    [
        ({"metadata.version": 25, "transaction.version": 2}, 2),
        ({"transaction.version": 3}, 2),
        ({"transaction.version": 1}, 1),
        ({"metadata.version": 25}, 1),
        ({}, 1),
    ],
)
def test_the_features_of_the_cluster_choose_the_version(
    levels: dict[str, int], version: int
) -> None:
    world = TransactionWorld(3 - version)
    world.manager.offer(levels)
    world.manager.initialize()
    world.run()
    assert world.manager.handle.version == version


def test_an_upgrade_between_transactions_costs_an_epoch() -> None:
    """KIP-890: what was taken in under version 1 does not count under version 2."""
    world = opened()
    world.manager.offered_version = 2
    assert not world.manager.add_partition(ONE), "the open transaction goes on as it began"
    world.run()
    world.manager.commit()
    assert kinds(world.run()) == ["EndTxn", "InitProducerId"]
    assert world.manager.handle == TransactionHandle("payments", 70, 1, 2)
    world.begin()
    assert world.manager.add_partition(ONE)


def test_an_upgrade_is_taken_on_after_an_empty_transaction_too() -> None:
    world = opened()
    world.manager.offered_version = 2
    world.manager.commit()
    assert kinds(world.run()) == ["InitProducerId"]
    assert world.manager.handle.version == 2


def test_a_downgrade_needs_no_epoch_but_that_of_the_end() -> None:
    world = opened(2)
    world.write(ONE)
    world.manager.offered_version = 1
    world.manager.commit()
    assert kinds(world.run()) == ["EndTxn"]
    assert world.manager.handle == TransactionHandle("payments", 70, 1, 1)
    world.begin()
    assert not world.manager.add_partition(ONE)


# --- queries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [None, True, False])
def test_queries_change_nothing(version: int, committed: bool | None) -> None:
    world = opened(version)
    manager = world.manager
    manager.add_partition(TWO)
    pending = world.offsets()
    if committed is not None:
        _ = manager.commit() if committed else manager.abort()
    before = repr_of(manager)
    for flushed in (True, False, True):
        request = manager.next_request(flushed=flushed)
        if request is not None:
            manager.node_for(request)
        manager.contains(ONE)
        _ = manager.discard_error, manager.error, manager.ends_the_epoch
        if manager.state is not S.ABORTING:
            manager.is_written(pending)
    assert repr_of(manager) == before


def repr_of(manager: TransactionManager) -> str:
    """All that the manager and its transaction remember."""
    return f"{vars(manager)} {vars(manager.transaction)} {manager.ending}"


STEPS = list(product(S, S))


def in_state(state: TransactionState) -> TransactionManager:
    identity = SequenceNumbers(idempotent=True, transactional=True)
    manager = TransactionManager("payments", identity, 60_000)
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
