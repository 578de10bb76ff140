"""What users do with transactions: calls that wait, are cancelled, time out, and blocks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import nullcontext
from typing import Any

import pytest

from aioproducer.core.transaction_api import SenderCommands, TransactionApi
from aioproducer.errors import (
    AbortableTransactionError,
    AuthenticationError,
    BrokerConnectionError,
    CommitUnconfirmedError,
    DeliveryTimeoutError,
    FatalTransactionError,
    IllegalStateError,
    KafkaError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerFencedError,
    ProducerTimeoutError,
)
from aioproducer.metrics import ProducerMetrics
from aioproducer.model import TransactionHandle
from aioproducer.transactions.requests import EndTxn, FindCoordinator, Response
from aioproducer.transactions.states import TransactionState
from tests.unit.transactions.world import (
    CONSUMED,
    FENCED,
    HOME,
    ILLEGAL_GENERATION,
    INVALID_STATE,
    ONE,
    READERS,
    UNAUTHORIZED,
    World,
)

S = TransactionState
FAILED = DeliveryTimeoutError("orders-0: not acknowledged")
CLOSED = ProducerClosedError("closed")
LONG, SHORT = 30.0, 0.01


class Calls(TransactionApi):
    """The calls of a producer whose sender is played."""

    def __init__(self, version: int = 1, joined: TransactionHandle | None = None) -> None:
        self.world = World(version, joined)
        self.wakes = 0
        self.closings = 0
        self.delay = ""
        self.sending = False
        self.now = 100.0
        self.metrics = ProducerMetrics(now=self.now)
        super().__init__(
            self.world.manager,
            self.world.group_offsets,
            SenderCommands(
                wake=self._woken,
                close_batches=self._batches_closed,
                allow_sending=self._sending_allowed,
                describe_delay=lambda error: f": {error}" if error else self.delay,
            ),
            max_block=LONG,
            metrics=self.metrics,
            clock=lambda: self.now,
        )

    def _woken(self) -> None:
        self.wakes += 1

    def _batches_closed(self) -> None:
        self.closings += 1

    def _sending_allowed(self, is_open: bool) -> None:
        self.sending = is_open

    def batch_fails(self, error: ProducerError = FAILED) -> None:
        self.manager.batch_failed(error)
        self.changed()

    def answer(self, code: int = 0, **said: Any) -> None:
        """One question to the transaction coordinator, and its answer."""
        while not isinstance(self.world.next(), EndTxn) and code == 0:
            self.world.exchange()
        self.world.exchange(code, **said)
        self.changed()

    def sender_runs(self) -> None:
        """Everything is answered without error."""
        self.world.run()
        self.changed()

    async def during(self, call: Coroutine[Any, Any, Any]) -> None:
        """The whole ``call``, whose questions are all answered."""
        task = started(call)
        for _ in range(20):
            await settle()
            if task.done():
                break
            self.sender_runs()
        await task


def started(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(call)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def waiting(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """``call``, which waits."""
    task = started(call)
    await settle()
    assert not task.done()
    return task


async def cancelled(call: Coroutine[Any, Any, Any]) -> None:
    """``call`` is begun, and its caller gives up."""
    task = await waiting(call)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def ready(version: int = 1) -> Calls:
    calls = Calls(version)
    await calls.during(calls.initialize(None))
    return calls


async def opened(version: int = 1, *, writes: bool = True, shared: bool = False) -> Calls:
    """A transaction is open, with a partition in it."""
    calls = await ready(version)
    await calls.begin(shared=shared)
    if shared:
        calls.share()
    if writes:
        calls.world.write(ONE)
    return calls


# --- the way in --------------------------------------------------------------------------------


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


# --- commit and abort --------------------------------------------------------------------------


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


# --- whose wait ends before the commit ---------------------------------------------------------


async def give_up(calls: Calls, how: str, *, commit: bool = True) -> None:
    call = calls.commit if commit else calls.abort
    if how == "cancelled":
        await cancelled(call(None))
        return
    with pytest.raises(ProducerTimeoutError, match="the outcome is not known yet: `await"):
        await call(SHORT)


ENDS = pytest.mark.parametrize("how", ["cancelled", "timed out"])


@ENDS
async def test_the_next_commit_takes_up_the_one_before(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    assert calls.manager.state is S.COMMITTING
    task = await waiting(calls.commit(None))
    assert calls.closings == 1, "it is the same one"
    calls.answer()
    await task
    assert calls.world.state() is S.READY


@ENDS
async def test_the_next_commit_tells_what_came_of_the_one_before(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    calls.answer()
    await calls.commit(None)
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        await calls.commit(None)


@ENDS
async def test_the_next_transaction_begins_when_the_commit_is_done(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    task = await waiting(calls.begin(shared=False))
    calls.answer()
    await task
    assert calls.manager.state is S.IN_TRANSACTION


@ENDS
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


@ENDS
async def test_a_commit_under_way_can_t_be_aborted(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    with pytest.raises(IllegalStateError, match="it can't be taken back"):
        await calls.abort(None)
    calls.answer()
    with pytest.raises(IllegalStateError, match="can't abort, the transaction was committed"):
        await calls.abort(None)
    await calls.begin(shared=False)


@ENDS
async def test_a_commit_that_failed_unseen_can_be_aborted(how: str) -> None:
    calls = await opened()
    await give_up(calls, how)
    calls.batch_fails()
    await calls.during(calls.abort(None))
    await calls.during(calls.begin(shared=False))


@ENDS
async def test_the_next_abort_takes_up_the_one_before(how: str) -> None:
    calls = await opened()
    await give_up(calls, how, commit=False)
    with pytest.raises(IllegalStateError, match="can't commit, aborting"):
        await calls.commit(None)
    await calls.during(calls.abort(None))
    asked = [each for each in calls.world.asked if isinstance(each, EndTxn)]
    assert asked == [EndTxn(committed=False)]
    with pytest.raises(IllegalStateError):
        await calls.abort(None)


@ENDS
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


# --- begin -------------------------------------------------------------------------------------


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


# --- offsets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
async def test_offsets_are_waited_for(version: int) -> None:
    calls = await opened(version, writes=False)
    task = await waiting(calls.send_offsets(CONSUMED, READERS, None))
    calls.sender_runs()
    await task


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


@ENDS
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


# --- where a group has got to ------------------------------------------------------------------

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


@ENDS
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


# --- handed over -------------------------------------------------------------------------------


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


# --- the end of the producer -------------------------------------------------------------------


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
    assert calls.open
    with caplog.at_level(logging.WARNING):
        calls.leave()
    assert calls.manager.state is S.ABORTING
    assert "closed in a transaction, which is aborted" in caplog.text
    wakes = calls.wakes
    calls.leave()
    assert calls.wakes == wakes + 1, "twice is once"
    calls.sender_runs()
    assert not calls.open


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


# --- the block ---------------------------------------------------------------------------------


async def in_block(calls: Calls, does: Any = None, *, shared: bool = False) -> None:
    async with calls.block(shared=shared):
        calls.world.write(ONE)
        if does is not None:
            result = does()
            if asyncio.iscoroutine(result):
                await result


def ends(calls: Calls) -> list[bool]:
    """The ends that were asked for: whether each was a commit."""
    return [each.committed for each in calls.world.asked if isinstance(each, EndTxn)]


async def test_a_block_commits() -> None:
    calls = await ready()
    await calls.during(in_block(calls))
    assert ends(calls) == [True]
    await calls.during(in_block(calls, shared=True))
    assert ends(calls) == [True, True]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), FAILED], ids=repr)
async def test_an_exception_in_a_block_aborts_and_comes_out(error: BaseException) -> None:
    calls = await ready()

    async def block() -> BaseException | None:
        async with calls.block(shared=False):
            calls.world.write(ONE)
            raise error

    async def outcome() -> None:
        try:
            await block()
        except BaseException as caught:
            assert caught is error  # noqa: PT017 - pytest.raises() and KeyboardInterrupt in a task

    await calls.during(outcome())
    assert ends(calls) == [False]
    assert calls.manager.state is S.READY


async def test_a_block_that_is_cancelled_aborts() -> None:
    calls = await ready()
    task = await waiting(in_block(calls, lambda: asyncio.sleep(LONG)))
    task.cancel()
    await settle()
    assert calls.manager.state is S.ABORTING
    assert not task.done(), "it waits for the abort"
    calls.sender_runs()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends(calls) == [False]


async def test_a_block_that_is_cancelled_again_leaves_the_abort_to_the_sender() -> None:
    calls = await ready()
    task = await waiting(in_block(calls, lambda: asyncio.sleep(LONG)))
    for _ in range(2):
        task.cancel()
        await settle()
    assert task.done()
    assert calls.manager.state is S.ABORTING
    await calls.during(calls.begin(shared=False))


async def test_a_block_whose_commit_is_cancelled_leaves_it_to_the_sender() -> None:
    calls = await ready()
    task = await waiting(in_block(calls))
    assert calls.manager.state is S.COMMITTING
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls.manager.state is S.COMMITTING
    await calls.during(in_block(calls))
    assert ends(calls) == [True, True]


async def test_a_commit_that_fails_at_the_end_of_a_block_is_aborted() -> None:
    calls = await ready()
    task = await waiting(in_block(calls))
    calls.batch_fails()
    await settle()
    assert calls.manager.state is S.ABORTING
    calls.sender_runs()
    with pytest.raises(AbortableTransactionError, match="can't commit"):
        await task
    assert ends(calls) == [False]
    await calls.during(in_block(calls))


async def test_a_transaction_that_failed_in_a_block_is_aborted_at_its_end() -> None:
    calls = await ready()
    with pytest.raises(AbortableTransactionError, match="can't commit") as caught:
        await calls.during(in_block(calls, calls.batch_fails))
    assert caught.value.__cause__ is FAILED
    assert ends(calls) == [False]


async def test_a_commit_that_takes_too_long_is_not_aborted() -> None:
    calls = await ready()
    calls._max_block = SHORT
    with pytest.raises(ProducerTimeoutError):
        await in_block(calls)
    assert calls.manager.state is S.COMMITTING
    calls._max_block = LONG
    await calls.during(in_block(calls))
    assert ends(calls) == [True, True]


async def test_a_block_tells_of_the_commit_that_nobody_waited_for_and_aborts_it() -> None:
    calls = await ready()
    await cancelled(in_block(calls))
    calls.batch_fails()
    with pytest.raises(AbortableTransactionError, match="can't commit"):
        await calls.during(in_block(calls))
    assert ends(calls) == [False]
    await calls.during(in_block(calls))


async def test_a_block_does_not_abort_the_failed_transaction_of_another_task() -> None:
    calls = await ready()
    others = asyncio.Event()

    async def wait_in_block() -> None:
        async with calls.block(shared=False):
            calls.world.write(ONE)
            await others.wait()

    task = await waiting(wait_in_block())
    calls.batch_fails()
    with pytest.raises(AbortableTransactionError, match="can't begin"):
        await calls.during(in_block(calls))
    assert ends(calls) == [], "it is the other task's"
    others.set()
    with pytest.raises(AbortableTransactionError, match="can't commit"):
        await calls.during(wait_for(task))
    assert ends(calls) == [False]


async def wait_for(task: asyncio.Task[Any]) -> None:
    await task


async def test_the_reason_of_a_failed_commit_is_told_though_it_was_aborted_meanwhile() -> None:
    calls = await opened()
    task = await waiting(calls.commit(None))
    calls.batch_fails()
    calls.manager.abort()
    with pytest.raises(AbortableTransactionError, match="can't commit") as caught:
        await task
    assert caught.value.__cause__ is FAILED


async def test_a_transaction_committed_in_the_block_stays_so_when_the_producer_is_closed() -> None:
    calls = await ready()

    async def commit_and_close() -> None:
        calls.world.write(ONE)
        await calls.commit(None)
        calls.leave()
        calls.close(CLOSED)

    await calls.during(in_block(calls, commit_and_close))
    assert ends(calls) == [True]


async def test_a_fatal_error_replaces_an_error_of_the_producer() -> None:
    """Which may well be its consequence."""
    calls = await ready()

    def fenced() -> None:
        calls.manager.fail(ProducerFencedError("another one has the transactional id"))
        raise FAILED

    with pytest.raises(ProducerFencedError, match="can't abort") as caught:
        await calls.during(in_block(calls, fenced))
    assert caught.value.__cause__ is FAILED


async def test_a_fatal_error_is_told_beside_an_error_of_the_users(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = await ready()
    error = ValueError("mine")

    def fenced() -> None:
        calls.manager.fail(ProducerFencedError("another one has the transactional id"))
        raise error

    with pytest.raises(ValueError, match="mine") as caught:
        await calls.during(in_block(calls, fenced))
    assert caught.value is error
    (note,) = error.__notes__
    assert note.startswith("The transaction was not aborted: transactional id 'payments'")
    assert "another one has the transactional id" in note
    assert "the abort failed" in caplog.text


async def test_an_abort_that_takes_too_long_is_told_beside_the_error() -> None:
    calls = await ready()
    calls._max_block = SHORT

    def fails() -> None:
        raise BrokerConnectionError("broken")

    with pytest.raises(BrokerConnectionError) as caught:
        await in_block(calls, fails)
    assert "abort_transaction() is not done within" in caught.value.__notes__[0]
    assert calls.manager.state is S.ABORTING


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("fails", [True, False])
async def test_a_block_whose_transaction_was_ended_in_it_ends_nothing(
    committed: bool, fails: bool
) -> None:
    calls = await ready()

    async def end() -> None:
        await (calls.commit(None) if committed else calls.abort(None))
        if fails:
            raise ValueError("mine")

    if fails:
        with pytest.raises(ValueError, match="mine"):
            await calls.during(in_block(calls, end))
    else:
        await calls.during(in_block(calls, end))
    assert ends(calls) == [committed]
    assert calls.manager.state is S.READY


async def test_a_producer_closed_in_the_block_has_not_committed() -> None:
    calls = await ready()

    def close() -> None:
        calls.leave()
        calls.world.run()
        calls.close(CLOSED)

    with pytest.raises(ProducerClosedError):
        await in_block(calls, close)
    assert ends(calls) == [False]


async def test_a_producer_that_ends_in_the_block_does_not_hide_its_error() -> None:
    calls = await ready()

    def close() -> None:
        calls.leave()
        calls.close(CLOSED)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await in_block(calls, close)


async def test_a_block_in_a_block_is_refused_and_the_outer_one_aborts() -> None:
    calls = await ready()
    with pytest.raises(IllegalStateError, match="end it first"):
        await calls.during(in_block(calls, lambda: in_block(calls)))
    assert ends(calls) == [False]


async def test_who_waits_for_a_producer_id_is_told_that_no_broker_lets_it_in() -> None:
    calls = Calls()
    refusal = AuthenticationError("wrong password")
    tasks = [await waiting(calls.initialize(None)) for _ in range(2)]
    calls.login_refused(refusal)
    for task in tasks:
        with pytest.raises(AuthenticationError, match="wrong password") as caught:
            await task
        assert caught.value is not refusal
    await calls.during(calls.initialize(None))  # the password was changed meanwhile


async def test_a_refused_login_ends_no_transaction_that_is_under_way() -> None:
    calls = Calls()
    await calls.during(calls.initialize(None))
    await calls.begin(shared=False)
    calls.login_refused(AuthenticationError("wrong password"))
    assert calls.manager.state is S.IN_TRANSACTION
