"""Transactions in the hands of several tasks: all or nothing, and each learns its own outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pytest

from aioproducer import Producer, ProducerRecord, RecordMetadata, errors, sync
from aioproducer.errors import (
    AbortableTransactionError,
    BufferExhaustedError,
    CommitUnconfirmedError,
    ConfigError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidPartitionError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    ProducerClosedError,
    ProducerError,
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TransactionHandle
from aioproducer.testing.mock_cluster import MockCluster

PRODUCE, END_TXN = 0, 26
INVALID_RECORD = 87


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 1)
    return mock_cluster


def made(cluster: MockCluster) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="pay-7")


async def started(cluster: MockCluster) -> Producer:
    producer = made(cluster)
    await producer.start()
    return producer


async def one_by_one(first: asyncio.Event, rest: asyncio.Event) -> AsyncIterator[bytes]:
    yield b"1"
    first.set()
    await rest.wait()
    yield b"2"


def ends(cluster: MockCluster) -> int:
    return sum(request.api_key == END_TXN for request in cluster.requests())


async def test_a_block_in_which_the_producer_is_closed_has_not_committed(
    cluster: MockCluster,
) -> None:
    producer = await started(cluster)
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def in_block() -> None:
        async with producer.transaction():
            await producer.send("orders", b"v")
            inside.set()
            await go_on.wait()

    task = asyncio.create_task(in_block())
    await inside.wait()
    cluster.set_broker_rtt(1, 300)  # close() still waits for the abort when the block ends
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(ProducerClosedError):
        await task
    await closing


async def test_a_failed_transaction_is_its_own_tasks_to_abort(cluster: MockCluster) -> None:
    producer = await started(cluster)
    failed, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with producer.transaction():
            await producer.send("orders", b"1")
            cluster.push_request_errors(PRODUCE, INVALID_RECORD)
            with pytest.raises(InvalidRecordError):
                await producer.send("orders", b"2")
            failed.set()
            await go_on.wait()

    task = asyncio.create_task(first())
    await failed.wait()
    with pytest.raises(AbortableTransactionError, match="can't begin"):
        async with producer.transaction():
            pass
    go_on.set()
    with pytest.raises(AbortableTransactionError, match="can't commit"):
        await task
    async with producer.transaction():
        await producer.send("orders", b"3")
    await producer.close()


async def commit_in_a_block(producer: Producer) -> None:
    async with producer.transaction():
        producer.send("orders", b"v")
        await producer.commit_transaction()


async def test_an_explicit_commit_that_fails_in_a_block_is_aborted_by_it(
    cluster: MockCluster,
) -> None:
    async with made(cluster) as producer:
        cluster.push_request_errors(PRODUCE, INVALID_RECORD)
        with pytest.raises(AbortableTransactionError):
            await commit_in_a_block(producer)
        async with producer.transaction():
            assert (await producer.send("orders", b"v")).offset >= 0


async def test_no_transaction_ends_before_its_send_many(cluster: MockCluster) -> None:
    async with made(cluster) as producer:
        first, rest = asyncio.Event(), asyncio.Event()
        await producer.begin_transaction()
        many = asyncio.create_task(producer.send_many("orders", one_by_one(first, rest)))
        await first.wait()
        with pytest.raises(IllegalStateError, match=r"a send_many\(\) .* is under way"):
            await producer.commit_transaction()
        rest.set()
        assert (await many).delivered == 2
        await producer.commit_transaction()


async def test_after_an_abort_the_rest_of_a_send_many_is_in_no_transaction(
    cluster: MockCluster,
) -> None:
    async with made(cluster) as producer:
        first, rest = asyncio.Event(), asyncio.Event()
        await producer.begin_transaction()
        many = asyncio.create_task(producer.send_many("orders", one_by_one(first, rest)))
        await first.wait()
        await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match=r"can't begin .* a send_many\(\)"):
            await producer.begin_transaction()
        rest.set()
        report = await many
        assert report.failed >= 1
        async with producer.transaction():
            assert (await producer.send("orders", b"v")).offset >= 0


async def test_close_aborts_when_a_commit_that_nobody_waits_for_fails(
    cluster: MockCluster,
) -> None:
    producer = await started(cluster)
    await producer.begin_transaction()
    await producer.send("orders", b"1")
    cluster.start_request_tracking()
    cluster.push_request_errors(PRODUCE, INVALID_RECORD)
    producer.send("orders", b"2")
    committing = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0)
    committing.cancel()
    await asyncio.wait([committing])
    await producer.close()
    assert ends(cluster) == 1


async def test_a_commit_that_a_close_cuts_off_is_not_confirmed(cluster: MockCluster) -> None:
    producer = await started(cluster)
    await producer.begin_transaction()
    await producer.send("orders", b"1")
    cluster.set_broker_rtt(-1, 5_000)
    committing = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0.1)
    await producer.close(0)
    with pytest.raises(CommitUnconfirmedError) as caught:
        await committing
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value.__cause__, ProducerClosedError)


async def test_flush_tells_a_participant_that_a_record_failed(cluster: MockCluster) -> None:
    async with made(cluster) as producer:
        await producer.begin_transaction(shared=True)
        handle = producer.transaction_handle()
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, transaction=handle
        ) as other:
            other.send("orders", b"1")
            await other.flush()
            cluster.push_request_errors(PRODUCE, INVALID_RECORD)
            other.send("orders", b"2")
            with pytest.raises(AbortableTransactionError, match="can't flush"):
                await other.flush()
        await producer.abort_transaction()


@pytest.mark.parametrize(
    "group",
    [
        ConsumerGroupMetadata("g", "x"),  # type: ignore[arg-type]
        ConsumerGroupMetadata("g", 2**40),
        ConsumerGroupMetadata("g", 1, 7),  # type: ignore[arg-type]
        ConsumerGroupMetadata("g", 1, "m", 7),  # type: ignore[arg-type]
        "g" * 40_000,
        "\ud800",
    ],
)
async def test_a_group_that_no_request_can_carry(cluster: MockCluster, group: Any) -> None:
    async with made(cluster) as producer, producer.transaction():
        with pytest.raises(InvalidOffsetError):
            await producer.send_offsets_to_transaction({("orders", 0): 1}, group)
        await producer.send_offsets_to_transaction({("orders", 0): 1}, "g")


@pytest.mark.parametrize(
    "offsets",
    [
        {("orders", 2**40): 1},
        {("orders", 0): OffsetAndMetadata(1, "m" * 40_000)},
        {("orders", 0): OffsetAndMetadata(1, "\ud800")},
        {("orders", 0): 2**63},
    ],
)
async def test_offsets_that_no_request_can_carry(cluster: MockCluster, offsets: Any) -> None:
    async with made(cluster) as producer, producer.transaction():
        with pytest.raises(InvalidOffsetError):
            await producer.send_offsets_to_transaction(offsets, "g")


@pytest.mark.parametrize(
    "handle",
    [
        "t",
        ("t", 1, 0, 2),
        TransactionHandle("t", "a", 0, 1),  # type: ignore[arg-type]
        TransactionHandle("t", -1, -1, 1),
        TransactionHandle("t", 1, 0, 3),
    ],
)
def test_what_is_no_handle(handle: Any) -> None:
    with pytest.raises(ConfigError, match="handle"):
        Producer(bootstrap_servers="127.0.0.1:1", transaction=handle)


TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
def servers(mock_cluster: MockCluster) -> str:
    mock_cluster.create_topic("orders", 3)
    return mock_cluster.bootstrap_servers


async def test_one_wrong_value_of_send_many(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        await producer.begin_transaction()
        report = await producer.send_many("orders", [b"1", cast(Any, object()), b"3"])
        assert (report.delivered, report.failed) == (2, 1)
        with pytest.raises(AbortableTransactionError) as caught:
            await producer.commit_transaction()
        assert isinstance(caught.value.__cause__, SerializationError)
        await producer.abort_transaction()
        async with producer.transaction():
            assert (await producer.send_many("orders", [b"1", b"2"])).delivered == 2


# --- records that are refused at the call ------------------------------------------------------

TOO_LARGE = {"value": bytes(2_000_000)}
REFUSALS: dict[str, tuple[dict[str, Any], type[ProducerError], bool]] = {
    "too large": (TOO_LARGE, RecordTooLargeError, True),
    "too large for memory": ({"value": bytes(900_000)}, RecordTooLargeError, True),
    "no value": ({"value": object()}, SerializationError, False),
    "no key": ({"key": 3}, SerializationError, False),
    "no headers": ({"headers": 7}, SerializationError, False),
    "no topic": ({"topic": ""}, InvalidTopicError, False),
    "no partition": ({"partition": -1}, InvalidPartitionError, False),
    "no timestamp": ({"timestamp_ms": -1}, InvalidTimestampError, False),
}
"""Arguments, their error, and whether the transaction has a gap then. As in Java, where what is
thrown by ``send()`` leaves the transaction alone, and what is in the future does not."""


def small_memory(servers: str, **options: Any) -> Any:
    return {
        "bootstrap_servers": servers,
        "transactional_id": "t",
        "buffer_memory": 800_000,
        "max_request_size": 1_000_000,
        **options,
    }


async def is_doomed(producer: Producer, cause: type[ProducerError]) -> bool:
    """Whether the open transaction can only be aborted; it is ended."""
    try:
        await producer.commit_transaction()
    except AbortableTransactionError as error:
        why = error.__cause__
    else:
        return False
    assert isinstance(why, cause)
    await producer.abort_transaction()
    return True


def use_up_memory(producer: Producer | sync.Producer) -> None:
    for _ in range(1_000):  # the sender has no turn meanwhile
        producer.send("orders", bytes(10_000))


@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "with an interceptor"])
@pytest.mark.parametrize(("wrong", "error", "dooms"), REFUSALS.values(), ids=REFUSALS)
async def test_a_record_that_is_refused_at_the_call(
    servers: str, wrong: dict[str, Any], error: type[ProducerError], dooms: bool, hooked: bool
) -> None:
    hooks = [SimpleNamespace(on_send=lambda record: record)] if hooked else []
    async with Producer(**small_memory(servers, interceptor_classes=hooks)) as producer:
        await producer.begin_transaction()
        assert (await producer.send("orders", b"before")).offset >= 0
        with pytest.raises(error):
            producer.send(**{"topic": "orders", "value": b"v", **wrong})
        if not dooms:
            assert (await producer.send("orders", b"instead")).offset >= 0
        assert await is_doomed(producer, error) is dooms

        async def send(arguments: dict[str, Any]) -> RecordMetadata:
            return await producer.send(**{"topic": "orders", "value": b"v", **arguments})

        await producer.begin_transaction()
        results = await asyncio.gather(send({}), send(wrong), return_exceptions=True)
        assert isinstance(results[1], error)
        assert await is_doomed(producer, error) is dooms

        await producer.begin_transaction()
        record = ProducerRecord(**{"topic": "orders", "value": b"v", **wrong})
        report = await producer.send_many("orders", [b"1", record, b"3"])
        assert (report.delivered, report.failed) == (2, 1)
        assert await is_doomed(producer, error), "its caller may not have looked"

        async with producer.transaction():
            assert (await producer.send("orders", b"after")).offset >= 0


async def test_a_column_with_a_value_that_is_too_large(servers: str) -> None:
    async with Producer(**small_memory(servers)) as producer:
        await producer.begin_transaction()
        values = pyarrow.array([b"1", bytes(2_000_000), b"3"])
        assert (await producer.send_many("orders", values)).failed == 1
        assert await is_doomed(producer, RecordTooLargeError)


async def test_a_record_for_which_there_is_no_memory(servers: str) -> None:
    async with Producer(**small_memory(servers)) as producer:
        await producer.begin_transaction()
        with pytest.raises(BufferExhaustedError):
            use_up_memory(producer)
        assert await is_doomed(producer, BufferExhaustedError)


@pytest.mark.parametrize("name", ["too large", "no value"])
def test_a_record_that_the_blocking_shell_refuses(servers: str, name: str) -> None:
    wrong, error, _ = REFUSALS[name]
    with sync.Producer(**small_memory(servers)) as producer:
        for many in (False, True):
            producer.begin_transaction()
            if many:
                assert producer.send_many("orders", [wrong["value"]]).failed == 1
            else:
                assert isinstance(producer.send("orders", **wrong).exception(10), error)
            with pytest.raises(AbortableTransactionError):
                producer.commit_transaction()
            producer.abort_transaction()


def test_a_record_for_which_the_blocking_shell_has_no_memory(servers: str) -> None:
    gate = threading.Event()

    def partition(*_: object) -> int:
        gate.wait(60)
        return 0

    options = small_memory(servers, partitioner=partition, max_block_ms=2_000)
    with sync.Producer(**options) as producer:
        producer.begin_transaction()
        with pytest.raises(BufferExhaustedError):
            use_up_memory(producer)
        gate.set()
        with pytest.raises(AbortableTransactionError) as caught:
            producer.commit_transaction(60)
        assert isinstance(caught.value.__cause__, BufferExhaustedError)
        producer.abort_transaction(60)


async def test_send_many_outside_of_a_transaction_raises_at_the_call(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.send_many("orders", [b"1"])


async def test_nothing_is_sent_after_a_record_has_failed(
    servers: str, mock_cluster: MockCluster
) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"1")
        mock_cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(errors.TopicAuthorizationFailedError):
            await producer.send("orders", b"2")
        for _ in range(2):
            with pytest.raises(AbortableTransactionError, match="abort_transaction"):
                producer.send("orders", b"3")
        await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.send("orders", b"4")
        async with producer.transaction():
            assert (await producer.send("orders", b"5")).offset >= 0


def test_a_wrong_value_that_the_blocking_shell_finds_late(servers: str) -> None:
    with sync.Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        producer.begin_transaction()
        assert isinstance(
            producer.send("orders", cast(Any, object())).exception(10), SerializationError
        )
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("orders", b"v")
