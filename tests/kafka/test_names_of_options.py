"""Every option that Kafka's own clients document is known here, or refused for its true reason."""

from __future__ import annotations

import re

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.config.names import BY_JAVA_NAME, WITHOUT_EFFECT
from aioproducer.config.reader_options import READER_OPTIONS
from aioproducer.errors import ConfigError
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

CLIENTS = "org.apache.kafka.clients"


async def documented(kafka: KafkaCluster, kind: str) -> list[str]:
    """The options in the page that Kafka's class prints."""
    printed = await kafka.tool(f"{CLIENTS}.{kind}", timeout=60)
    assert printed.returncode == 0, printed.stderr
    return sorted(set(re.findall(r'id="[a-z]+configs_([a-z0-9.]+)"', printed.stdout)))


def refusal(name: str) -> str:
    try:
        ProducerConfig.from_properties({"bootstrap.servers": "localhost:9092", name: "1"})
    except ConfigError as error:
        return str(error)
    return ""


async def test_every_option_of_kafkas_producer(kafka: KafkaCluster) -> None:
    names = await documented(kafka, "producer.ProducerConfig")
    assert len(names) > 100
    unknown = [each for each in names if each not in BY_JAVA_NAME and each not in WITHOUT_EFFECT]
    assert unknown == ["config.providers", "transaction.two.phase.commit.enable"]
    assert not refusal("config.providers")
    assert "two-phase commit is not available" in refusal(unknown[1])


async def test_every_option_of_kafkas_consumer(kafka: KafkaCluster) -> None:
    names = await documented(kafka, "consumer.ConsumerConfig")
    readers = {each.java_name for each in READER_OPTIONS.values()}
    for name in set(names) - set(BY_JAVA_NAME) - set(WITHOUT_EFFECT) - {"config.providers"}:
        assert name in readers or "Kafka's consumer" in refusal(name), name


async def test_every_option_of_kafkas_admin(kafka: KafkaCluster) -> None:
    names = await documented(kafka, "admin.AdminClientConfig")
    unknown = set(names) - set(BY_JAVA_NAME) - set(WITHOUT_EFFECT)
    assert unknown == {"config.providers", "bootstrap.controllers", "default.api.timeout.ms"}
    assert "requests go to brokers" in refusal("bootstrap.controllers")
