"""Failures that abort a transaction or end the producer, and calls in the wrong state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.requests import COMMON_REACTIONS, Reaction
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AbortableTransactionError,
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
from aioproducer.errors.broker import TABLE
from tests.support.world import BUMP
from tests.unit.transactions.world import (
    ABORTABLE,
    FAILED,
    FENCED,
    INVALID_MAPPING,
    INVALID_STATE,
    ONE,
    READERS,
    VERSIONS,
    TransactionWorld,
    is_offsets,
    kinds,
    opened,
)

S = TransactionState


# --- failures --------------------------------------------------------------------------------
def doomed_in_transaction(world: TransactionWorld) -> None:
    world.write(ONE)
    world.manager.delivery_failed(FAILED)


def test_a_batch_that_fails_makes_the_transaction_abortable() -> None:
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
    world.manager.delivery_failed(DeliveryTimeoutError("another"))
    assert world.manager.error is FAILED


def test_a_commit_under_way_tells_of_the_batch_that_failed() -> None:
    world = opened()
    world.write(ONE)
    world.flushed = False
    ending = world.manager.commit()
    world.manager.delivery_failed(FAILED)
    assert (ending.open, ending.done, ending.error) == (False, False, FAILED)
    assert world.manager.state is S.ABORTABLE_ERROR
    assert world.manager.refusal("commit").__cause__ is FAILED


def test_what_fails_while_aborting_changes_nothing_but_the_epoch() -> None:
    world = opened()
    world.write(ONE)
    ending = world.manager.abort()
    world.manager.delivery_failed(FAILED)
    assert ending.open
    assert world.manager.state is S.ABORTING
    assert world.manager.error is None
    assert kinds(world.run()) == ["EndTxn", "InitProducerId"]
    assert ending.done


def test_a_request_that_fails_while_aborting_changes_nothing_but_the_epoch() -> None:
    world = opened()
    world.manager.add_partition(ONE)
    request = world.ask()
    ending = world.manager.abort()
    assert world.answer(request, 29) is Reaction.ABORT
    assert world.manager.state is S.ABORTING
    world.run()
    assert ending.done


@pytest.mark.parametrize(
    "error",
    [
        kafka_error(FENCED, "said"),
        UnsupportedVersionError("too old"),
        # what is fatal for a request is fatal for a batch
        *(
            kafka_error(row.code, "said")
            for row in TABLE
            if COMMON_REACTIONS.get(row.error) is Reaction.FATAL
        ),
    ],
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
        world.manager.delivery_failed(FAILED)
    elif doing != "write":
        ending = world.manager.commit() if doing == "commit" else world.manager.abort()
    world.manager.delivery_failed(error)
    assert world.manager.state is S.FATAL_ERROR
    assert world.manager.error is error
    assert ending is None or ending.error is error
    world.manager.delivery_failed(UnsupportedVersionError("and another"))
    assert world.manager.error is error
    assert world.next() is None
    for call in (world.manager.commit, world.manager.abort, world.manager.begin):
        with pytest.raises(FatalTransactionError, match="close the producer"):
            call()


def test_records_that_have_not_left_are_dropped_once_there_is_no_commit_any_more() -> None:
    world = opened()
    assert world.manager.discard_error is None
    world.write(ONE)
    world.manager.delivery_failed(FAILED)
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


# --- fencing ---------------------------------------------------------------------------------
def asked_to(world: TransactionWorld, what: str) -> None:
    """The next request is what is to be fenced."""
    manager = world.manager
    wanted: dict[str, Callable[[], object]] = {
        "AddPartitionsToTxn": lambda: manager.add_partition(ONE),
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


# --- the coordinator has no such transaction -------------------------------------------------
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
    assert world.run() == [BUMP]
    assert world.state() is S.READY


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [INVALID_STATE, ABORTABLE, 59])
def test_an_abort_of_what_is_not_open_any_more_is_one(version: int, code: int) -> None:
    world = opened(version)
    world.write(ONE)
    ending = world.manager.abort()
    world.exchange(code)
    assert (ending.done, ending.error) == (True, None)
    assert world.run() == [BUMP], "so that it is true in any case"


# --- calls in the wrong state ----------------------------------------------------------------
def in_state(state: TransactionState) -> TransactionManager:
    world = TransactionWorld()
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
        manager.delivery_failed(FAILED)
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
    S.READY: "begin_transaction() begins one, the block of transaction() begins one and ends it",
    S.IN_TRANSACTION: "commit_transaction() or abort_transaction()",
    S.COMMITTING: "`await producer.commit_transaction()` until it ends",
    S.ABORTING: "`await producer.abort_transaction()` until it ends",
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
            return manager.add_offsets({}, READERS, {})
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
