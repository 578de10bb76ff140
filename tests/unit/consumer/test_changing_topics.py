"""Topics that are missing, and topics that were deleted and created again."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import ClusterDescription
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    ClusterAuthorizationFailedError,
    ConfigError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    TopicRecreatedError,
    UnknownTopicIdError,
)
from aioproducer.model import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.requests import apis
from tests.support.simulated_world import (
    ZERO,
    consumer,
    each_protocol,
    fill,
    live,
    model_of,
)

# --- missing -----------------------------------------------------------------------------------


def test_a_missing_topic_asks_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Collection[str] | None] = []
    describe = ClusterClient.describe

    async def noted(
        client: ClusterClient, topics: Collection[str] | None = (), timeout: float | None = None
    ) -> ClusterDescription:
        if topics != ():
            asked.append(topics)
        return await describe(client, topics, timeout)

    monkeypatch.setattr(ClusterClient, "describe", noted)

    async def life(world: SimulatedWorld) -> None:
        topics: Any = ("later", re.compile("ord.*"))
        async with consumer(world, topics=topics, metadata_max_age_ms=60_000) as reader:
            await asyncio.sleep(10)
            asked.clear()
            await asyncio.sleep(120)
            assert asked.count(None) == 2, "the pattern is looked at when metadata is old"
            alone = [each for each in asked if each is not None and "later" in each]
            assert 20 <= len(alone) <= 26, "every five seconds, by the leader alone"
            assert sum(len(each) > 1 for each in alone) == 2
            world.cluster.create_topic("later", 1)
            await asyncio.sleep(15)
            assert {each.topic for each in reader.assignment} == {"later", "orders"}
            world.cluster.create_topic("ordinals", 1)
            await asyncio.sleep(75)
            assert {each.topic for each in reader.assignment} == {"later", "orders", "ordinals"}

    live(life)


@each_protocol
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_topic_that_goes_in_a_rebalance_keeps_no_other_from_its_start(
    protocol: str, reset: str
) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("bills", 1)

        async def delete(_: Collection[TopicPartition]) -> None:
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.delete_topics("bills")

        options = {"auto_offset_reset": reset, "group_protocol": protocol}
        topics = "orders", "bills"
        async with consumer(world, topics=topics, on_assigned=delete, **options) as reader:
            reading = asyncio.create_task(reader.record())
            await asyncio.sleep(20)
            await fill(world, 1, 1)
            async with asyncio.timeout(10):
                assert (await reading) is not None

    live(life)


def test_a_topic_of_a_pattern_that_goes_is_left() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("ordinals", 1)
        topics: Any = (re.compile("ord.*"),)
        async with consumer(world, topics=topics, metadata_max_age_ms=600_000) as reader:
            await asyncio.sleep(10)
            assert {each.topic for each in reader.assignment} == {"orders", "ordinals"}
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.delete_topics("ordinals")
            await asyncio.sleep(60)
            assert {each.topic for each in reader.assignment} == {"orders"}

    live(life)


@each_protocol
@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("ordres", "there is no topic 'ordres'"),
        (re.compile("ordre.*"), "no topic matches 'ordre.*'"),
    ],
)
def test_a_topic_that_does_not_exist_is_told(
    protocol: str,
    reset: str,
    members: int,
    wanted: Any,
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its name may be mistyped."""

    async def life(world: SimulatedWorld) -> None:
        options: dict[str, Any] = {
            "topics": (wanted, "orders"),
            "group_protocol": protocol,
            "auto_offset_reset": reset,
            "metadata_max_age_ms": 20_000,
        }
        async with AsyncExitStack() as stack:
            readers = [
                await stack.enter_async_context(consumer(world, client_id=each, **options))
                for each in "ab"[:members]
            ]
            await asyncio.sleep(30)
            for each in readers:
                assert each.health().state == "joined"
                assert each.health().problems == (problem,)
                said = [line for line in caplog.messages if f"[{each.client_id}]" in line]
                assert any(f"Group 'g': {problem}; it is read once" in line for line in said)
            world.cluster.create_topic("ordres", 2)
            await asyncio.sleep(60)
            assert {at.topic for each in readers for at in each.assignment} == {"orders", "ordres"}
            assert not any(each.health().problems for each in readers)

    live(life)


# --- new partitions ----------------------------------------------------------------------------

each_reset = pytest.mark.parametrize("reset", ["latest", "by_duration:PT1S"])


async def write(world: SimulatedWorld, topic: str, partition: int, records: int) -> None:
    async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
        for number in range(records):
            producer.send(topic, b"%d" % number, partition=partition)
        await producer.flush()


