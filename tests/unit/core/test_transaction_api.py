"""The calls of transactions: waits, cancellation, time-outs, offsets of groups, and the end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext

import pytest

from aioproducer.engine.transactions.requests import (
    EndTxn,
    FindCoordinator,
    Response,
    TxnOffsetCommit,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AbortableTransactionError,
    BrokerConnectionError,
    CommitUnconfirmedError,
    FatalTransactionError,
    IllegalStateError,
    KafkaError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerFencedError,
    ProducerTimeoutError,
)
from aioproducer.model import OffsetAndMetadata, TopicPartition, TransactionHandle
from tests.support.waiting import settle
from tests.support.world import PAYMENTS
from tests.unit.core.transaction_calls import (
    CLOSED,
    FAILED,
    SHORT,
    WAIT_ENDS,
    Calls,
    cancelled,
    ends,
    give_up,
    in_block,
    opened,
    ready,
    wait_for,
    waiting,
)
from tests.unit.transactions.world import (
    CONSUMED,
    FENCED,
    HOME,
    ILLEGAL_GENERATION,
    INVALID_STATE,
    ONE,
    READERS,
    UNAUTHORIZED,
)

S = TransactionState


# --- the way in ------------------------------------------------------------------------------
async def test_a_producer_is_ready_when_the_coordinator_has_answered() -> None:
    calls = Calls()
    task = await waiting(calls.initialize(None))
    assert calls.manager.state is S.INITIALIZING
    assert calls.wakes == 1, "the sender looks"
    calls.changed()
    await settle()
    assert not task.done()
    calls.sender_runs()
    await task
    await calls.initialize(None)
    assert calls.world.state() is S.READY


async def test_a_producer_that_is_refused_gets_the_reason() -> None:
    calls = Calls()
    task = await waiting(calls.initialize(None))
    calls.world.exchange()
    calls.answer(UNAUTHORIZED)
    with pytest.raises(FatalTransactionError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        await task
    with pytest.raises(FatalTransactionError):
        await calls.begin(shared=False)


async def test_a_timeout_says_what_is_known_and_the_next_call_goes_on() -> None:
    calls = Calls()
    calls.delay = ": broker 1 refused the connection"
    with pytest.raises(ProducerTimeoutError) as caught:
        await calls.initialize(SHORT)
    assert str(caught.value) == (
        "transactional id 'payments': init_transactions() is not done within 0.01 s: broker 1 "
        "refused the connection. Check bootstrap_servers, and the brokers"
    )
    calls._max_block = SHORT
    with pytest.raises(ProducerTimeoutError, match=r"within 0.01 s \(max_block_ms\)"):
        await calls.initialize(None)
    await calls.during(calls.initialize(None))
    assert calls.manager.state is S.READY


# --- commit and abort ------------------------------------------------------------------------
@pytest.mark.parametrize("version", [1, 2])
async def test_a_commit_lets_nothing_linger_and_waits_for_the_answer(version: int) -> None:
    calls = await opened(version)
    task = await waiting(calls.commit(None))
    assert calls.closings == 1
    assert calls.manager.state is S.COMMITTING
    calls.answer()
    await task
    assert calls.manager.ending is not None
    assert calls.manager.ending.acknowledged
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        await calls.commit(None)


async def test_an_abort_lets_linger_what_it_drops_anyway() -> None:
    calls = await opened()
    await calls.during(calls.abort(None))
    assert calls.closings == 0
    assert calls.manager.state is S.READY


async def test_two_may_wait_for_the_same_commit() -> None:
    calls = await opened()
    one, two = await waiting(calls.commit(None)), await waiting(calls.commit(None))
    assert calls.closings == 1
    calls.answer()
    await asyncio.gather(one, two)


async def test_a_commit_tells_of_the_batch_that_failed() -> None:
    calls = await opened()
    task = await waiting(calls.commit(None))
    calls.batch_fails()
    with pytest.raises(AbortableTransactionError, match="can't commit") as caught:
        await task
    assert caught.value.__cause__ is FAILED
    with pytest.raises(AbortableTransactionError, match="abort_transaction"):
        await calls.commit(None)
    await calls.during(calls.abort(None))
    await calls.begin(shared=False)


async def test_a_commit_after_a_failure_asks_nobody() -> None:
    calls = await opened()
    calls.batch_fails()
    asked = len(calls.world.asked)
    with pytest.raises(AbortableTransactionError):
        await calls.commit(None)
    assert len(calls.world.asked) == asked


async def test_a_commit_that_is_fenced() -> None:
    calls = await opened()
    task = await waiting(calls.commit(None))
    calls.answer(FENCED)
    with pytest.raises(ProducerFencedError):
        await task
    for call in (calls.commit, calls.abort):
        with pytest.raises(ProducerFencedError, match="close the producer"):
            await call(None)
    with pytest.raises(ProducerFencedError):
        await calls.begin(shared=False)


async def test_an_abort_of_what_another_producer_may_have_committed() -> None:
    calls = await opened(shared=True, writes=False)
    task = await waiting(calls.abort(None))
    calls.answer(INVALID_STATE)
    with pytest.raises(IllegalStateError, match="may have committed it"):
        await task
    await calls.during(calls.begin(shared=True))


# --- a wait that ends before the commit ------------------------------------------------------


@WAIT_ENDS
async def test_the_next_commit_takes_up_the_one_before(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    assert calls.manager.state is S.COMMITTING
    task = await waiting(calls.commit(None))
    assert calls.closings == 1, "it is the same one"
    calls.answer()
    await task
    assert calls.world.state() is S.READY


@WAIT_ENDS
async def test_the_next_commit_tells_what_came_of_the_one_before(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    calls.answer()
    await calls.commit(None)
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        await calls.commit(None)


@WAIT_ENDS
async def test_the_next_transaction_begins_when_the_commit_is_done(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    task = await waiting(calls.begin(shared=False))
    calls.answer()
    await task
    assert calls.manager.state is S.IN_TRANSACTION


async def test_the_fast_path_ends_with_the_state_that_lets_records_pass() -> None:
    calls = await opened()
    assert calls.sending
    calls.manager.delivery_failed(FAILED)  # no round of the sender has followed yet
    with pytest.raises(AbortableTransactionError, match="can't send"):
        calls.check_open()
    assert not calls.sending


@WAIT_ENDS
async def test_the_next_transaction_tells_once_that_the_commit_failed(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    calls.batch_fails()
    with pytest.raises(AbortableTransactionError, match=r"can't commit.*orders-0") as caught:
        await calls.begin(shared=False)
    assert caught.value.__cause__ is FAILED
    with pytest.raises(AbortableTransactionError, match="can't begin"):
        await calls.begin(shared=False)
    await calls.during(calls.abort(None))
    await calls.during(calls.begin(shared=False))


@WAIT_ENDS
async def test_a_commit_under_way_can_t_be_aborted(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    with pytest.raises(IllegalStateError, match="it can't be undone"):
        await calls.abort(None)
    calls.answer()
    with pytest.raises(IllegalStateError, match="can't abort, the transaction was committed"):
        await calls.abort(None)
    await calls.begin(shared=False)


@WAIT_ENDS
async def test_a_commit_that_failed_unseen_can_be_aborted(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    calls.batch_fails()
    await calls.during(calls.abort(None))
    await calls.during(calls.begin(shared=False))


@WAIT_ENDS
async def test_the_next_abort_takes_up_the_one_before(how: str) -> None:
    calls = await opened()
    await give_up(calls, how, commit=False)
    with pytest.raises(IllegalStateError, match="can't commit, aborting"):
        await calls.commit(None)
    await calls.during(calls.abort(None))
    asked = [each for each in calls.world.asked if isinstance(each, EndTxn)]
    assert asked == [EndTxn(committed=False, producer=PAYMENTS)]
    with pytest.raises(IllegalStateError):
        await calls.abort(None)


@WAIT_ENDS
async def test_a_transaction_whose_abort_nobody_waited_for_is_not_committed_later(how: str) -> None:
    calls = await opened()
    await give_up(calls, how, commit=False)
    calls.sender_runs()
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        await calls.commit(None)
    await calls.begin(shared=False)


async def test_a_wait_for_the_next_transaction_can_be_cancelled_as_well() -> None:
    calls = await opened()
    await give_up(calls, "cancelled")
    await cancelled(calls.begin(shared=False))
    assert calls.manager.state is S.COMMITTING
    calls.answer()
    await calls.commit(None)


# --- begin -----------------------------------------------------------------------------------
async def test_begin_waits_for_the_epoch_that_a_failure_costs() -> None:
    calls = await opened()
    calls.batch_fails()
    task = await waiting(calls.abort(None))
    calls.answer()
    await task
    assert calls.manager.state is S.INITIALIZING
    begun = await waiting(calls.begin(shared=False))
    calls.sender_runs()
    await begun
    assert calls.manager.handle.epoch == 1


async def test_a_shared_transaction_waits_for_an_epoch_that_nobody_used() -> None:
    calls = await opened()
    await calls.during(calls.commit(None))
    task = await waiting(calls.begin(shared=True))
    assert calls.manager.state is S.INITIALIZING
    calls.sender_runs()
    await task
    assert calls.share() == calls.manager.handle == TransactionHandle("payments", 70, 1, 1)


async def test_only_a_shared_open_transaction_is_handed_out() -> None:
    calls = await ready()
    with pytest.raises(IllegalStateError, match="can't hand out a transaction, no transaction"):
        calls.share()
    await calls.begin(shared=False)
    with pytest.raises(IllegalStateError, match=r"transaction\(shared=True\)"):
        calls.share()


# --- handed over -----------------------------------------------------------------------------
async def test_one_that_handed_its_transaction_over_leaves_it_open() -> None:
    calls = await opened(shared=True)
    calls.share(over=True)
    calls.leave()
    assert calls.manager.state is S.IN_TRANSACTION


@pytest.mark.parametrize("error", [None, ZeroDivisionError(), asyncio.CancelledError()])
async def test_a_block_that_handed_its_transaction_over_leaves_it_open(
    error: BaseException | None,
) -> None:
    calls = await ready(2)
    with nullcontext() if error is None else pytest.raises(type(error)):
        async with calls.block(shared=True):
            calls.world.write(ONE)
            calls.share(over=True)
            if error is not None:
                raise error
    assert calls.manager.state is S.IN_TRANSACTION
    await calls.during(calls.commit(None))
    assert ends(calls) == [True], "it may still end it"


async def test_what_failed_is_told_before_it_is_left_to_others() -> None:
    calls = await ready(2)

    def hand_over_and_fail() -> None:
        calls.share(over=True)
        calls.batch_fails()

    with pytest.raises(AbortableTransactionError, match="can't leave it to others"):
        await in_block(calls, hand_over_and_fail, shared=True)
    with pytest.raises(AbortableTransactionError, match="can't flush"):
        calls.check_own_part("flush")
    await calls.during(calls.abort(None))


async def test_a_record_that_failed_is_told_by_the_commit_if_it_was_not_handed_over() -> None:
    calls = await opened(shared=True)
    calls.batch_fails()
    calls.check_own_part("flush")


# --- offsets ---------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [1, 2])
async def test_offsets_are_waited_for(version: int) -> None:
    calls = await opened(version, writes=False)
    task = await waiting(calls.send_offsets(CONSUMED, READERS, None))
    calls.sender_runs()
    await task


@pytest.mark.parametrize("version", [1, 2])
async def test_many_offsets_are_written_in_portions(version: int) -> None:
    """The event loop waits for the whole of each request."""
    calls = await opened(version, writes=False)
    offsets = {
        TopicPartition("orders", number): OffsetAndMetadata(number) for number in range(2_500)
    }
    task = await waiting(calls.send_offsets(offsets, READERS, None))
    calls.sender_runs()
    await task
    written = [each for each in calls.world.asked if isinstance(each, TxnOffsetCommit)]
    assert [len(each.offsets) for each in written] == [1_000, 1_000, 500]
    assert {where: each.offsets[where] for each in written for where in each.offsets} == offsets


async def test_no_offsets_are_nothing_to_ask_for() -> None:
    calls = await ready()
    with pytest.raises(IllegalStateError, match="can't send offsets"):
        await calls.send_offsets({}, READERS, None)
    await calls.begin(shared=False)
    await calls.send_offsets({}, READERS, None)
    assert calls.world.next() is None


async def test_offsets_that_are_refused() -> None:
    calls = await opened(2)
    task = await waiting(calls.send_offsets(CONSUMED, READERS, None))
    calls.world.exchange()
    calls.answer(ILLEGAL_GENERATION)
    with pytest.raises(AbortableTransactionError, match="ILLEGAL_GENERATION") as caught:
        await task
    assert isinstance(caught.value.__cause__, KafkaError)


@WAIT_ENDS
async def test_offsets_whose_caller_is_gone_are_written_before_the_commit(how: str) -> None:
    calls = await opened(2)
    if how == "cancelled":
        await cancelled(calls.send_offsets(CONSUMED, READERS, None))
    else:
        with pytest.raises(ProducerTimeoutError, match="Abort the transaction"):
            await calls.send_offsets(CONSUMED, READERS, SHORT)
    calls.world.asked.clear()
    await calls.during(calls.commit(None))
    assert [type(each).__name__ for each in calls.world.asked] == [
        "FindCoordinator",
        "TxnOffsetCommit",
        "EndTxn",
    ]


async def test_whoever_waits_for_offsets_hears_of_the_abort() -> None:
    calls = await opened(2)
    task = await waiting(calls.send_offsets(CONSUMED, READERS, None))
    await calls.during(calls.abort(None))
    with pytest.raises(IllegalStateError, match="can't send offsets"):
        await task


# --- committed offsets of a group ------------------------------------------------------------
PLACES = frozenset(CONSUMED)


def answer_offsets(calls: Calls, code: int = 0) -> None:
    """What the group's coordinator says."""
    offsets = calls.world.group_offsets
    while (request := offsets.next_request()) is not None:
        offsets.sent(request)
        found = isinstance(request, FindCoordinator)
        answer = Response(node=HOME) if found else Response(code, offsets={} if code else CONSUMED)
        offsets.handle_response(request, answer, "host1:9092")
        if code and not found:
            break
    calls.changed()


