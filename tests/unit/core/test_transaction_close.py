"""The calls of transactions of a producer that is closed or refused."""

from __future__ import annotations

import logging

import pytest

from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import CommitUnconfirmedError, ProducerClosedError
from aioproducer.model import TransactionHandle
from tests.unit.core.transaction_calls import CLOSED, Calls, cancelled, opened, waiting
from tests.unit.transactions.world import CONSUMED, READERS

S = TransactionState


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