async def collect(reader: Consumer, found: list[ConsumerRecord]) -> None:
    async for record in reader:
        found.append(record)


def places(found: Collection[ConsumerRecord], topic: str) -> list[tuple[int, int]]:
    return sorted((each.partition, each.offset) for each in found if each.topic == topic)


@each_protocol
@each_reset
@pytest.mark.parametrize("members", [1, 2])
def test_a_partition_that_is_added_is_read_from_its_beginning(
    protocol: str, reset: str, members: int
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 2)
        await asyncio.sleep(5)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {
            "group_protocol": protocol,
            "auto_offset_reset": reset,
            "metadata_max_age_ms": 60_000,
        }
        async with AsyncExitStack() as stack:
            readers = [
                await stack.enter_async_context(consumer(world, **options)) for _ in range(members)
            ]
            reading = [asyncio.create_task(collect(each, found)) for each in readers]
            await asyncio.sleep(20)
            assert not found
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.add_partitions("orders", 3)
            await write(world, "orders", 2, 100)
            await write(world, "orders", 0, 1)
            await asyncio.sleep(120)
            assert places(found, "orders") == [(0, 15), *((2, offset) for offset in range(100))]
            for task in reading:
                task.cancel()

    live(life, 2)


@each_protocol
@each_reset
def test_a_new_partition_whose_first_records_expire_is_read_from_its_new_beginning(
    protocol: str, reset: str
) -> None:
    """It is paused until its beginning has moved: nobody has decided to skip the rest."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 2)
        await asyncio.sleep(5)
        found: list[ConsumerRecord] = []
        new = TopicPartition("orders", 2)

        def pause(partitions: Collection[TopicPartition]) -> None:
            reader.pause(*({new} & set(partitions)))

        async with consumer(
            world,
            group_protocol=protocol,
            auto_offset_reset=reset,
            metadata_max_age_ms=60_000,
            on_assigned=pause,
        ) as reader:
            reading = asyncio.create_task(collect(reader, found))
            await asyncio.sleep(20)
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.add_partitions("orders", 3)
                await write(world, "orders", 2, 100)
                await asyncio.sleep(120)
                assert new in reader.assignment
                assert not found
                await admin.delete_records({new: 40})
            reader.resume(new)
            await asyncio.sleep(10)
            assert places(found, "orders") == [(2, offset) for offset in range(40, 100)]
            reading.cancel()

    live(life, 2)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_static_leader_that_has_come_back_finds_partitions_that_are_added(strategy: str) -> None:
    """The coordinator leaves the assignment as it was (KIP-814), and the leader still watches."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 2)
        options: dict[str, Any] = {
            "partition_assignment_strategy": strategy,
            "metadata_max_age_ms": 3_000,
        }
        leader: dict[str, Any] = {"group_instance_id": "a", **options}
        async with consumer(world, **leader):
            await asyncio.sleep(10)
        async with consumer(world, **leader) as again:
            await asyncio.sleep(5)
            assert again.health().generation == 1, "the group has gone on as it was"
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.add_partitions("orders", 3)
            await asyncio.sleep(15)
            assert len(again.assignment) == 3

    live(life, 2)


@each_protocol
@each_reset
@pytest.mark.parametrize("wanted", ["later", re.compile("lat.*")])
def test_a_topic_that_is_created_later_is_read_from_its_beginning(
    protocol: str, reset: str, wanted: Any
) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("latent", 1)
        await write(world, "latent", 0, 5)
        await asyncio.sleep(5)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {
            "topics": (wanted, "latent"),
            "group_protocol": protocol,
            "auto_offset_reset": reset,
            "metadata_max_age_ms": 60_000,
        }
        async with consumer(world, **options) as reader:
            reading = asyncio.create_task(collect(reader, found))
            await asyncio.sleep(20)
            world.cluster.create_topic("later", 2)
            await write(world, "later", 1, 100)
            await asyncio.sleep(120)
            assert places(found, "later") == [(1, offset) for offset in range(100)]
            assert not places(found, "latent")
            reading.cancel()

    live(life)


@each_protocol
@each_reset
def test_a_topic_that_is_created_again_is_new(protocol: str, reset: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 1)
        await asyncio.sleep(5)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"group_protocol": protocol, "auto_offset_reset": reset}
        async with consumer(world, **options) as reader:
            reading = asyncio.create_task(collect(reader, found))
            await asyncio.sleep(20)
            await renew(world, [b"%d" % number for number in range(50)])
            await asyncio.sleep(60)
            assert places(found, "orders") == [(0, offset) for offset in range(50)]
            reading.cancel()

    live(life)


