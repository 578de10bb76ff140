"""The transactional producer as a state machine: what it asks, and what comes of the answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioproducer.errors import (
    AbortableTransactionError,
    BrokerConnectionError,
    DeliveryTimeoutError,
    FatalTransactionError,
    IllegalStateError,
    InvalidTxnStateError,
    ProducerError,
    ProducerFencedError,
    TransactionAbortedError,
    UnsupportedVersionError,
    kafka_error,
)
from aioproducer.model import ConsumerGroupMetadata, TransactionHandle
from aioproducer.records.record_batch import ProducerState
from aioproducer.transactions.manager import TransactionManager
from aioproducer.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    Coordinator,
    CoordinatorType,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    Reaction,
)
from aioproducer.transactions.states import TransactionState
from tests.unit.transactions.world import (
    ABORTABLE,
    CONCURRENT,
    FENCED,
    GROUP_UNAUTHORIZED,
    HOME,
    ILLEGAL_GENERATION,
    INVALID_MAPPING,
    INVALID_STATE,
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    ONE,
    OTHER,
    READERS,
    TWO,
    UNAUTHORIZED,
    World,
    is_offsets,
    kinds,
    opened,
)

S = TransactionState
VERSIONS = [1, 2]
TRANSACTIONS = FindCoordinator(Coordinator(CoordinatorType.TRANSACTION, "payments"))
OF_READERS = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))
COMMIT, ABORT = EndTxn(committed=True), EndTxn(committed=False)
FAILED = DeliveryTimeoutError("orders-0: not acknowledged")
LOST = BrokerConnectionError("lost")


# --- the way in --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_coordinator_is_found_and_then_asked_for_an_identity(version: int) -> None:
    world = World(version)
    assert world.next() is None
    world.manager.initialize()
    assert world.exchange() == TRANSACTIONS
    assert world.next() == InitProducerId(epoch_bump=False), "it fences whoever was there"
    assert world.manager.node_for(InitProducerId(epoch_bump=False)) == HOME
    world.exchange(producer_id=7, epoch=3)
    assert world.manager.state is S.READY
    assert world.manager.handle == TransactionHandle("payments", 7, 3, version)
    assert world.identity.stamp(ONE, 5) == ProducerState(7, 3, 0, transactional=True)
    assert world.next() is None


def test_any_broker_says_who_the_coordinator_is() -> None:
    world = World()
    world.manager.initialize()
    assert world.manager.node_for(world.ask()) is None


@pytest.mark.parametrize("code", [UNAUTHORIZED, 31, 50, 42, ABORTABLE])
def test_a_producer_that_is_refused_is_so_for_good(code: int) -> None:
    world = World()
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
    world = World()
    world.manager.initialize()
    world.exchange(code)
    assert world.manager.state is S.FATAL_ERROR


# --- a transaction in version 1 ----------------------------------------------------------------


def test_in_version_1_partitions_are_taken_in_before_their_batches_leave() -> None:
    world = opened()
    assert not world.manager.admit(ONE)
    assert not world.manager.admit(TWO)
    assert not world.manager.admit(ONE), "asking again changes nothing"
    assert world.exchange() == AddPartitionsToTxn(frozenset({ONE, TWO})), "all that wait at once"
    assert world.manager.admit(ONE)
    assert world.manager.admit(TWO)
    assert world.next() is None


def test_a_partition_that_comes_while_others_are_taken_in_is_asked_for_next() -> None:
    world = opened()
    world.manager.admit(ONE)
    request = world.ask()
    assert not world.manager.admit(TWO)
    world.answer(request)
    assert world.manager.admit(ONE)
    assert not world.manager.admit(TWO)
    assert world.exchange() == AddPartitionsToTxn(frozenset({TWO}))


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
    assert not world.manager.admit(ONE), "it is not in this one yet"
    world.write(ONE)
    assert world.identity.stamp(ONE, 1).base_sequence == 2, "the numbers go on"


def test_a_commit_waits_for_partitions_that_are_not_taken_in_yet() -> None:
    world = opened()
    world.settled = False
    world.manager.admit(ONE)
    world.manager.commit()
    assert world.exchange() == AddPartitionsToTxn(frozenset({ONE}))
    assert world.next() is None, "its batch is on its way"
    world.settled = True
    assert world.next() == COMMIT


def test_an_abort_takes_nothing_in_any_more() -> None:
    world = opened()
    world.write(ONE)
    world.manager.admit(TWO)
    world.offsets()
    world.manager.abort()
    assert kinds(world.run()) == ["EndTxn"]
    assert world.manager.state is S.READY


def test_partitions_are_outside_again_when_the_transaction_has_ended() -> None:
    world = opened()
    world.manager.admit(ONE)
    world.manager.abort()
    assert world.run() == [], "nothing had been taken in"
    world.begin()
    assert world.next() is None
    assert not world.manager.admit(ONE)


# --- a transaction in version 2 ----------------------------------------------------------------


def test_in_version_2_batches_leave_at_once_and_the_end_brings_an_epoch() -> None:
    world = opened(2)
    before = world.manager.handle
    assert world.manager.admit(ONE)
    assert world.next() is None
    assert world.identity.stamp(ONE, 3) == ProducerState(70, 0, 0, transactional=True)
    ending = world.manager.commit()
    world.settled = False
    assert world.next() is None
    world.settled = True
    assert world.exchange(producer_id=71, epoch=0) == COMMIT
    assert ending.done
    assert world.manager.state is S.READY
    assert world.manager.handle == TransactionHandle("payments", 71, 0, 2)
    assert world.manager.handle != before
    world.begin()
    assert world.identity.stamp(ONE, 1) == ProducerState(71, 0, 0, transactional=True)


@pytest.mark.parametrize("committed", [True, False])
def test_in_version_2_no_epoch_is_asked_for_whatever_went_wrong(committed: bool) -> None:
    world = opened(2)
    world.write(ONE)
    if not committed:
        world.manager.batch_failed(FAILED)
    world.end(committed=committed)
    assert kinds(world.asked) == ["FindCoordinator", "InitProducerId", "EndTxn"]
    assert world.manager.state is S.READY
    assert world.manager.handle.epoch == 1


# --- transactions with nothing in them ---------------------------------------------------------


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


def test_an_empty_transaction_ends_when_records_that_wait_have_their_fate() -> None:
    """They may wait for their topic's metadata."""
    world = opened()
    ending = world.manager.commit()
    world.settled = False
    assert world.next() is None
    assert ending.open


