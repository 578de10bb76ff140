"""Keyless records of a producer with a rack: near leaders first, others when none is left."""

from __future__ import annotations

from aioproducer import Producer
from tests.faults.conftest import StartKafka
from tests.support.fake_kafka import FakeKafka


async def partitions(producer: Producer) -> set[int]:
    return {(await producer.send("orders", bytes(20_000))).partition for _ in range(40)}


async def racked(start_kafka: StartKafka) -> FakeKafka:
    """Partitions 1 and 3 are in rack b; partition 2 is on a broker without a rack."""
    kafka = await start_kafka(3, {"orders": 4})
    kafka.racks = {1: "a", 2: "b"}
    kafka.lead("orders", 3, 2)
    return kafka


async def test_keyless_records_go_to_the_client_s_rack(start_kafka: StartKafka) -> None:
    kafka = await racked(start_kafka)
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        partitioner_rack_aware=True,
        client_rack="b",
        metadata_max_age_ms=100,
    ) as producer:
        assert await partitions(producer) == {1, 3}
        assert (await producer.send("orders", b"far", partition=0)).partition == 0
        for partition in (1, 3):
            kafka.lead("orders", partition, 3)
        await partitions(producer)  # a first batch learns of the new leaders
        assert await partitions(producer) == {0, 1, 2, 3}


async def test_the_rack_matters_on_request_only(start_kafka: StartKafka) -> None:
    kafka = await racked(start_kafka)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, client_rack="b") as producer:
        assert await partitions(producer) == {0, 1, 2, 3}
