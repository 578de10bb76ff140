"""Every mechanism of a login, at a real broker, through the public API: the records are there."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import Producer
from tests.kafka.secured.secured_kafka import PASSWORD, SecuredKafka, join

pytestmark = pytest.mark.kafka

MARKS = {"GSSAPI": pytest.mark.kerberos}
LOGINS: dict[str, Callable[[SecuredKafka], dict[str, Any]]] = {
    "PLAIN": lambda world: world.plain(),
    "SCRAM-SHA-256": lambda world: world.login("SCRAM-SHA-256", "a=b,c", PASSWORD),
    "SCRAM-SHA-512": lambda world: world.login("SCRAM-SHA-512", "bob", "bob-secret"),
    "OAUTHBEARER": lambda world: world.oauth(),
    "GSSAPI": lambda world: world.kerberos(),
    "TLS": lambda world: world.tls(),
    "MTLS": lambda world: world.tls("MTLS", **world.identity()),
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=MARKS.get(kind, ())) for kind in LOGINS])
async def test_records_and_transactions_are_written(
    kind: str, world: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic()
    if kind == "GSSAPI":
        join(world.realm, monkeypatch)
    options = LOGINS[kind](world)
    async with Producer(**options) as producer:
        found = await producer.check(30, topics=[topic], transactional_id="mine")
        assert found.topics[topic].may_write
        futures = [producer.send(topic, b"%d" % number) for number in range(100)]
        await asyncio.gather(*futures)
    async with Producer(**options, transactional_id=uuid.uuid4().hex) as producer:
        async with producer.transaction():
            producer.send(topic, b"committed")
        with pytest.raises(KeyError):
            await aborted(producer, topic)
    assert await world.written(topic) == [*(b"%d" % number for number in range(100)), b"committed"]


async def aborted(producer: Producer, topic: str) -> None:
    async with producer.transaction():
        await producer.send(topic, b"aborted")
        raise KeyError
