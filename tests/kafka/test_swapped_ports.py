"""Clusters whose addresses are exchanged, and a cluster that another one replaces (KIP-1242)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Final

import pytest

from aioproducer import ProducerError, RecordMetadata
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.errors import ProducerTimeoutError
from aioproducer.producer import Producer
from aioproducer.reader import Reader
from aioproducer.testing.fault_proxy import FaultProxy
from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaUnavailableError
from aioproducer.testing.ports import free_ports
from aioproducer.testing.read_records import read_back
from tests.kafka.conftest import PATIENT, QUICK_GROUPS, say_that_there_is_no_kafka

pytestmark = pytest.mark.kafka

CHECKING = "4.4.0"
"""The first release whose brokers check."""
PROTOCOLS: Final = ("classic", "consumer")

Clusters = tuple[KafkaCluster, KafkaCluster]


@pytest.fixture(scope="module")
def ours_and_theirs() -> Iterator[Clusters]:
    """A cluster to write to and another one. Each broker advertises a port of the tests."""
    with ExitStack() as running:
        ports = free_ports(2)
        try:
            ours, theirs = (
                running.enter_context(
                    KafkaCluster(1, config=PATIENT, version=CHECKING, advertised_ports={1: port})
                )
                for port in ports
            )
        except KafkaUnavailableError as error:
            say_that_there_is_no_kafka(error, CHECKING)
        yield ours, theirs


class Addresses:
    """The advertised addresses of both clusters, which can be exchanged."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        self.proxies = [
            FaultProxy(broker.port, port=broker.advertised_port)
            for cluster in clusters
            for broker in cluster.brokers
        ]

    def swap(self) -> None:
        ours, theirs = self.proxies
        ours.target, theirs.target = theirs.target, ours.target
        for proxy in self.proxies:
            proxy.end_connections()


@pytest.fixture
async def addresses(ours_and_theirs: Clusters) -> AsyncIterator[Addresses]:
    addresses = Addresses(ours_and_theirs)
    async with AsyncExitStack() as open_proxies:
        for proxy in addresses.proxies:
            await open_proxies.enter_async_context(proxy)
        yield addresses