@each_protocol
def test_a_partition_without_an_offset_is_read_from_the_end_if_it_is_old(protocol: str) -> None:
    """It moves to a member that has seen it at its start, and nobody has committed for it."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 2)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {
            "group_protocol": protocol,
            "auto_offset_reset": "latest",
            "auto_commit": False,
        }
        async with consumer(world, **options) as reader:
            async with consumer(world, **options):
                reading = asyncio.create_task(collect(reader, found))
                await asyncio.sleep(20)
                assert len(reader.assignment) == 1
            await asyncio.sleep(20)
            assert len(reader.assignment) == 2
            await fill(world, 2, 2)
            await asyncio.sleep(20)
            assert places(found, "orders") == [(0, 15), (1, 15)]
            reading.cancel()

    live(life, 2)


@each_protocol
def test_partitions_of_another_cluster_are_not_new(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topics have other ids."""
    monkeypatch.setattr(apis, "RANGES", {**apis.RANGES, Api.API_VERSIONS: (0, 4)})

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 1)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"metadata_max_age_ms": 2_000, "group_protocol": protocol}
        async with consumer(world, auto_offset_reset="latest", **options) as reader:
            reading = asyncio.create_task(collect(reader, found))
            await asyncio.sleep(10)
            monkeypatch.setattr(Cluster, "id", "standby")
            await renew(world, [b"%d" % number for number in range(50)])
            await asyncio.sleep(60)
            await write(world, "orders", 0, 1)
            await asyncio.sleep(20)
            assert places(found, "orders") == [(0, 50)]
            reading.cancel()

    live(life)


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_partitions_of_which_some_brokers_tell_no_id_are_not_new(
    before: bool, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers of a cluster are updated one after the other, or taken back."""
    tells_ids = before
    describe = ClusterClient.describe

    async def described(
        client: ClusterClient, topics: Collection[str] | None = (), timeout: float | None = None
    ) -> ClusterDescription:
        found = await describe(client, topics, timeout)
        if tells_ids:
            return found
        without = {name: each._replace(topic_id=None) for name, each in found.topics.items()}
        return found._replace(topics=without)

    monkeypatch.setattr(ClusterClient, "describe", described)

    async def life(world: SimulatedWorld) -> None:
        nonlocal tells_ids
        await fill(world, 30, 2)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"auto_offset_reset": "latest", "auto_commit": False}
        async with consumer(world, **options) as reader:
            async with consumer(world, **options):
                await asyncio.sleep(20)
                reading = asyncio.create_task(collect(reader, found))
                assert len(reader.assignment) == 1
                tells_ids = after
            await asyncio.sleep(20)
            assert len(reader.assignment) == 2
            await fill(world, 2, 2)
            await asyncio.sleep(20)
            assert places(found, "orders") == [(0, 15), (1, 15)]
            reading.cancel()

    live(life, 2)


# --- created again -----------------------------------------------------------------------------


async def renew(world: SimulatedWorld, values: Collection[bytes]) -> None:
    """Delete the topic and create it again, faster than anybody looks, and write to it."""
    servers = world.cluster.bootstrap_servers
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.delete_topics("orders")
        world.cluster.create_topic("orders", 1)
    async with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            await producer.send("orders", value)


@each_protocol
@pytest.mark.parametrize("way", ["loop", "run"])
def test_a_topic_that_is_created_again_is_read_anew(protocol: str, way: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 1)
        found: list[ConsumerRecord] = []

        async def handle(record: ConsumerRecord) -> None:
            found.append(record)

        async def read() -> None:
            if way == "run":
                await reader.run(handle)
            async for record in reader:
                found.append(record)

        async with consumer(world, group_protocol=protocol) as reader:
            reading = asyncio.create_task(read())
            await asyncio.sleep(20)
            assert len(found) == 30
            found.clear()
            await renew(world, [b"%d" % number for number in range(50)])
            await asyncio.sleep(60)
            assert [each.offset for each in found] == [*range(50)]
            assert not reading.done()
            assert reader.health().reason == ""
            committed = (await reader.committed(ZERO))[ZERO]
            assert committed is not None
            assert committed.offset == 50
            reading.cancel()

    live(life)


def test_a_topic_is_read_anew_once_while_brokers_disagree(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    describe = ClusterClient.describe
    former: list[ClusterDescription] = []
    asked: list[ClusterDescription] = []
    chance = Random(1)

    async def lagging(
        client: ClusterClient, topics: Collection[str] | None = (), timeout: float | None = None
    ) -> ClusterDescription:
        """Half of the answers come from brokers that have not heard of the newest topic."""
        found = await describe(client, topics, timeout)
        if "orders" in found.topics and former:
            asked.append(found)
            if chance.random() < 0.5:
                return chance.choice(former)
        return found

    monkeypatch.setattr(ClusterClient, "describe", lagging)

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 1)
        found: list[ConsumerRecord] = []

        async def read() -> None:
            async for record in reader:
                found.append(record)

        async with consumer(world, metadata_max_age_ms=1_000) as reader:
            reading = asyncio.create_task(read())
            await asyncio.sleep(20)
            for _ in range(2):
                async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                    former.append(await describe(admin._client, ["orders"]))
                found.clear()
                await renew(world, [b"%d" % number for number in range(50)])
                await asyncio.sleep(60)
                assert [each.offset for each in found] == [*range(50)]
            assert len(asked) > 40
            reading.cancel()

    live(life)
    said = [each for each in caplog.messages if "created again" in each]
    assert len(said) == 2


@each_protocol
@pytest.mark.parametrize("age_ms", [5_000, 300_000])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_former_topic_that_is_shown_for_long_never_comes_back(
    protocol: str, age_ms: int, fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most answers come from brokers that lag by ten minutes, in which a ``fresh`` one starts."""
    describe = ClusterClient.describe
    former: list[ClusterDescription] = []
    chance = Random(1)

    async def lagging(
        client: ClusterClient, topics: Collection[str] | None = (), timeout: float | None = None
    ) -> ClusterDescription:
        found = await describe(client, topics, timeout)
        if "orders" in found.topics and former and chance.random() < 0.7:
            return former[0]
        return found

    monkeypatch.setattr(ClusterClient, "describe", lagging)

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 1)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"metadata_max_age_ms": age_ms, "group_protocol": protocol}
        async with consumer(world, **options) as early:
            reading = asyncio.create_task(collect(early, found))
            await asyncio.sleep(20)
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                described = await describe(admin._client, ["orders"])
            found.clear()
            if fresh:
                reading.cancel()
                await early.close()
            await renew(world, [b"%d" % number for number in range(50)])
            former.append(described)
            async with AsyncExitStack() as stack:
                if fresh:
                    reader = await stack.enter_async_context(consumer(world, **options))
                    reading = asyncio.create_task(collect(reader, found))
                for _ in range(100):
                    await asyncio.sleep(6)
                    await write(world, "orders", 0, 1)
                former.clear()
                await asyncio.sleep(400)
                assert places(found, "orders") == [(0, offset) for offset in range(150)]
                reading.cancel()

    live(life)