def test_what_was_asked_may_have_reached_the_coordinator_so_the_abort_is_told() -> None:
    world = opened()
    world.manager.admit(ONE)
    world.manager.unreachable(world.ask(), LOST)
    world.manager.abort()
    assert kinds(world.run()) == ["EndTxn"]


# --- offsets -----------------------------------------------------------------------------------


def test_in_version_1_the_group_is_taken_in_before_its_offsets_are_written() -> None:
    world = opened()
    pending = world.offsets()
    assert world.exchange() == AddOffsetsToTxn("readers")
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


def test_offsets_that_the_group_refuses_doom_the_transaction() -> None:
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


# --- a new epoch after a failure ---------------------------------------------------------------


def test_after_a_failure_the_next_transaction_has_a_new_epoch() -> None:
    """KIP-360: what is still on its way from the failed one is refused then."""
    world = opened()
    world.write(ONE)
    world.manager.batch_failed(FAILED)
    assert world.manager.state is S.ABORTABLE_ERROR
    ending = world.manager.abort()
    assert world.exchange() == ABORT
    assert ending.done
    assert world.state() is S.INITIALIZING
    assert world.exchange() == InitProducerId(epoch_bump=True), "it fences nobody newer"
    assert world.state() is S.READY
    assert world.manager.handle.epoch == 1
    world.begin()
    assert world.identity.stamp(ONE, 1) == ProducerState(70, 1, 0, transactional=True)


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
    world.manager.batch_failed(FAILED)
    ending = world.manager.abort()
    world.exchange()
    world.exchange(code)
    assert ending.done, "that one was aborted"
    assert world.manager.state is S.FATAL_ERROR
    assert isinstance(world.manager.refusal("begin a transaction"), ProducerFencedError)


