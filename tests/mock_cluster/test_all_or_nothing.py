"""A record that fails where no call raises it keeps its transaction from being committed."""

from __future__ import annotations

import pytest

from aioproducer import Producer, errors, sync
from aioproducer.errors import AbortableTransactionError, IllegalStateError, SerializationError
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
        report = await producer.send_many("orders", [b"1", object(), b"3"])
        assert (report.delivered, report.failed) == (2, 1)
        with pytest.raises(AbortableTransactionError) as caught:
            await producer.commit_transaction()
        assert isinstance(caught.value.__cause__, SerializationError)
        await producer.abort_transaction()
        async with producer.transaction():
            assert (await producer.send_many("orders", [b"1", b"2"])).delivered == 2


async def test_a_wrong_value_that_raises_at_the_call_is_the_callers_business(servers: str) -> None:
    async with (
        Producer(bootstrap_servers=servers, transactional_id="t") as producer,
        producer.transaction(),
    ):
        with pytest.raises(SerializationError):
            producer.send("orders", object())
        assert (await producer.send("orders", b"v")).offset >= 0


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
        assert isinstance(producer.send("orders", object()).exception(10), SerializationError)
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("orders", b"v")