def test_a_commit_tells_of_a_topic_that_is_created_again_while_it_is_paused() -> None:
    """Nothing is fetched, so no leader can tell it."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 5, 1)
        async with consumer(world, auto_commit=False) as reader:
            records = aiter(reader)
            for _ in range(5):
                await anext(records)
            reader.pause(ZERO)
            await asyncio.sleep(5)
            await renew(world, [b"new"])
            world.cluster.fail_next(Api.OFFSET_COMMIT, UnknownTopicIdError, times=100)
            with pytest.raises(UnknownTopicIdError):
                await reader.commit()
            await asyncio.sleep(10)
            assert reader.positions == {ZERO: 0}

    live(life)


@each_protocol
def test_a_topic_that_is_created_again_is_an_error_without_a_reset(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "none", "group_protocol": protocol}
        await fill(world, 5, 1)

        async def assigned(_: object) -> None:
            await reader.seek(ZERO, 0)

        async def next_record() -> ConsumerRecord:
            return await anext(records)

        reader = consumer(world, on_assigned=assigned, **options)
        async with reader:
            records = aiter(reader)
            for _ in range(5):
                await next_record()
            waiting = asyncio.create_task(next_record())
            await asyncio.sleep(5)
            await renew(world, [b"new"])
            async with asyncio.timeout(60):
                with pytest.raises(TopicRecreatedError, match="auto_offset_reset"):
                    await waiting

    live(life)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("paused", [True, False])
@pytest.mark.parametrize(
    "versions",
    [{Api.FETCH: 12}, {Api.OFFSET_COMMIT: 9}, {Api.FETCH: 12, Api.OFFSET_COMMIT: 9}],
    ids=str,
)
def test_offsets_of_a_topic_are_not_those_of_its_successor_where_brokers_have_names(
    reset: str, paused: bool, versions: dict[Api, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that takes commits by names can't tell them apart, and neither can a leader."""
    lowered: dict[int, tuple[int, int]]
    lowered = {api: (apis.RANGES[api][0], version) for api, version in versions.items()}
    monkeypatch.setattr(apis, "RANGES", {**apis.RANGES, **lowered})

    async def life(world: SimulatedWorld) -> None:
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {
            "group_protocol": "consumer",
            "auto_offset_reset": reset,
            "auto_commit_interval_ms": 600_000,
        }
        async with consumer(world, **options) as reader:
            reading = asyncio.create_task(collect(reader, found))
            await asyncio.sleep(10)
            await fill(world, 30, 1)
            await asyncio.sleep(5)
            assert len(found) == 30, "they are done, and not committed"
            if paused:
                reader.pause(ZERO)  # no fetch tells it
            await renew(world, [b"%d" % number for number in range(50)])
            await asyncio.sleep(60)
            assert {each.offset for each in found[30:]} == {*range(50)}
            await reader.commit()
            assert (await reader.committed(ZERO))[ZERO].offset == 50  # type: ignore[union-attr]
            reading.cancel()

    live(life)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize(("committed", "first"), [(30, 0), (20, 20)])
