"""The real producer keeps its contract with a real Kafka, as the mock producer does without one."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from aioproducer import Producer
from aioproducer.model import ConsumerRecord
from aioproducer.testing import read_back
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.contract import (
    CoordinatorContract,
    HookContract,
    Kit,
    SendingContract,
    TransactionContract,
)

pytestmark = pytest.mark.kafka


class KafkaKit(Kit):
    """A real Kafka, which other tests share."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def new_name(self) -> str:
        return f"mock-contract-{uuid4().hex[:12]}"

    async def topic(self, partitions: int = 1) -> str:
        name = self.new_name()
        await self._cluster.create_topic(name, partitions)
        return name

    def producer(self, **options: Any) -> Producer:
        return Producer(bootstrap_servers=self._cluster.bootstrap_servers, **options)

    async def read(self, topic: str) -> list[ConsumerRecord]:
        return await read_back(topic, bootstrap_servers=self._cluster.bootstrap_servers)

    async def fence(self, producer: Producer) -> None:
        async with self.producer(transactional_id=producer.config.transactional_id):
            pass


@pytest.fixture
def kit(kafka: KafkaCluster) -> KafkaKit:
    """Real producers."""
    return KafkaKit(kafka)


class TestSending(SendingContract):
    """Records that nothing disturbs."""


class TestHooks(HookContract):
    """Serializers, partitioners and interceptors."""


class TestCoordinators(CoordinatorContract):
    """Fencing, and consumed offsets."""


class TestTransactions(TransactionContract):
    """Transactions."""