async def in_log(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    inside = cluster.bootstrap_servers_of("INTERNAL")  # which nobody exchanges
    return (await read_back(topic, bootstrap_servers=inside)).values


def bootstrap_of(cluster: KafkaCluster, *, exchanged: bool) -> str:
    """The exchanged address alone, or one that stays beside it."""
    stays = f"127.0.0.1:{cluster.broker(1).port}"
    return cluster.bootstrap_servers if exchanged else f"{stays},{cluster.bootstrap_servers}"


@pytest.mark.parametrize("exchanged", [False, True], ids=["a-server-stays", "all-exchanged"])
async def test_no_record_reaches_the_other_cluster(
    addresses: Addresses, exchanged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = addresses.clusters
    topic = f"no-record-{exchanged}"
    for cluster in addresses.clusters:
        await cluster.create_topic(topic, 1)
    caplog.set_level(logging.WARNING, "aioproducer")
    values = [b"%d" % number for number in range(300)]
    futures: list[asyncio.Future[RecordMetadata]] = []
    async with Producer(
        bootstrap_servers=bootstrap_of(ours, exchanged=exchanged),
        metadata_recovery_strategy="same_cluster",
    ) as producer:
        for number, value in enumerate(values):
            if number == 100:
                await producer.flush()
                addresses.swap()
            if number == 200:
                await asyncio.sleep(2)
                assert not any(future.done() for future in futures[100:])
                addresses.swap()
            futures.append(producer.send(topic, value))
            await asyncio.sleep(0.002)
        await asyncio.gather(*futures)
    assert await in_log(theirs, topic) == []
    assert await in_log(ours, topic) == values
    said = "another broker now has its address" if not exchanged else "belongs to cluster"
    assert said in caplog.text


async def test_a_cluster_that_does_not_come_back_is_named_in_the_error(
    addresses: Addresses,
) -> None:
    ours, theirs = addresses.clusters
    topic = "not-back"
    for cluster in addresses.clusters:
        await cluster.create_topic(topic, 1)
    async with Producer(
        bootstrap_servers=ours.bootstrap_servers,
        delivery_timeout_ms=4000,
        request_timeout_ms=2000,
        max_block_ms=2000,
        metadata_recovery_strategy="same_cluster",
    ) as producer:
        await producer.send(topic, b"mine")
        addresses.swap()
        known, unknown = producer.send(topic, b"for us"), producer.send("another", b"for us")
        fates = await asyncio.gather(known, unknown, return_exceptions=True)
        health = producer.health()
        assert health.is_live, "it goes on as soon as its cluster is back"
        assert not health.is_ready
        assert "same_cluster" in health.reason
        addresses.swap()
    assert all(isinstance(fate, ProducerError) for fate in fates)
    print(*map(str, fates), sep="\n")
    assert "same_cluster" in str(fates[1])
    assert await in_log(theirs, topic) == []


async def test_without_the_check_a_producer_follows_whoever_answers(
    addresses: Addresses, caplog: pytest.LogCaptureFixture
) -> None:
    """The other cluster advertises the way to the first one, so either may take the record."""
    ours, _ = addresses.clusters
    for cluster in addresses.clusters:
        await cluster.create_topic("follows", 1)
    async with Producer(
        bootstrap_servers=ours.bootstrap_servers, metadata_cluster_check_enable=False
    ) as producer:
        caplog.set_level(logging.WARNING, "aioproducer")
        await producer.send("follows", b"mine")
        addresses.swap()
        try:
            await producer.send("follows", b"anywhere")
        finally:
            addresses.swap()
    assert "answers instead of cluster" in caplog.text
    written = [await in_log(cluster, "follows") for cluster in addresses.clusters]
    assert written in ([[b"mine"], [b"anywhere"]], [[b"mine", b"anywhere"], []])


async def test_a_reader_may_stay_with_its_own_cluster(addresses: Addresses) -> None:
    ours, theirs = addresses.clusters
    for cluster, values in ((ours, b"ours"), (theirs, b"theirs")):
        await cluster.create_topic("read", 1)
        inside = cluster.bootstrap_servers_of("INTERNAL")
        async with Producer(bootstrap_servers=inside) as producer:
            await producer.send_many("read", [values] * 3)
    async with Reader(
        "read",
        bootstrap_servers=ours.bootstrap_servers,
        metadata_recovery_strategy="same_cluster",
    ) as reader:
        records = aiter(reader)
        read = [(await anext(records)).value for _ in range(3)]
        addresses.swap()
        following = asyncio.ensure_future(anext(records))
        await asyncio.sleep(2)
        assert not following.done()
        addresses.swap()
        async with Producer(bootstrap_servers=ours.bootstrap_servers_of("INTERNAL")) as producer:
            await producer.send("read", b"more of ours")
        assert [*read, (await following).value] == [b"ours"] * 3 + [b"more of ours"]


async def test_an_admin_may_keep_to_its_cluster(addresses: Addresses) -> None:
    ours, theirs = addresses.clusters
    await ours.create_topic("kept", 1)
    async with Admin(
        bootstrap_servers=ours.bootstrap_servers, metadata_recovery_strategy="same_cluster"
    ) as admin:
        assert "kept" in await admin.list_topics()
        addresses.swap()
        try:
            with pytest.raises(ProducerTimeoutError, match=r"another broker|answers now"):
                await admin.create_topic("stray", partitions=1, timeout=2)
        finally:
            addresses.swap()
        assert "stray" not in await admin.list_topics()
    async with Admin(bootstrap_servers=theirs.bootstrap_servers_of("INTERNAL")) as other:
        assert "stray" not in await other.list_topics()


# --- a cluster that is replaced ------------------------------------------------------------------


async def test_a_producer_follows_a_name_that_points_to_a_standby_cluster(
    addresses: Addresses, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = addresses.clusters
    for cluster in addresses.clusters:
        await cluster.create_topic("failover", 1)
    caplog.set_level(logging.WARNING, "aioproducer")
    first, rest = ([b"%d" % n for n in numbers] for numbers in (range(100), range(100, 300)))
    (nobody,) = free_ports(1)
    async with (
        FaultProxy(ours.broker(1).port) as name,
        Producer(bootstrap_servers=f"127.0.0.1:{name.port}") as producer,
    ):
        await asyncio.gather(*[producer.send("failover", each) for each in first])
        own = addresses.proxies[0]
        target, own.target, name.target = own.target, nobody, theirs.broker(1).port
        own.end_connections()
        name.end_connections()
        try:
            await asyncio.gather(*[producer.send("failover", each) for each in rest])
        finally:
            own.target = target
        assert producer.health().can_write
        assert not producer.health().problems
    assert await in_log(ours, "failover") == first
    assert await in_log(theirs, "failover") == rest, "in their order, and each once"
    [line] = [each for each in caplog.messages if "answers instead of cluster" in each]
    print(line)


def a_cluster(port: int, version: str | None) -> KafkaCluster:
    config = PATIENT | QUICK_GROUPS | {"num.partitions": 2}
    return KafkaCluster(1, config=config, port=port, version=version)


@pytest.mark.parametrize("version", [None, CHECKING], ids=["unchecked", "checked"])
async def test_clients_follow_a_cluster_that_was_made_again_at_its_address(
    version: str | None, kafka_distribution: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Each kind of client is there before, and goes on with all of its defaults."""
    caplog.set_level(logging.INFO, "aioproducer")
    (port,) = free_ports(1)
    servers: Any = {"bootstrap_servers": f"127.0.0.1:{port}"}
    old, new = [b"old %d" % n for n in range(200)], [b"new %d" % n for n in range(20)]
    async with AsyncExitStack() as clients:

        async def enter(client: Any) -> Any:
            return await clients.enter_async_context(client)

        async with a_cluster(port, version) as first:
            await first.create_topic("orders", 2)
            producer = await enter(Producer(**servers, client_id="idempotent"))
            plain = await enter(Producer(**servers, client_id="plain", enable_idempotence=False))
            fenced = await enter(Producer(**servers, transactional_id="payments"))
            admin = await enter(Admin(**servers))
            reader = await enter(
                Reader("orders", **servers, client_id="reader", auto_offset_reset="earliest")
            )
            consumers = [
                await enter(
                    Consumer(
                        "orders",
                        group_id=f"billing-{protocol}",
                        client_id=protocol,
                        group_protocol=protocol,
                        auto_offset_reset="earliest",
                        **servers,
                    )
                )
                for protocol in PROTOCOLS
            ]
            async with fenced.transaction():
                fenced.send("paid", b"once")
            await asyncio.gather(*[producer.send("orders", each) for each in old])
            await plain.send("plain", b"before")
            assert await some_values([reader, *consumers], len(old)) == [set(old)] * 3
            former = (await admin.describe_cluster()).cluster_id
        await asyncio.sleep(1)
        later = [producer.send("orders", each) for each in new[:10]]
        plain_later = plain.send("plain", b"meanwhile")
        await fenced.begin_transaction()
        open_transaction = fenced.send("paid", b"never")
        async with a_cluster(port, version):
            # Their producers create the topics: one of them may be there before the test is.
            await asyncio.gather(*later, plain_later)
            async with asyncio.timeout(30):
                with pytest.raises(ProducerError, match=r"cluster") as told:
                    await open_transaction
            assert not fenced.health().is_live
            assert former in fenced.health().reason
            with pytest.raises(ProducerError):
                await fenced.abort_transaction()
            print(told.value, fenced.health(), sep="\n")
            await asyncio.gather(*[producer.send("orders", each) for each in new[10:]])
            assert await some_values([reader, *consumers], len(new)) == [set(new)] * 3
            assert (await admin.describe_cluster()).cluster_id not in (None, former)
            assert "orders" in await admin.list_topics()
            found = (await read_back("orders", **servers)).values
            assert sorted(map(str, found)) == sorted(map(str, new)), "each once"
            assert (await read_back("plain", **servers)).values == [b"meanwhile"]
            present = (await admin.describe_cluster()).cluster_id
            for client in (producer, plain):
                assert client.health().can_write
                assert not client.health().problems
            for consumer in consumers:
                assert consumer.health().is_ready
    naming_both = [
        record
        for record in caplog.records
        if former in record.getMessage() and present in record.getMessage()
    ]
    told_by = sorted(
        getattr(each, "client_id", "") for each in naming_both if each.levelno == logging.WARNING
    )
    print(*(each.getMessage() for each in naming_both), sep="\n")
    assert told_by == sorted(
        ["idempotent", "plain", fenced.client_id, admin.client_id, "reader", *PROTOCOLS]
    )


async def some_values(sources: list[Any], count: int) -> list[set[bytes]]:
    """The values of the next records of each source."""

    async def read(source: Any) -> set[bytes]:
        found = set()
        async for record in source:
            found.add(record.value)
            if len(found) == count:
                break
        if isinstance(source, Consumer):
            await source.commit()
        return found

    async with asyncio.timeout(60):
        return await asyncio.gather(*[read(each) for each in sources])
