"""Transactions that are used in the wrong way, or closed in any state: each call says so."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest

from aioproducer import (
    AbortableTransactionError,
    CommitUnconfirmedError,
    ConsumerGroupMetadata,
    IllegalStateError,
    OffsetAndMetadata,
    Producer,
    ProducerClosedError,
    TopicPartition,
    UsageError,
    WrongLoopError,
    errors,
)
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.mock_cluster.transactions.transacting import (
    ADD_OFFSETS,
    END,
    FIND_COORDINATOR,
    NAME,
    NAMED,
    OFFSETS,
    PRODUCE,
    hold,
    new,
    requests,
    started,
    transact,
    until_asked,
)


async def test_without_a_transactional_id_there_are_no_transactions(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        missing = "has no transactional_id: give it one"
        for call in (producer.transaction, producer.transaction_handle):
            with pytest.raises(IllegalStateError, match=missing):
                call()
        for waiting in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
        ):
            with pytest.raises(IllegalStateError, match=missing):
                await waiting()
        with pytest.raises(IllegalStateError, match=missing):
            await producer.send_offsets_to_transaction(OFFSETS, "readers")
        assert (await producer.send("orders", b"v")).topic == "orders"


async def test_what_does_not_fit_the_state_says_what_does(orders: MockCluster) -> None:
    async with started(orders) as producer:
        outside = f"{NAMED}: can't {{}}, no transaction is open; begin_transaction.. begins one"
        with pytest.raises(IllegalStateError, match=outside.format("send")):
            producer.send("orders", b"v")
        with pytest.raises(IllegalStateError, match=outside.format("commit")):
            await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match=outside.format("abort")):
            await producer.abort_transaction()
        for offsets in (OFFSETS, {}):
            with pytest.raises(IllegalStateError, match=outside.format("send offsets")):
                await producer.send_offsets_to_transaction(offsets, "readers")
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.transaction_handle()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.send_many("orders", [b"v"] * 3)
        async with producer.transaction():
            with pytest.raises(IllegalStateError, match=f"{NAMED}.*in transaction; end it first"):
                await producer.begin_transaction()
            with pytest.raises(IllegalStateError, match="end it first"):
                async with producer.transaction():
                    pass
            with pytest.raises(IllegalStateError, match=r"shared=True"):
                producer.transaction_handle()
            assert (await producer.send_many("orders", [b"v"] * 3)).delivered == 3
        await producer.begin_transaction()
        await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match=outside.format("commit")):
            await producer.commit_transaction()
        await transact(producer)


async def test_a_block_may_end_its_transaction_itself(orders: MockCluster) -> None:
    async with started(orders) as producer:
        async with producer.transaction():
            producer.send("orders", b"v")
            await producer.commit_transaction()
        async with producer.transaction():
            producer.send("orders", b"v")
            await producer.abort_transaction()
        await transact(producer)


WRONG_OFFSETS: list[tuple[Any, Any]] = [
    (5, "readers"),
    ("orders", "readers"),
    ({"orders": 5}, "readers"),
    ({("orders", 0): "5"}, "readers"),
    ({("orders", 0): -1}, "readers"),
    ({("orders", 0): None}, "readers"),
    ({("orders", -1): 5}, "readers"),
    ({("orders", 0): True}, "readers"),
    ({("orders", 0): OffsetAndMetadata(5, b"m")}, "readers"),  # type: ignore[arg-type]
    ([object()], "readers"),
    (OFFSETS, ""),
    (OFFSETS, None),
    (OFFSETS, ConsumerGroupMetadata("")),
    (OFFSETS, 7),
]


@pytest.mark.parametrize(("offsets", "group"), WRONG_OFFSETS)
async def test_wrong_offsets_raise_at_the_call(
    orders: MockCluster, offsets: Any, group: Any
) -> None:
    async with started(orders) as producer, producer.transaction():
        with pytest.raises(errors.InvalidOffsetError) as raised:
            await producer.send_offsets_to_transaction(offsets, group)
        assert isinstance(raised.value, UsageError)
        assert requests(orders, ADD_OFFSETS) == []
        await producer.send_offsets_to_transaction(
            {TopicPartition("orders", 0): OffsetAndMetadata(5, "m", 0)}, "readers"
        )


@pytest.mark.parametrize(
    ("group", "partitions", "match"),
    [
        (7, [("orders", 0)], "the consumer group is its id"),
        ("", [("orders", 0)], "the consumer group is its id"),
        ("readers\ud800", [("orders", 0)], "UTF-8"),
        ("readers", None, "an iterable of TopicPartition, not NoneType"),
        ("readers", "orders", "TopicPartition"),
        ("readers", TopicPartition("orders", 0), "TopicPartition"),
        ("readers", [("orders", -1)], "TopicPartition"),
        ("readers", [("orders", 2**31)], "TopicPartition"),
        ("readers", [("", 0)], "a topic is"),
    ],
)
async def test_wrong_partitions_and_groups_raise_at_the_call(
    orders: MockCluster, group: Any, partitions: Any, match: str
) -> None:
    async with started(orders) as producer:
        with pytest.raises(UsageError, match=match):
            await producer.committed_offsets(group, partitions)
        assert await producer.committed_offsets("readers", iter(())) == {}
        await transact(producer)
        assert requests(orders, FIND_COORDINATOR) == []


async def test_offsets_of_brokers_that_do_not_know_open_transactions(orders: MockCluster) -> None:
    """The mock cluster answers OffsetFetch up to version 6 only."""
    async with started(orders) as producer, producer.transaction():
        sent = producer.send("orders", b"v", partition=0)
        with pytest.raises(errors.UnsupportedVersionError, match="too old to exclude offsets"):
            await producer.committed_offsets("readers", [TopicPartition("orders", 0)])
    assert sent.done()


@pytest.mark.parametrize("timeout", [-1, "1", True, float("nan")])
async def test_wrong_timeouts_raise_at_the_call(orders: MockCluster, timeout: Any) -> None:
    async with started(orders) as producer:
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: producer.init_transactions(timeout),
            lambda: producer.commit_transaction(timeout),
            lambda: producer.abort_transaction(timeout),
            lambda: producer.send_offsets_to_transaction(OFFSETS, "readers", timeout),
            lambda: producer.committed_offsets("readers", [], timeout),
        ]
        await producer.begin_transaction()
        for call in calls:
            with pytest.raises(UsageError, match="a timeout is a number of seconds"):
                await call()
        await producer.commit_transaction()


def test_a_transaction_belongs_to_its_loop(orders: MockCluster) -> None:
    async def elsewhere(producer: Producer) -> None:
        with pytest.raises(WrongLoopError):
            producer.transaction()
        for call in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
        ):
            with pytest.raises(WrongLoopError):
                await call()
        with pytest.raises(WrongLoopError):
            await producer.send_offsets_to_transaction(OFFSETS, "readers")
        with pytest.raises(WrongLoopError):
            await producer.committed_offsets("readers", [])
        with pytest.raises(WrongLoopError):
            producer.transaction_handle(hand_over=True)

    with asyncio.Runner() as runner:
        producer = new(orders)
        runner.run(producer.start())
        with asyncio.Runner() as other:
            other.run(elsewhere(producer))
        runner.run(transact(producer))
        runner.run(producer.close())


async def test_a_producer_that_is_not_there(orders: MockCluster) -> None:
    producer = new(orders)
    with pytest.raises(IllegalStateError, match="not started"):
        producer.transaction()
    await producer.start()
    await producer.close()
    with pytest.raises(ProducerClosedError):
        producer.transaction()
    for call in (producer.begin_transaction, lambda: producer.committed_offsets("readers", [])):
        with pytest.raises(ProducerClosedError):
            await call()


async def test_close_waits_for_a_commit_under_way(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        producer.send("orders", b"v", partition=0)
        hold(orders, END)
        committing = asyncio.create_task(producer.commit_transaction())
        await until_asked(orders, END)
        assert await producer.close() == 0
        await committing


@pytest.mark.parametrize("call", ["commit", "abort"])
async def test_close_at_once_leaves_an_end_unknown(orders: MockCluster, call: str) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        hold(orders, END, 60_000)
        ending = asyncio.create_task(getattr(producer, f"{call}_transaction")())
        await until_asked(orders, END)
        began = time.monotonic()
        assert await producer.close(0) == 0
        assert time.monotonic() - began < 5
        kind = CommitUnconfirmedError if call == "commit" else ProducerClosedError
        with pytest.raises(kind, match="its outcome is not known here"):
            await ending


async def test_close_aborts_what_is_open(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        with caplog.at_level(logging.WARNING, "aioproducer"):
            assert await producer.close() == 0
        assert len(requests(orders, END)) == 1
    assert f"transactional id '{NAME}': closed in a transaction, which is aborted" in caplog.text


async def test_close_is_bounded_when_the_coordinator_is_dead(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        orders.set_broker_down(ALL_BROKERS)
        began = time.monotonic()
        await producer.close(0.3)
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("fails", [False, True], ids=["no exception", "an exception"])
async def test_close_leaves_open_what_was_handed_over(orders: MockCluster, fails: bool) -> None:
    async with started(orders) as producer:
        with pytest.raises(ZeroDivisionError) if fails else nullcontext():
            async with producer.transaction(shared=True):
                producer.send("orders", b"v", partition=0)
                handle = producer.transaction_handle(hand_over=True)
                producer.send("orders", b"w", partition=0)
                if fails:
                    raise ZeroDivisionError
        with pytest.raises(IllegalStateError, match="end it first"):
            await producer.begin_transaction()
        await producer.flush()
        assert await producer.close() == 0
        assert requests(orders, END) == []
        async with Producer(
            bootstrap_servers=orders.bootstrap_servers, transaction=handle
        ) as another:
            await another.commit_transaction()
        assert requests(orders, END) == [1]


async def test_a_record_that_fails_is_told_before_others_commit(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction(shared=True)
        producer.transaction_handle(hand_over=True)
        orders.push_request_errors(PRODUCE, 29)
        lost = producer.send("orders", b"v", partition=0)
        with pytest.raises(AbortableTransactionError, match=r"can't flush.*orders-0"):
            await producer.flush()
        assert lost.exception() is not None
        await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match="handed its transaction over"):
            await producer.begin_transaction()


async def test_who_handed_a_transaction_over_may_end_it_as_well(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction(shared=True)
        producer.transaction_handle(hand_over=True)
        sent = producer.send("orders", b"v", partition=0)
        await producer.commit_transaction()
        assert sent.done()
        assert requests(orders, END) == [1]


async def test_close_within_a_block_is_told_by_it(orders: MockCluster) -> None:
    async def block(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("orders", b"v", partition=0)
            await producer.close()

    async with started(orders) as producer:
        with pytest.raises(ProducerClosedError):
            await block(producer)
        assert len(requests(orders, END)) == 1


async def test_a_commit_waits_for_records_on_their_way_while_it_can_take_them(
    orders: MockCluster,
) -> None:
    async with started(orders) as producer:
        api = producer._core.engine.transactions
        assert api is not None
        api.records_come = asyncio.Event().wait
        await producer.begin_transaction()
        with pytest.raises(CommitUnconfirmedError, match=r"has not begun within 0.1 s"):
            await producer.commit_transaction(timeout=0.1)
        orders.push_request_errors(PRODUCE, 29)
        with pytest.raises(errors.KafkaError):
            await producer.send("orders", b"v", partition=0)
        with pytest.raises(AbortableTransactionError):
            await producer.commit_transaction(timeout=0.1)
        await producer.abort_transaction()
