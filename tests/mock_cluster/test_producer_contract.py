"""The real producer keeps the contract that the mock producer is held to."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import KafkaError, Producer
from aioproducer.model import ConsumerRecord
from aioproducer.testing import MockCluster, MockProducer, read_back
from tests.support.contract import (
    HookContract,
    OutcomeContract,
    ScriptedKit,
    SendingContract,
    TransactionContract,
)
from tests.support.contract.sending import CALLS

PRODUCE = 0
BROKER = 1


class MockClusterKit(ScriptedKit):
    """One broker of librdkafka's mock cluster, which does not tell aborted transactions."""

    tells_aborted = False

    def __init__(self, cluster: MockCluster) -> None:
        self._cluster = cluster

    async def topic(self, partitions: int = 1) -> str:
        name = self.new_name()
        self._cluster.create_topic(name, partitions)
        return name

    def producer(self, **options: Any) -> Producer:
        return Producer(bootstrap_servers=self._cluster.bootstrap_servers, **options)

    async def read(self, topic: str) -> list[ConsumerRecord]:
        return await read_back(topic, bootstrap_servers=self._cluster.bootstrap_servers)

    async def fence(self, producer: Producer) -> None:
        async with self.producer(transactional_id=producer.config.transactional_id):
            pass

    def fail_next(self, producer: Producer, error: type[KafkaError]) -> None:
        self._cluster.push_request_errors(PRODUCE, error.code)

    async def hold(self, producer: Producer) -> None:
        self._cluster.set_broker_down(BROKER)

    async def release(self, producer: Producer) -> None:
        self._cluster.set_broker_up(BROKER)


@pytest.fixture(scope="module")
def cluster() -> Any:
    """One cluster for all tests of this module, each of which has topics of its own."""
    with MockCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def kit(cluster: MockCluster) -> MockClusterKit:
    """Real producers."""
    return MockClusterKit(cluster)


class TestSending(SendingContract):
    """Records that nothing disturbs."""


class TestHooks(HookContract):
    """Serializers, partitioners and interceptors."""


class TestTransactions(TransactionContract):
    """Transactions."""


class TestOutcomes(OutcomeContract):
    """Records that fail, or are held."""


@pytest.mark.parametrize("name", CALLS)
async def test_both_producers_raise_the_same(cluster: MockCluster, name: str) -> None:
    call, _ = CALLS[name]
    raised = []
    real = Producer(bootstrap_servers=cluster.bootstrap_servers, client_id="shop")
    for producer in (real, MockProducer(client_id="shop")):
        async with producer:
            with pytest.raises(Exception) as caught:  # noqa: PT011
                call(producer)
        raised.append((type(caught.value), str(caught.value)))
    assert raised[0] == raised[1]