async def test_offsets_are_fetched_whatever_becomes_of_the_transaction() -> None:
    calls = await ready()

    async def fetch() -> None:
        task = await waiting(calls.fetch_offsets("readers", PLACES, None))
        answer_offsets(calls)
        assert await task == CONSUMED

    await fetch()
    await calls.begin(shared=False)
    calls.world.write(ONE)
    await fetch()
    calls.batch_fails()
    await fetch()
    aborting = await waiting(calls.abort(None))
    assert calls.manager.state is S.ABORTING
    await fetch()
    calls.answer()
    assert calls.world.state() is S.INITIALIZING, "the next epoch is still to come"
    await fetch()
    await aborting
    committing = await waiting(commit_in_a_new_transaction(calls))
    assert calls.world.state() is S.COMMITTING
    await fetch()
    await calls.during(wait_for(committing))


async def commit_in_a_new_transaction(calls: Calls) -> None:
    calls.sender_runs()
    await calls.begin(shared=False)
    calls.world.write(ONE)
    await calls.commit(None)


async def test_nothing_is_fetched_without_an_identity() -> None:
    calls = Calls()
    refused = pytest.raises(IllegalStateError, match=r"can't fetch offsets.*init_transactions")
    with refused:
        await calls.fetch_offsets("readers", PLACES, None)
    task = await waiting(calls.initialize(None))
    with refused:
        await calls.fetch_offsets("readers", PLACES, None)
    await calls.during(wait_for(task))
    assert await calls.fetch_offsets("readers", frozenset(), None) == {}
    joined = Calls(joined=TransactionHandle("payments", 9, 4, 1))
    task = await waiting(joined.fetch_offsets("readers", PLACES, None))
    answer_offsets(joined)
    assert await task == CONSUMED