def test_a_member_knows_the_offset_of_the_former_topic(
    reset: str, committed: int, first: int
) -> None:
    """Another one is that of a member that has read the new topic."""

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("payments", 1)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": reset}
        async with consumer(world, **options) as reader:
            reading = asyncio.create_task(collect(reader, found))
            await asyncio.sleep(10)
            await fill(world, 30, 1)
            await asyncio.sleep(5)
            reader.subscribe("payments")
            await asyncio.sleep(10)
            await renew(world, [b"%d" % number for number in range(50)])
            group = world.cluster.committed_offsets
            assert ZERO not in group("g")
            model_of(world).coordinators.groups.offsets.commit(
                "g", {ZERO: OffsetAndMetadata(committed)}
            )
            reader.subscribe("orders")
            await asyncio.sleep(20)
            assert [each.offset for each in found[30:]] == [*range(first, 50)]
            assert group("g")[ZERO].offset == 50
            reading.cancel()

    live(life)


# --- without a reset ---------------------------------------------------------------------------


async def collect_and_seek(
    reader: Consumer, found: list[ConsumerRecord], errors: list[Exception], after: int
) -> None:
    """Seek to the beginning of a partition once its error was raised ``after`` times."""
    seen: Counter[TopicPartition] = Counter()
    while True:
        try:
            async for record in reader:
                found.append(record)
        except (OffsetOutOfRangeError, TopicRecreatedError) as error:
            errors.append(error)
            where = TopicPartition(str(error.topic), int(str(error.partition)))
            seen[where] += 1
            if seen[where] == after:
                await reader.seek(where, "beginning")
            else:
                await asyncio.sleep(1)


@each_protocol
def test_a_partition_without_an_offset_is_an_error_until_a_seek_and_others_go_on(
    protocol: str,
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        found: list[ConsumerRecord] = []
        errors: list[Exception] = []

        async def assigned(partitions: Collection[TopicPartition]) -> None:
            if ZERO in partitions and not found:
                await reader.seek(ZERO, 0)

        reader = consumer(
            world,
            on_assigned=assigned,
            auto_offset_reset="none",
            group_protocol=protocol,
            metadata_max_age_ms=2_000,
        )
        async with reader, Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
            reading = asyncio.create_task(collect_and_seek(reader, found, errors, after=20))
            await asyncio.sleep(10)
            assert places(found, "orders") == [(0, offset) for offset in range(10)]
            await admin.add_partitions("orders", 3)
            await write(world, "orders", 1, 5)
            await write(world, "orders", 2, 5)
            await asyncio.sleep(15)
            assert errors
            assert all(isinstance(each, OffsetOutOfRangeError) for each in errors)
            assert {each.partition for each in errors} == {1, 2}  # type: ignore[attr-defined]
            assert reader.positions.keys() == {ZERO}
            await write(world, "orders", 0, 5)
            await asyncio.sleep(10)
            assert (0, 14) in places(found, "orders"), "the others go on"
            assert {each.partition for each in found} == {0}
            await asyncio.sleep(60)
            assert len(errors) == 40
            assert places(found, "orders") == [
                *((0, offset) for offset in range(15)),
                *((1, offset) for offset in range(5)),
                *((2, offset) for offset in range(5)),
            ]
            assert not reading.done()
            reading.cancel()

    live(life)


@each_protocol
@pytest.mark.parametrize("gap", [0, 0.5, 20])
def test_a_topic_that_is_created_again_can_be_read_after_a_seek(protocol: str, gap: float) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 2)
        found: list[ConsumerRecord] = []
        errors: list[Exception] = []

        async def assigned(partitions: Collection[TopicPartition]) -> None:
            for where in partitions if not found else ():
                await reader.seek(where, 0)

        reader = consumer(
            world, on_assigned=assigned, auto_offset_reset="none", group_protocol=protocol
        )
        async with reader, Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
            reading = asyncio.create_task(collect_and_seek(reader, found, errors, after=3))
            await asyncio.sleep(20)
            assert len(found) == 10
            await admin.delete_topics("orders")
            await asyncio.sleep(gap)
            world.cluster.create_topic("orders", 2)
            await fill(world, 20, 2)
            await asyncio.sleep(60)
            assert {type(each) for each in errors} == {TopicRecreatedError}
            assert places(found[10:], "orders") == [
                (number, offset) for number in range(2) for offset in range(10)
            ]
            assert not reading.done()
            reading.cancel()

    live(life, 2)