# --- another version of the protocol -----------------------------------------------------------


def test_an_upgrade_between_transactions_costs_an_epoch() -> None:
    """KIP-890: what was taken in under version 1 does not count under version 2."""
    world = opened()
    world.manager.offered_version = 2
    assert not world.manager.admit(ONE), "the open transaction goes on as it began"
    world.run()
    world.manager.commit()
    assert kinds(world.run()) == ["EndTxn", "InitProducerId"]
    assert world.manager.handle == TransactionHandle("payments", 70, 1, 2)
    world.begin()
    assert world.manager.admit(ONE)


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
    assert not world.manager.admit(ONE)


# --- transactions that others take part in -----------------------------------------------------


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
    assert world.run() == [InitProducerId(epoch_bump=True)]
    assert world.manager.begin(shared=True)
    assert world.manager.handle.epoch == 1
    assert world.identity.fresh


def test_in_version_2_every_epoch_between_transactions_is_unused() -> None:
    world = opened(2)
    world.write(ONE)
    world.end(committed=True)
    assert world.manager.begin(shared=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_whoever_joins_writes_and_ends_with_the_handle_alone(version: int) -> None:
    world = World(version, TransactionHandle("payments", 9, 4, version))
    assert world.manager.state is S.IN_TRANSACTION
    world.write(ONE)
    assert world.identity.stamp(ONE, 1) == ProducerState(9, 4, 1, transactional=True)
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


# --- coordinators move -------------------------------------------------------------------------


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
    world.manager.admit(ONE)
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
    world = World()
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
    world = World(version)
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
    world.manager.admit(ONE)
    world.offsets()
    world.manager.commit()
    while (request := world.next()) is not None:
        if not isinstance(request, FindCoordinator):
            assert world.answer(world.ask(), code) is reaction
            assert world.next() == request
        world.exchange()
    assert world.manager.state is S.READY


# --- doom --------------------------------------------------------------------------------------


def doomed_in_transaction(world: World) -> None:
    world.write(ONE)
    world.manager.batch_failed(FAILED)


def test_a_batch_that_fails_dooms_the_transaction() -> None:
    world = opened()
    doomed_in_transaction(world)
    with pytest.raises(AbortableTransactionError, match="can only be aborted: orders-0") as caught:
        world.manager.check_open()
    assert caught.value.__cause__ is FAILED
    with pytest.raises(AbortableTransactionError, match="abort_transaction"):
        world.manager.commit()
    assert world.next() is None


def test_the_first_reason_is_kept() -> None:
    world = opened()
    doomed_in_transaction(world)
    world.manager.batch_failed(DeliveryTimeoutError("another"))
    assert world.manager.error is FAILED


def test_a_commit_under_way_tells_of_the_batch_that_failed() -> None:
    world = opened()
    world.write(ONE)
    world.settled = False
    ending = world.manager.commit()
    world.manager.batch_failed(FAILED)
    assert (ending.open, ending.done, ending.error) == (False, False, FAILED)
    assert world.manager.state is S.ABORTABLE_ERROR
    assert world.manager.refusal("commit").__cause__ is FAILED


def test_what_fails_while_aborting_changes_nothing_but_the_epoch() -> None:
    world = opened()
    world.write(ONE)
    ending = world.manager.abort()
    world.manager.batch_failed(FAILED)
    assert ending.open
    assert world.manager.state is S.ABORTING
    assert world.manager.error is None
    assert kinds(world.run()) == ["EndTxn", "InitProducerId"]
    assert ending.done


def test_a_question_that_fails_while_aborting_changes_nothing_but_the_epoch() -> None:
    world = opened()
    world.manager.admit(ONE)
    request = world.ask()
    ending = world.manager.abort()
    assert world.answer(request, 29) is Reaction.ABORT
    assert world.manager.state is S.ABORTING
    world.run()
    assert ending.done


@pytest.mark.parametrize(
    "error",
    [kafka_error(FENCED, "said"), kafka_error(31, "said"), UnsupportedVersionError("too old")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("doing", ["write", "commit", "doomed", "abort"])
def test_a_batch_that_the_producer_itself_is_refused_for_is_the_end(
    error: ProducerError, doing: str
) -> None:
    world = opened()
    world.write(ONE)
    ending = None
    if doing == "doomed":
        world.manager.batch_failed(FAILED)
    elif doing != "write":
        ending = world.manager.commit() if doing == "commit" else world.manager.abort()
    world.manager.batch_failed(error)
    assert world.manager.state is S.FATAL_ERROR
    assert world.manager.error is error
    assert ending is None or ending.error is error
    world.manager.batch_failed(UnsupportedVersionError("and another"))
    assert world.manager.error is error
    assert world.next() is None
    for call in (world.manager.commit, world.manager.abort, world.manager.begin):
        with pytest.raises(FatalTransactionError, match="close the producer"):
            call()


def test_records_that_have_not_left_are_dropped_once_there_is_no_commit_any_more() -> None:
    world = opened()
    assert world.manager.discard_error is None
    world.write(ONE)
    world.manager.batch_failed(FAILED)
    dropped = world.manager.discard_error
    assert isinstance(dropped, TransactionAbortedError)
    assert str(FAILED) in str(dropped)
    assert dropped.__cause__ is FAILED
    world.manager.abort()
    assert world.manager.discard_error is not None
    world.run()
    assert world.manager.discard_error is None
    world.begin()
    world.manager.abort()
    assert str(world.manager.discard_error) == "discarded, because its transaction is aborted"
    world.manager.fail(FAILED)
    assert world.manager.discard_error is not None


def test_a_commit_drops_nothing() -> None:
    world = opened()
    world.write(ONE)
    world.manager.commit()
    assert world.manager.discard_error is None


# --- fencing -----------------------------------------------------------------------------------


def asked_to(world: World, what: str) -> None:
    """The next request is what is to be fenced."""
    manager = world.manager
    wanted: dict[str, Callable[[], object]] = {
        "AddPartitionsToTxn": lambda: manager.admit(ONE),
        "AddOffsetsToTxn": world.offsets,
        "TxnOffsetCommit": world.offsets,
        "COMMIT": manager.commit,
        "ABORT": manager.abort,
    }
    if what in ("COMMIT", "ABORT"):
        world.write(ONE)
    wanted[what]()
    if what == "TxnOffsetCommit":
        world.exchange()
        world.exchange()
        assert is_offsets(world.next())


@pytest.mark.parametrize("code", [FENCED, 47])
@pytest.mark.parametrize(
    "what", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "COMMIT", "ABORT"]
)
def test_a_producer_that_was_fenced_is_told_so(what: str, code: int) -> None:
    world = opened()
    asked_to(world, what)
    assert world.answer(world.ask(), code) is Reaction.FENCED
    assert world.manager.state is S.FATAL_ERROR
    if what in ("COMMIT", "ABORT"):
        assert world.manager.ending is not None
        assert isinstance(world.manager.ending.error, ProducerFencedError)
        assert not world.manager.ending.done
    with pytest.raises(ProducerFencedError, match=r"payments.*broker 1") as caught:
        world.manager.check_open()
    assert isinstance(caught.value, FatalTransactionError)


@pytest.mark.parametrize(
    "what", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "COMMIT", "ABORT"]
)
def test_a_producer_that_is_refused_later_is_refused_for_good(what: str) -> None:
    world = opened()
    asked_to(world, what)
    assert world.answer(world.ask(), INVALID_MAPPING) is Reaction.FATAL
    assert world.manager.state is S.FATAL_ERROR
    with pytest.raises(FatalTransactionError, match="INVALID_PRODUCER_ID_MAPPING") as caught:
        world.manager.check_open()
    assert not isinstance(caught.value, ProducerFencedError)


# --- the coordinator has no such transaction ---------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_of_what_is_not_open_any_more_is_no_commit(version: int) -> None:
    world = opened(version)
    world.write(ONE)
    ending = world.manager.commit()
    assert world.answer(world.ask(), INVALID_STATE) is Reaction.ABORT
    assert not ending.done
    assert isinstance(ending.error, InvalidTxnStateError)
    assert world.manager.state is S.ABORTABLE_ERROR
    aborted = world.manager.abort()
    assert world.answer(world.ask(), INVALID_STATE) is Reaction.ABORT
    assert aborted.done
    assert world.state() is S.INITIALIZING
    assert world.run() == [InitProducerId(epoch_bump=True)]
    assert world.state() is S.READY


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [INVALID_STATE, ABORTABLE, 59])
def test_an_abort_of_what_is_not_open_any_more_is_one(version: int, code: int) -> None:
    world = opened(version)
    world.write(ONE)
    ending = world.manager.abort()
    world.exchange(code)
    assert (ending.done, ending.error) == (True, None)
    assert world.run() == [InitProducerId(epoch_bump=True)], "so that it is true in any case"


