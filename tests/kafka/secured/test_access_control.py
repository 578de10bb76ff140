"""A user who may not do everything (ACLs): the errors reach those whom they concern."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from aioproducer import Producer
from aioproducer.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from aioproducer.model import TopicPartition
from tests.kafka.secured.secured_kafka import SecuredKafka, Stopwatch
from tests.kafka.transactional import offset_of

pytestmark = pytest.mark.kafka

AT_ONCE = 20.0
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
DESCRIBE, READ, WRITE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE


@pytest.mark.parametrize("operation", [WRITE, DESCRIBE])
async def test_a_topic_that_is_denied(operation: AclOperation, world: SecuredKafka) -> None:
    denied, free = await world.topic(), await world.topic()
    world.deny(TOPIC, denied, operation)
    watch = Stopwatch()
    async with Producer(**world.plain("limited")) as producer:
        with pytest.raises(TopicAuthorizationFailedError, match=denied):
            await producer.check(30, topics=[free, denied])
        assert (await producer.check(30, topics=[free])).topics[free].may_write
        refused, written = [], []
        for number in range(100):
            refused.append(producer.send(denied, b"%d" % number))
            written.append(producer.send(free, b"%d" % number))
        await asyncio.gather(*written)
        for error in await asyncio.gather(*refused, return_exceptions=True):
            assert isinstance(error, TopicAuthorizationFailedError)
            assert denied in str(error)
        metrics = producer.metrics()
        assert metrics["producer-metrics"]["record-error-total"] == 100
    assert watch.seconds < AT_ONCE
    assert await world.written(free) == [b"%d" % number for number in range(100)]
    assert await world.written(denied) == []


async def test_a_transactional_id_that_is_denied(world: SecuredKafka) -> None:
    name = uuid.uuid4().hex
    world.deny(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    watch = Stopwatch()
    async with Producer(**world.plain("limited")) as producer:
        with pytest.raises(TransactionalIdAuthorizationFailedError, match=name):
            await producer.check(30, transactional_id=name)
    await assert_not_let_in(world, name)
    assert watch.seconds < AT_ONCE


async def test_a_transactional_id_that_may_be_described_alone(world: SecuredKafka) -> None:
    """No request tells of it but one that takes the id, so a check does not, either."""
    name = uuid.uuid4().hex
    world.deny(TRANSACTIONAL_ID, name, WRITE)
    async with Producer(**world.plain("limited")) as producer:
        assert (await producer.check(30, transactional_id=name)).coordinator is not None
    await assert_not_let_in(world, name)


async def assert_not_let_in(world: SecuredKafka, name: str) -> None:
    with pytest.raises(FatalTransactionError, match=f"{name}.*DESCRIBE and WRITE") as caught:
        async with Producer(**world.plain("limited"), transactional_id=name):
            pytest.fail("it was let in")
    assert isinstance(caught.value.__cause__, TransactionalIdAuthorizationFailedError)


async def test_a_denied_topic_ends_its_transaction_alone(world: SecuredKafka) -> None:
    denied, free = await world.topic(), await world.topic()
    world.deny(TOPIC, denied, WRITE)
    options = world.plain("limited", transactional_id=uuid.uuid4().hex)
    async with Producer(**options) as producer:
        with pytest.raises(TopicAuthorizationFailedError, match=denied):
            await write(producer, free, denied)
        await write(producer, free)
    assert await world.written(free) == [b"record"]


async def write(producer: Producer, *topics: str) -> None:
    async with producer.transaction():
        for topic in topics:
            await producer.send(topic, b"record")


async def test_offsets_of_a_group_that_is_denied(world: SecuredKafka) -> None:
    topic, denied, free = await world.topic(), uuid.uuid4().hex, uuid.uuid4().hex
    world.deny(GROUP, denied, READ)
    options = world.plain("limited", transactional_id=uuid.uuid4().hex)
    async with Producer(**options) as producer:
        with pytest.raises(AbortableTransactionError, match=f"group '{denied}'.*READ") as caught:
            await write_and_commit(producer, topic, denied)
        assert isinstance(caught.value.__cause__, GroupAuthorizationFailedError)
        await write_and_commit(producer, topic, free)
    assert await world.written(topic) == [b"record"]
    assert await offset_of(world.cluster, free, topic) == 7


async def write_and_commit(producer: Producer, topic: str, group: str) -> None:
    async with producer.transaction():
        producer.send(topic, b"record")
        await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, group)
