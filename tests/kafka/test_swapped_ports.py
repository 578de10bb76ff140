"""Two clusters whose addresses are exchanged while a producer writes to one of them (KIP-1242)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest

from aioproducer import ProducerError, RecordMetadata
from aioproducer.admin import Admin
from aioproducer.errors import ProducerTimeoutError
from aioproducer.producer import Producer
from aioproducer.reader import Reader
from aioproducer.testing.fault_proxy import FaultProxy
from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaUnavailableError
from aioproducer.testing.ports import free_ports
from aioproducer.testing.read_records import read_back
from tests.kafka.conftest import PATIENT, say_that_there_is_no_kafka

pytestmark = pytest.mark.kafka

CHECKING = "4.4.0"
"""The first release whose brokers check."""

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
    async with Producer(bootstrap_servers=bootstrap_of(ours, exchanged=exchanged)) as producer:
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
    ) as producer:
        await producer.send(topic, b"mine")
        addresses.swap()
        known, unknown = producer.send(topic, b"for us"), producer.send("another", b"for us")
        fates = await asyncio.gather(known, unknown, return_exceptions=True)
        addresses.swap()
    assert all(isinstance(fate, ProducerError) for fate in fates)
    print(*map(str, fates), sep="\n")
    assert "metadata_cluster_check_enable" in str(fates[1])
    assert await in_log(theirs, topic) == []


async def test_without_the_check_the_producer_follows_its_bootstrap_servers(
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
    assert "Another cluster answers now" in caplog.text
    written = [await in_log(cluster, "follows") for cluster in addresses.clusters]
    assert written in ([[b"mine"], [b"anywhere"]], [[b"mine", b"anywhere"], []])


async def test_a_reader_goes_on_in_its_own_cluster(addresses: Addresses) -> None:
    ours, theirs = addresses.clusters
    for cluster, values in ((ours, b"ours"), (theirs, b"theirs")):
        await cluster.create_topic("read", 1)
        inside = cluster.bootstrap_servers_of("INTERNAL")
        async with Producer(bootstrap_servers=inside) as producer:
            await producer.send_many("read", [values] * 3)
    async with Reader("read", bootstrap_servers=ours.bootstrap_servers) as reader:
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


async def test_an_admin_keeps_to_its_cluster(addresses: Addresses) -> None:
    ours, theirs = addresses.clusters
    await ours.create_topic("kept", 1)
    async with Admin(bootstrap_servers=ours.bootstrap_servers) as admin:
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
