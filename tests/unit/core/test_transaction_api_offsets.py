"""The calls of transactions that write or read the offsets of groups."""

from __future__ import annotations

import pytest

from aioproducer.engine.transactions.requests import FindCoordinator, Response, TxnOffsetCommit
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AbortableTransactionError,
    BrokerConnectionError,
    FatalTransactionError,
    IllegalStateError,
    KafkaError,
    ProducerBrokenError,
    ProducerFencedError,
    ProducerTimeoutError,
)
from aioproducer.model import OffsetAndMetadata, TopicPartition, TransactionHandle
from tests.unit.core.transaction_calls import (
    CLOSED,
    SHORT,
    WAIT_ENDS,
    Calls,
    cancelled,
    opened,
    ready,
    wait_for,
    waiting,
)
from tests.unit.transactions.world import (
    CONSUMED,
    HOME,
    ILLEGAL_GENERATION,
    ONE,
    READERS,
    UNAUTHORIZED,
)

S = TransactionState


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
