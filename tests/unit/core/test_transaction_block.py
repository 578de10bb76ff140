"""The block of a transaction: it commits at its end, and aborts on any exception."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AbortableTransactionError,
    AuthenticationError,
    BrokerConnectionError,
    IllegalStateError,
    ProducerClosedError,
    ProducerFencedError,
    ProducerTimeoutError,
)
from tests.support.waiting import settle
from tests.unit.core.transaction_calls import (
    CLOSED,
    FAILED,
    LONG,
    SHORT,
    Calls,
    cancelled,
    ends,
    in_block,
    opened,
    ready,
    wait_for,
    waiting,
)
from tests.unit.transactions.world import ONE

S = TransactionState


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
