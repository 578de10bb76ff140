"""An Admin before brokers of each release."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from aioproducer import OffsetAndMetadata, Producer, TopicPartition
from aioproducer.admin import Admin, PartitionLag
from aioproducer.errors import (
    GroupIdNotFoundError,
    InvalidPartitionsError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.matrix.test_releases import release_of
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

TOPIC = "made-by-admin"
FIRST_WITH_DEFAULTS, FIRST_WITH_CHANGES, FIRST_WITH_OFFSETS = (2, 4), (2, 3), (2, 5)
FIRST_WITH_DELETED_OFFSETS = (2, 4)


@contextlib.contextmanager
def works_since(cluster: KafkaCluster, release: tuple[int, ...]) -> Iterator[None]:
    """Older brokers can't do it, and the error says so."""
    if release_of(cluster) >= release:
        yield
    else:
        with pytest.raises(UnsupportedVersionError):
            yield


async def test_topics_records_configurations_and_groups(cluster: KafkaCluster) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.create_topic(TOPIC, 2, 1, configs={"retention.ms": 7_000_000})
        with pytest.raises(TopicAlreadyExistsError, match=TOPIC):
            await admin.create_topic(TOPIC, 2, 1)
        with works_since(cluster, FIRST_WITH_DEFAULTS):
            await admin.create_topic(f"{TOPIC}-by-default")
        await admin.add_partitions(TOPIC, 3, assignment={2: [1]})
        with pytest.raises(InvalidPartitionsError, match=TOPIC):
            await admin.add_partitions(TOPIC, 2)
        described = (await admin.wait_for_leaders(TOPIC))[TOPIC]
        assert [each.leader for each in described.partitions] == [1, 1, 1]
        with works_since(cluster, FIRST_WITH_CHANGES):
            await admin.alter_configs({TOPIC: {"retention.ms": 9_000_000}})
        configs = (await admin.describe_configs([TOPIC, 1], names=["retention.ms"]))[TOPIC]
        assert configs["retention.ms"].value in ("7000000", "9000000")
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await asyncio.gather(*(producer.send(TOPIC, b"x", partition=1) for _ in range(10)))
        one = TopicPartition(TOPIC, 1)
        assert await admin.delete_records({one: 4}) == {one: 4}
        with pytest.raises(GroupIdNotFoundError, match="nobody"):
            await admin.describe_groups("nobody")
        await admin.list_groups()
        found = await admin.describe_cluster(versions=True)
        assert [each.id for each in found.brokers] == [1]
        assert found.controller == 1


async def _lag_is(admin: Admin, group: str, lag: dict[TopicPartition, PartitionLag]) -> bool:
    return await admin.group_lag(group) == lag


async def test_the_lag_of_a_group(cluster: KafkaCluster) -> None:
    """The offsets are a transaction's."""
    topic, group = "lagging", "laggards"
    place = TopicPartition(topic, 0)
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.create_topic(topic, 1, 1)
        async with (
            Producer(
                bootstrap_servers=cluster.bootstrap_servers, transactional_id="laggards"
            ) as producer,
            producer.transaction(),
        ):
            for _ in range(10):
                producer.send(topic, b"x")
            await producer.send_offsets_to_transaction({place: 4}, group)
        with works_since(cluster, FIRST_WITH_OFFSETS):
            # The transaction's end is confirmed a moment before its markers are written.
            await until(lambda: _lag_is(admin, group, {place: PartitionLag(4, 11)}))
        described = (await admin.describe_groups(group))[group]
        assert (described.state, described.members) == ("Empty", ())
        assert group in [each.group_id for each in await admin.list_groups()]
        assert await admin.list_offsets({place: "end"}) == {place: 11}
        with works_since(cluster, FIRST_WITH_DELETED_OFFSETS):
            await admin.delete_group_offsets(group, [place])  # before Kafka 4 the group is gone
        await admin.alter_group_offsets(group, {place: OffsetAndMetadata(7, "note")})
        with works_since(cluster, FIRST_WITH_OFFSETS):
            assert (await admin.group_offsets(group))[place][:2] == (7, "note")
        await admin.delete_groups(group)
        assert group not in [each.group_id for each in await admin.list_groups()]
        await admin.delete_topics(topic)
        with pytest.raises(UnknownTopicOrPartitionError, match=topic):
            await admin.delete_topics(topic)