async def test_offsets_that_can_t_be_fetched_are_no_matter_of_the_transaction() -> None:
    calls = await opened()
    task = await waiting(calls.fetch_offsets("readers", PLACES, None))
    answer_offsets(calls, UNAUTHORIZED)
    with pytest.raises(KafkaError) as caught:
        await task
    assert caught.value.code == UNAUTHORIZED
    assert calls.manager.state is S.IN_TRANSACTION
    await calls.during(calls.commit(None))


@WAIT_ENDS
async def test_nobody_asks_for_offsets_whose_caller_is_gone(how: str) -> None:
    calls = await ready()
    if how == "cancelled":
        await cancelled(calls.fetch_offsets("readers", PLACES, None))
    else:
        calls.world.group_offsets.last_error = BrokerConnectionError("in the way")
        with pytest.raises(
            ProducerTimeoutError, match=r"committed_offsets.*in the way\. Try again"
        ):
            await calls.fetch_offsets("readers", PLACES, SHORT)
    assert calls.world.group_offsets.next_request() is None


async def test_who_waits_for_offsets_in_a_producer_that_is_fenced_is_told_so() -> None:
    calls = await opened()
    task = await waiting(calls.fetch_offsets("readers", PLACES, None))
    calls.batch_fails(ProducerFencedError("a newer producer"))
    with pytest.raises(FatalTransactionError, match="can't fetch offsets"):
        await task
    with pytest.raises(FatalTransactionError):
        await calls.fetch_offsets("readers", PLACES, None)
    assert calls.world.group_offsets.next_request() is None


