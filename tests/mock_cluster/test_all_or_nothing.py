"""Records that keep their transaction from being committed: all or nothing."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pytest

from aioproducer import Producer, ProducerRecord, RecordMetadata, errors, sync
from aioproducer.errors import (
    AbortableTransactionError,
    BufferExhaustedError,
    IllegalStateError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    ProducerError,
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.testing.mock_cluster import MockCluster

PRODUCE = 0
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