# --- not permitted -----------------------------------------------------------------------------


def refuse(monkeypatch: pytest.MonkeyPatch, *names: str) -> set[str]:
    """Brokers describe none of these topics, as long as their names are in the result."""
    describe, secret = ClusterClient.describe, set(names)

    async def described(
        client: ClusterClient, topics: Collection[str] | None = (), timeout: float | None = None
    ) -> ClusterDescription:
        found = await describe(client, topics, timeout)
        refused = {
            name: found.topics[name]._replace(error_code=29, partitions=())
            for name in secret & found.topics.keys()
        }
        return found._replace(topics={**found.topics, **refused})

    monkeypatch.setattr(ClusterClient, "describe", described)
    return secret


def test_each_topic_that_is_not_permitted_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(monkeypatch, "hidden", "secret")

    async def life(world: SimulatedWorld) -> None:
        for name in ("hidden", "secret"):
            world.cluster.create_topic(name, 1)
        topics = "orders", "hidden", "secret"
        async with consumer(world, topics=topics, group_protocol="classic") as reader:
            told = []
            for _ in range(2):
                with pytest.raises(TopicAuthorizationFailedError) as raised:
                    await anext(aiter(reader))
                told.append(str(raised.value))
            named = [name for name in ("hidden", "secret") if repr(name) in " ".join(told)]
            assert named == ["hidden", "secret"]

    live(life)


