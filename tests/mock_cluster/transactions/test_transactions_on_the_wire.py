"""What goes wrong with transactions on the wire: what passes, what is aborted, what is the end.

The mock cluster speaks version 1 of the protocol. It keeps no transactions, so what is committed is
what the client says; the tests with a real Kafka look into the logs. Its FindCoordinator answers
have no host where they tell an error, which no Kafka does and nobody can read.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioproducer import (
    AbortableTransactionError,
    FatalTransactionError,
    Producer,
    ProducerClosedError,
    ProducerError,
    ProducerFencedError,
    TransactionAbortedError,
    errors,
)
from aioproducer.testing.mock_cluster import DISCONNECT, MockCluster
from tests.mock_cluster.transactions.transacting import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT_OFFSETS,
    CONCURRENT,
    END,
    INIT_PRODUCER_ID,
    LOADING,
    NAMED,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    OFFSETS,
    PATIENCE,
    PRODUCE,
    new,
    requests,
    started,
    tasks,
    transact,
)


async def write_offsets_and_commit(producer: Producer) -> None:
    """What is left to do in a transaction."""
    await producer.send_offsets_to_transaction(OFFSETS, "readers")
    await producer.commit_transaction()


PASSING = [
    *[
        (api, code)
        for api in (ADD_PARTITIONS, ADD_OFFSETS, END)
        for code in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT, DISCONNECT)
    ],
    *[(COMMIT_OFFSETS, code) for code in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR, 7, DISCONNECT)],
    *[(COMMIT_OFFSETS, 3), (ADD_PARTITIONS, 3), (END, 7), (END, -1)],
]


@pytest.mark.parametrize(("api", "code"), PASSING)
async def test_an_error_that_may_pass_is_asked_again(
    orders: MockCluster, api: int, code: int
) -> None:
    async with started(orders) as producer:
        orders.push_request_errors(api, code, code)
        await transact(producer)
        assert len(requests(orders, api)) == 3
        await transact(producer)


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT, DISCONNECT])
async def test_the_start_waits_for_what_may_pass(orders: MockCluster, code: int) -> None:
    orders.start_request_tracking()
    orders.push_request_errors(INIT_PRODUCER_ID, code, code)
    async with new(orders) as producer:
        assert len(requests(orders, INIT_PRODUCER_ID)) == 3
        await transact(producer)


async def test_concurrent_transactions_are_asked_again_within_milliseconds(
    orders: MockCluster,
) -> None:
    patient = {"retry_backoff_ms": 10_000, "retry_backoff_max_ms": 10_000}
    async with started(orders, **patient) as producer:
        orders.push_request_errors(END, *[CONCURRENT] * 3)
        began = time.monotonic()
        await transact(producer)
        assert time.monotonic() - began < 7


ABORTABLE = [
    (ADD_PARTITIONS, 29, "TopicAuthorizationFailedError", "orders-0.*WRITE permission"),
    (ADD_PARTITIONS, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (ADD_PARTITIONS, -1, "UnknownServerError", "UNKNOWN_SERVER_ERROR"),
    (ADD_PARTITIONS, 55, "OperationNotAttemptedError", "OPERATION_NOT_ATTEMPTED"),
    (ADD_OFFSETS, 30, "GroupAuthorizationFailedError", "GROUP_AUTHORIZATION_FAILED"),
    (ADD_OFFSETS, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (COMMIT_OFFSETS, 30, "GroupAuthorizationFailedError", "GROUP_AUTHORIZATION_FAILED"),
    (COMMIT_OFFSETS, 29, "TopicAuthorizationFailedError", "orders-0"),
    (COMMIT_OFFSETS, 25, "UnknownMemberIdError", "rebalanced"),
    (COMMIT_OFFSETS, 22, "IllegalGenerationError", "rebalanced"),
    (COMMIT_OFFSETS, 82, "FencedInstanceIdError", "FENCED_INSTANCE_ID"),
    (COMMIT_OFFSETS, 12, "OffsetMetadataTooLargeError", "OFFSET_METADATA_TOO_LARGE"),
    (COMMIT_OFFSETS, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (COMMIT_OFFSETS, -1, "UnknownServerError", "UNKNOWN_SERVER_ERROR"),
    (END, 48, "InvalidTxnStateError", "INVALID_TXN_STATE"),
    (END, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (PRODUCE, 29, "TopicAuthorizationFailedError", "orders-0.*WRITE permission"),
    (PRODUCE, 10, "MessageTooLargeError", "max.message.bytes"),
    (PRODUCE, 47, "InvalidProducerEpochError", "INVALID_PRODUCER_EPOCH"),
    (PRODUCE, 48, "InvalidTxnStateError", "INVALID_TXN_STATE"),
    (PRODUCE, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
]


IDS = [f"{row[0]}-{row[2]}" for row in ABORTABLE]


async def test_no_record_is_taken_after_one_has_failed(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"before", partition=0)
        orders.push_request_errors(PRODUCE, 10)  # MESSAGE_TOO_LARGE
        with pytest.raises(errors.MessageTooLargeError):
            await producer.send("orders", b"too large", partition=0)
        with pytest.raises(AbortableTransactionError, match="can only be aborted"):
            producer.send("orders", b"behind", partition=0)
        await producer.abort_transaction()
        await transact(producer)


@pytest.mark.parametrize(("api", "code", "cause", "match"), ABORTABLE, ids=IDS)
async def test_an_abortable_error_lets_nothing_but_abort(
    orders: MockCluster, api: int, code: int, cause: str, match: str
) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        orders.push_request_errors(api, code)
        future = producer.send("orders", b"v", partition=0)
        with pytest.raises(AbortableTransactionError, match=match):
            await write_offsets_and_commit(producer)
        advice = r"abort_transaction\(\), then begin another one"
        refused: list[Callable[[], Awaitable[Any]]] = [
            producer.begin_transaction,
            producer.commit_transaction,
            lambda: producer.send_offsets_to_transaction(OFFSETS, "readers"),
        ]
        for call in refused:
            with pytest.raises(AbortableTransactionError, match=advice) as raised:
                await call()
            assert type(raised.value.__cause__) is getattr(errors, cause)
            assert re.search(NAMED, str(raised.value))
        with pytest.raises(AbortableTransactionError, match=advice):
            producer.send("orders", b"too late", partition=1)
        await producer.abort_transaction()
        assert future.done()
        if api == ADD_PARTITIONS:
            assert isinstance(future.exception(), TransactionAbortedError)
            assert not requests(orders, PRODUCE)
        await transact(producer)


async def test_an_abort_that_finds_no_transaction_is_done(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        orders.push_request_errors(END, 48)
        await producer.abort_transaction()
        await transact(producer)
        assert requests(orders, INIT_PRODUCER_ID) == [1]  # a new epoch, to be sure of it


async def test_what_had_not_left_is_not_sent_after_an_abort(orders: MockCluster) -> None:
    async with started(orders, linger_ms=5_000) as producer:
        orders.clear_requests()
        await producer.begin_transaction()
        futures = [producer.send("orders", b"v", partition=number) for number in range(3)]
        await producer.abort_transaction()
        for future in futures:
            with pytest.raises(TransactionAbortedError, match="its transaction is aborted"):
                future.result()
        assert not requests(orders, PRODUCE)
        assert not requests(orders, END)  # nothing was begun there


FATAL = [
    *[
        (api, *row)
        for api in (ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS)
        for row in (
            (90, ProducerFencedError, "PRODUCER_FENCED.*a newer producer"),
            (47, ProducerFencedError, "INVALID_PRODUCER_EPOCH.*a newer producer"),
            (53, FatalTransactionError, "needs the WRITE permission"),
            (49, FatalTransactionError, "INVALID_PRODUCER_ID_MAPPING"),
        )
    ],
    (ADD_PARTITIONS, 48, FatalTransactionError, "INVALID_TXN_STATE"),
    (ADD_OFFSETS, 48, FatalTransactionError, "INVALID_TXN_STATE"),
    (PRODUCE, 90, ProducerFencedError, "PRODUCER_FENCED.*a newer producer"),
    (PRODUCE, 53, FatalTransactionError, "needs the WRITE permission"),
    (PRODUCE, 31, FatalTransactionError, "CLUSTER_AUTHORIZATION_FAILED"),
    (PRODUCE, 49, FatalTransactionError, "INVALID_PRODUCER_ID_MAPPING"),
]


@pytest.mark.parametrize(("api", "code", "kind", "match"), FATAL)
async def test_a_fatal_error_is_the_end_of_the_producer(
    orders: MockCluster, api: int, code: int, kind: type[ProducerError], match: str
) -> None:
    async with started(orders) as producer:
        orders.push_request_errors(api, code)
        with pytest.raises(FatalTransactionError, match=match) as raised:
            await transact(producer)
        assert type(raised.value) is kind
        assert re.search(NAMED, str(raised.value))
        assert "close the producer" in str(raised.value)
        async with asyncio.timeout(PATIENCE):
            while producer.metrics()["producer-metrics"]["requests-in-flight"]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        orders.clear_requests()
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: transact(producer),
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
            lambda: producer.send_offsets_to_transaction(OFFSETS, "readers"),
        ]
        for call in calls:
            with pytest.raises(kind, match="close the producer"):
                await call()
        with pytest.raises(kind, match="close the producer"):
            producer.send("orders", b"v")
        assert orders.requests() == []
        assert await producer.close() == 0
    async with new(orders) as another:
        await transact(another)


REFUSED = [
    (INIT_PRODUCER_ID, 53, FatalTransactionError, "needs the WRITE permission"),
    (INIT_PRODUCER_ID, 31, FatalTransactionError, "CLUSTER_AUTHORIZATION_FAILED"),
    (INIT_PRODUCER_ID, 50, FatalTransactionError, "transaction.max.timeout.ms"),
    (INIT_PRODUCER_ID, 90, ProducerFencedError, "PRODUCER_FENCED"),
    (INIT_PRODUCER_ID, -1, FatalTransactionError, "UNKNOWN_SERVER_ERROR"),
]


@pytest.mark.parametrize(("api", "code", "kind", "match"), REFUSED)
async def test_a_start_that_is_refused_says_why_and_leaves_nothing(
    orders: MockCluster, api: int, code: int, kind: type[ProducerError], match: str
) -> None:
    orders.push_request_errors(api, code)
    producer = new(orders)
    with pytest.raises(FatalTransactionError, match=match) as raised:
        await producer.start()
    assert type(raised.value) is kind
    assert re.search(NAMED, str(raised.value))
    assert tasks() == []
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")
    async with new(orders) as another:
        await transact(another)