# --- wrong use ---------------------------------------------------------------------------------


def in_state(state: TransactionState) -> TransactionManager:
    world = World()
    manager = world.manager
    if state is S.UNINITIALIZED:
        return manager
    manager.initialize()
    if state is S.INITIALIZING:
        return manager
    world.run()
    if state is S.READY:
        return manager
    manager.begin()
    if state is S.IN_TRANSACTION:
        return manager
    if state is S.COMMITTING:
        manager.commit()
    elif state is S.ABORTING:
        manager.abort()
    elif state is S.ABORTABLE_ERROR:
        manager.batch_failed(FAILED)
    else:
        manager.fail(FAILED)
    return manager


WANTED = {
    "initialize": ("initialize transactions", {S.UNINITIALIZED}),
    "begin": ("begin a transaction", {S.READY}),
    "commit": ("commit", {S.IN_TRANSACTION}),
    "abort": ("abort", {S.IN_TRANSACTION, S.ABORTABLE_ERROR}),
    "check_open": ("send", {S.IN_TRANSACTION}),
    "offsets": ("send offsets", {S.IN_TRANSACTION}),
}
ADVICE = {
    S.UNINITIALIZED: "`await producer.init_transactions()` first",
    S.INITIALIZING: "`await producer.init_transactions()` first",
    S.READY: "async with producer.transaction():",
    S.IN_TRANSACTION: "commit_transaction() or abort_transaction()",
    S.COMMITTING: "`await producer.commit_transaction()` to its end",
    S.ABORTING: "`await producer.abort_transaction()` to its end",
    S.ABORTABLE_ERROR: "abort_transaction(), then begin another one",
    S.FATAL_ERROR: "close the producer",
}


@pytest.mark.parametrize("state", S, ids=lambda state: state.name)
@pytest.mark.parametrize("call", WANTED)
def test_a_call_that_does_not_fit_says_what_to_do(call: str, state: TransactionState) -> None:
    manager = in_state(state)
    assert manager.state is state
    words, fitting = WANTED[call]

    def do() -> object:
        if call == "offsets":
            return manager.add_offsets({}, READERS)
        return getattr(manager, call)()

    if state in fitting:
        do()
        return
    with pytest.raises(ProducerError) as caught:
        do()
    assert str(caught.value).startswith(f"transactional id 'payments': can't {words}")
    assert ADVICE[state] in str(caught.value)
    assert manager.state is state, "nothing has changed"
    kind = {S.ABORTABLE_ERROR: AbortableTransactionError, S.FATAL_ERROR: FatalTransactionError}
    assert isinstance(caught.value, kind.get(state, IllegalStateError))


# --- handed over -------------------------------------------------------------------------------


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