async def test_who_waits_for_offsets_when_the_producer_ends_is_told_so() -> None:
    for error in (CLOSED, ProducerBrokenError("broken")):
        calls = await ready()
        task = await waiting(calls.fetch_offsets("readers", PLACES, None))
        calls.close(error)
        with pytest.raises(type(error), match=r"while committed_offsets\(\) waited|broken"):
            await task


@pytest.mark.parametrize("what", ["initialize", "commit", "abort", "offsets", "begin"])
async def test_who_waits_when_the_producer_ends_is_told_so(what: str) -> None:
    if what == "initialize":
        calls = Calls()
        task = await waiting(calls.initialize(None))
    else:
        calls = await opened()
        if what == "begin":
            await cancelled(calls.commit(None))
        task = await waiting(
            {
                "commit": lambda: calls.commit(None),
                "abort": lambda: calls.abort(None),
                "offsets": lambda: calls.send_offsets(CONSUMED, READERS, None),
                "begin": lambda: calls.begin(shared=False),
            }[what]()
        )
    calls.close(CLOSED)
    unknown = what in ("commit", "begin")
    with pytest.raises(CommitUnconfirmedError if unknown else ProducerClosedError) as caught:
        await task
    told = caught.value.__cause__ if unknown else caught.value
    assert isinstance(told, ProducerClosedError)
    assert str(told) == str(CLOSED)
    assert told is not CLOSED, "each has its own"


async def test_what_was_done_when_the_producer_ends_is_done() -> None:
    calls = await opened()
    task = await waiting(calls.commit(None))
    calls.world.run()
    calls.close(CLOSED)
    await task


async def test_a_producer_that_is_closed_in_a_transaction_aborts_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = await opened()
    assert calls.manager.is_open
    with caplog.at_level(logging.WARNING):
        calls.leave()
    assert calls.manager.state is S.ABORTING
    assert "closed in a transaction, which is aborted" in caplog.text
    wakes = calls.wakes
    calls.leave()
    assert calls.wakes == wakes + 1, "twice is once"
    calls.sender_runs()
    assert not calls.manager.is_open


async def test_one_that_has_joined_leaves_the_transaction_open() -> None:
    calls = Calls(joined=TransactionHandle("payments", 9, 4, 1))
    calls.leave()
    assert calls.manager.state is S.IN_TRANSACTION


async def test_a_producer_that_is_closed_in_a_commit_goes_on_with_it() -> None:
    calls = await opened()
    task = await waiting(calls.commit(None))
    calls.leave()
    calls.answer()
    await task
