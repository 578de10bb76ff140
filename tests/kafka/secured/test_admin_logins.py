"""An Admin logs in as a producer does, and may do what its principal may."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from aioproducer import TopicPartition
from aioproducer.admin import Admin
from aioproducer.errors import AuthenticationError, TopicAuthorizationFailedError
from tests.kafka.secured.secured_kafka import SecuredKafka

pytestmark = pytest.mark.kafka


async def test_logins_and_permissions(world: SecuredKafka) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    denied = (AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS)
    world.deny(ResourceType.TOPIC, topic, *denied)
    async with Admin(**world.plain()) as admin:
        await admin.create_topic(topic, 2, 1)
        assert len((await admin.wait_for_leaders(topic))[topic].partitions) == 2
    async with Admin(**world.plain("limited")) as limited:
        assert topic in await limited.list_topics()
        with pytest.raises(TopicAuthorizationFailedError, match=f"'{topic}': .* ALTER for the top"):
            await limited.add_partitions(topic, 3)
        with pytest.raises(TopicAuthorizationFailedError, match=f"{topic}-0: .* DELETE for the to"):
            await limited.delete_records({TopicPartition(topic, 0): -1})
        with pytest.raises(TopicAuthorizationFailedError, match="DESCRIBE_CONFIGS for the topic"):
            await limited.describe_configs(topic)
    async with Admin(**world.login("PLAIN", "alice", "guessed-it")) as stranger:
        with pytest.raises(AuthenticationError):
            await stranger.list_topics()