@each_protocol
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_topic_that_is_not_permitted_is_an_error_of_reads_until_it_is(
    protocol: str, reset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator of KIP-848 refuses the member, and brokers do not describe the topic."""
    secret = refuse(monkeypatch, "secret")

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("secret", 1)
        found: list[ConsumerRecord] = []
        errors: list[Exception] = []

        async def read() -> None:
            while True:
                try:
                    await collect(reader, found)
                except TopicAuthorizationFailedError as error:
                    errors.append(error)

        if protocol == "consumer":
            refusal = TopicAuthorizationFailedError
            world.cluster.fail_next(Api.CONSUMER_GROUP_HEARTBEAT, refusal, times=10)
        reader = consumer(
            world,
            topics=("orders", "secret"),
            group_protocol=protocol,
            auto_offset_reset=reset,
            metadata_max_age_ms=5_000,
        )
        async with reader:
            reading = asyncio.create_task(read())
            await asyncio.sleep(20)
            await write(world, "orders", 0, 10)
            await asyncio.sleep(10)
            assert not reading.done()
            assert len(places(found, "orders")) == 10
            assert 1 < len(errors) < 100
            assert "needs the DESCRIBE permission" in str(errors[0])
            secret.clear()
            await asyncio.sleep(20)
            await write(world, "secret", 0, 10)
            await asyncio.sleep(20)
            assert len(places(found, "secret")) == 10
            known = len(errors)
            await asyncio.sleep(60)
            assert len(errors) == known
            reading.cancel()

    live(life)


# --- subscribed to later -----------------------------------------------------------------------

each_assignment = pytest.mark.parametrize(
    "way",
    [
        {"group_protocol": "consumer"},
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "sticky"},
        {"partition_assignment_strategy": "cooperative-sticky"},
    ],
    ids=lambda way: next(iter(way.values())),
)


@each_assignment
def test_another_subscription_takes_effect_and_leaves_what_stays(way: dict[str, Any]) -> None:
    async def life(world: SimulatedWorld) -> None:
        for topic in ("payments", "refunds"):
            world.cluster.create_topic(topic, 1)
        told: list[tuple[str, set[str]]] = []

        def noted(what: str) -> Any:
            return lambda partitions: told.append((what, {each.topic for each in partitions}))

        found: list[ConsumerRecord] = []
        callbacks = {name: noted(name) for name in ("on_assigned", "on_revoked", "on_lost")}
        reader = consumer(world, topics=("orders", "payments"), **callbacks, **way)
        async with reader:
            reading = asyncio.create_task(collect(reader, found))
            for topic in ("orders", "payments", "refunds"):
                await write(world, topic, 0, 5)
            await asyncio.sleep(20)
            assert {each.topic for each in found} == {"orders", "payments"}
            told.clear()
            reader.subscribe("refunds", re.compile("pay.*"))
            await write(world, "orders", 0, 5)
            await asyncio.sleep(20)
            assert {each.topic for each in reader.assignment} == {"refunds", "payments"}
            assert places(found, "orders") == [(0, offset) for offset in range(5)]
            assert places(found, "refunds") == [(0, offset) for offset in range(5)]
            assert places(found, "payments") == [(0, offset) for offset in range(5)]
            stays = way.get("partition_assignment_strategy") in (None, "cooperative-sticky")
            touched = {"orders"} if stays else {"orders", "payments"}
            assert told[0] == ("on_revoked", touched)
            assert told[1:] == [("on_assigned", {"refunds"} | touched - {"orders"})]
            # The acknowledged records of the topic that was dropped are committed.
            assert (await reader.committed(ZERO))[ZERO].offset == 5  # type: ignore[union-attr]
            told.clear()
            reader.subscribe(re.compile("pay.*"), "refunds")
            await asyncio.sleep(20)
            assert not told, "the same topics"
            reader.subscribe("orders")
            await asyncio.sleep(20)
            assert places(found, "orders") == [(0, offset) for offset in range(10)]
            reading.cancel()

    live(life)


@each_assignment
def test_members_divide_what_each_of_them_wants_now(way: dict[str, Any]) -> None:
    """Members subscribe at any time, also while the group is in a rebalance."""

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("payments", 3)
        seen: Counter[tuple[str, int, int]] = Counter()
        random = Random(7)
        async with AsyncExitStack() as stack:
            found: list[ConsumerRecord] = []
            readers = [
                await stack.enter_async_context(consumer(world, client_id=each, **way))
                for each in "abc"
            ]
            reading = [asyncio.create_task(collect(each, found)) for each in readers]
            for number in range(30):
                wanted = random.choice([("orders",), ("payments",), ("orders", "payments")])
                random.choice(readers).subscribe(*wanted)
                await write(world, "orders", number % 3, 3)
                await write(world, "payments", number % 3, 3)
                await asyncio.sleep(random.random() * 4)
            for each in readers:
                each.subscribe("orders", "payments")
            await asyncio.sleep(40)
            owned = [where for each in readers for where in each.assignment]
            assert len(owned) == len(set(owned)) == 6
            seen.update((each.topic, each.partition, each.offset) for each in found)
            assert len(seen) == 180, "every record of both topics"
            for task in reading:
                task.cancel()

    live(life, 3)


@each_protocol
def test_no_record_of_a_dropped_topic_is_returned_after_the_call(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("payments", 1)
        await fill(world, 100, 1)
        async with consumer(world, group_protocol=protocol) as reader:
            records = aiter(reader)
            for _ in range(10):
                assert (await anext(records)).topic == "orders"
            reader.subscribe("payments")
            reader.subscribe("orders")
            assert (await anext(records)).offset == 10, "the topic is wanted again"
            reader.subscribe("payments")
            await write(world, "payments", 0, 1)
            assert (await anext(records)).topic == "payments"
            assert (await reader.committed(ZERO))[ZERO].offset == 11  # type: ignore[union-attr]

    live(life)


@each_protocol
@each_reset
def test_a_topic_that_is_subscribed_to_later_begins_as_at_a_start(
    protocol: str, reset: str
) -> None:
    """Its partitions of that time are no new ones, and those that are added later are."""

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("payments", 1)
        await write(world, "payments", 0, 30)
        await asyncio.sleep(5)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"auto_offset_reset": reset, "metadata_max_age_ms": 20_000}
        async with consumer(world, group_protocol=protocol, **options) as reader:
            reading = asyncio.create_task(collect(reader, found))
            await asyncio.sleep(10)
            reader.subscribe("orders", "payments", "later")
            await asyncio.sleep(10)
            await write(world, "payments", 0, 1)
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.add_partitions("payments", 2)
            await write(world, "payments", 1, 3)
            world.cluster.create_topic("later", 1)
            await write(world, "later", 0, 3)
            await asyncio.sleep(60)
            assert places(found, "payments") == [(0, 30), (1, 0), (1, 1), (1, 2)]
            assert places(found, "later") == [(0, 0), (0, 1), (0, 2)]
            reading.cancel()

    live(life)


def test_another_subscription_outlives_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those after which no other attempt seems to help."""
    describe = ClusterClient.describe
    refusals = 0

    async def refused(
        client: ClusterClient, topics: Collection[str] | None = (), timeout: float | None = None
    ) -> ClusterDescription:
        nonlocal refusals
        if topics is None and refusals < 3:
            refusals += 1
            raise ClusterAuthorizationFailedError("not now")
        return await describe(client, topics, timeout)

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("payments", 1)
        options: dict[str, Any] = {"metadata_max_age_ms": 3_600_000}
        async with consumer(world, group_protocol="consumer", **options) as reader:
            await asyncio.sleep(20)
            monkeypatch.setattr(ClusterClient, "describe", refused)
            reader.subscribe(re.compile("pay.*"))
            await asyncio.sleep(30)
            assert {each.topic for each in reader.assignment} == {"payments"}
            assert refusals == 3

    live(life)


@each_protocol
def test_a_topic_that_is_subscribed_to_later_and_missing_is_told(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world, group_protocol=protocol) as reader:
            await asyncio.sleep(20)
            reader.subscribe("orders", "ordres")
            await asyncio.sleep(20)
            assert reader.health().problems == ("there is no topic 'ordres'",)
            reader.subscribe("orders")
            await asyncio.sleep(20)
            assert not reader.health().problems

    live(life)


@each_protocol
def test_handlers_get_the_records_of_another_subscription(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("payments", 1)
        await fill(world, 100, 1)
        await write(world, "payments", 0, 100)
        found: list[ConsumerRecord] = []

        async def handle(record: ConsumerRecord) -> None:
            await asyncio.sleep(0.1)
            found.append(record)
            if len(found) == 10:
                reader.subscribe("payments")
            if len(places(found, "payments")) == 100:
                reader.finish()

        async with consumer(world, group_protocol=protocol) as reader:
            await reader.run(handle)
            assert len(places(found, "orders")) == 10, "the others were lined up already"
            assert (await reader.committed(ZERO))[ZERO].offset == 10  # type: ignore[union-attr]

    live(life)


@each_protocol
@pytest.mark.parametrize("pause", [0, 30])
def test_handlers_get_what_was_lined_up_before_a_topic_was_dropped_for_a_while(
    protocol: str, pause: float
) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("payments", 1)
        await fill(world, 100, 1)
        found: list[ConsumerRecord] = []

        async def handle(record: ConsumerRecord) -> None:
            await asyncio.sleep(0.1)
            found.append(record)
            if len(found) == 10:
                reader.subscribe("payments")
                asyncio.get_running_loop().call_later(pause, reader.subscribe, "orders")

        async with consumer(world, group_protocol=protocol) as reader:
            running = asyncio.create_task(reader.run(handle))
            await asyncio.sleep(pause + 60)
            assert [each.offset for each in found] == [*range(100)]
            running.cancel()

    live(life)


# --- the group's offset ------------------------------------------------------------------------


@each_protocol
def test_a_seek_to_the_committed_offset(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 30, 1)
        options: dict[str, Any] = {"group_protocol": protocol, "auto_commit": False}
        async with consumer(world, **options) as reader:
            records = aiter(reader)
            assert [(await anext(records)).offset for _ in range(3)] == [0, 1, 2]
            await reader.seek(ZERO, "committed")
            assert (await anext(records)).offset == 0, "the group has none, and it began here"
            await reader.commit({ZERO: 7})
            await reader.seek(ZERO, "committed")
            assert (await anext(records)).offset == 7
            await reader.seek(ZERO, 20)
            assert (await anext(records)).offset == 20
            await reader.seek(ZERO, "committed")
            assert (await anext(records)).offset == 7
            with pytest.raises(ConfigError, match="'beginning', 'committed' or 'end', not 'comm'"):
                await reader.seek(ZERO, "comm")  # type: ignore[arg-type]

        async def resume(partitions: Collection[TopicPartition]) -> None:
            for where in partitions:
                await again.seek(where, "end")
                await again.seek(where, "committed")

        again = consumer(world, on_assigned=resume, **options)
        async with again:
            assert (await anext(aiter(again))).offset == 7

    live(life)
