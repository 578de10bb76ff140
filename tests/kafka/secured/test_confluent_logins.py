"""confluent-kafka's interface at brokers with TLS and logins, by librdkafka's names of options."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from typing import Any

import pytest

from aioproducer.compat.confluent import KafkaError, Producer
from tests.kafka.secured.secured_kafka import ISSUER, PASSWORD, SecuredKafka

pytestmark = pytest.mark.kafka


def options(world: SecuredKafka, **login: Any) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in login.items()}
    return {
        "bootstrap.servers": world.cluster.bootstrap_servers_of("LOGIN"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(world.trusted),
        **named,
    }


def publish(producer: Producer, topic: str, value: str) -> list[KafkaError | None]:
    """The errors of one record."""
    errors: list[KafkaError | None] = []
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors


async def test_a_password_can_be_replaced(world: SecuredKafka) -> None:
    topic, heard = await world.topic(), list[KafkaError]()

    def program() -> None:
        scram = {"sasl_mechanisms": "SCRAM-SHA-512", "sasl_username": "bob"}
        named = options(world, **scram, sasl_password="wrong", message_timeout_ms=20_000)
        producer = Producer({**named, "error_cb": heard.append})
        deadline = time.monotonic() + 15
        while KafkaError._AUTHENTICATION not in heard:
            assert time.monotonic() < deadline, heard
            producer.poll(0.1)
        errors: list[KafkaError | None] = []
        producer.produce(topic, "by bob", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(1) == 1  # it waits for a login that succeeds
        producer.set_sasl_credentials("bob", "bob-secret")
        assert producer.flush(30) == 0
        assert errors == [None]
        producer.close()
        named = options(world, sasl_mechanism="SCRAM-SHA-256", sasl_username="alice")
        with Producer({**named, "sasl.password": PASSWORD}) as producer:
            assert publish(producer, topic, "by alice") == [None]

    await asyncio.to_thread(program)
    assert await world.written(topic) == [b"by bob", b"by alice"]
    assert "wrong" not in str(heard)


async def test_oauth_cb_logs_in_all_connections(world: SecuredKafka) -> None:
    topic, asked = await world.topic(), list[tuple[Any, str]]()

    def token(config: Any) -> tuple[str, float]:
        asked.append((config, threading.current_thread().name))
        body = b"grant_type=client_credentials&client_id=alice&client_secret=x&scope=kafka"
        with urllib.request.urlopen(f"{world.tokens.of(ISSUER)}/token", body, 30) as response:
            answer = json.load(response)
        return answer["access_token"], time.time() + answer["expires_in"]

    def program() -> str:
        named = options(world, sasl_mechanisms="OAUTHBEARER", sasl_oauthbearer_config="mine")
        with Producer({**named, "oauth_cb": token}) as producer:
            assert [config for config, _ in asked] == ["mine"]
            assert publish(producer, topic, "v") == [None]
            assert producer.list_topics(timeout=30).topics[topic].error is None
        return threading.current_thread().name

    caller = await asyncio.to_thread(program)
    assert len(asked) == 1
    assert asked[0][1] != caller
    assert await world.written(topic) == [b"v"]
