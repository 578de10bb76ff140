"""A Reader logs in as a producer does, and may read what its principal may."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from aioproducer import Producer
from aioproducer.errors import AuthenticationError, TopicAuthorizationFailedError
from aioproducer.reader import Reader
from tests.kafka.secured.secured_kafka import SecuredKafka

pytestmark = pytest.mark.kafka


async def test_logins_and_permissions(world: SecuredKafka) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    await world.cluster.create_topic(topic, 2)
    world.deny(ResourceType.TOPIC, topic, AclOperation.READ)
    async with Producer(**world.plain()) as producer:
        await producer.send_many(topic, [b"%d" % number for number in range(100)])
    async with Reader(topic, end="end", **world.plain()) as reader:
        found = [record.value async for record in reader]
    assert sorted(found, key=lambda value: int(value or b"-1")) == [b"%d" % n for n in range(100)]
    async with Reader(topic, **world.plain("limited")) as limited:
        with pytest.raises(TopicAuthorizationFailedError, match=topic):
            await anext(aiter(limited))
    with pytest.raises(AuthenticationError, match="PLAIN login refused"):
        await Reader(topic, **world.login("PLAIN", "alice", "guessed-it")).start()


async def test_another_mechanism(world: SecuredKafka) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    await world.cluster.create_topic(topic, 1)
    async with Producer(**world.plain()) as producer:
        await producer.send(topic, b"value")
    async with Reader(
        topic, end="end", **world.login("SCRAM-SHA-512", "bob", "bob-secret")
    ) as reader:
        assert [record.value async for record in reader] == [b"value"]
