"""The faults of a simulated cluster, as applications and consumers of one group meet them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pytest

from aioproducer import DeliveryTimeoutError, Producer, ProducerError, TopicPartition
from aioproducer.admin import Admin
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.consumer import Consumer
from aioproducer.errors import NotEnoughReplicasError, TopicAuthorizationFailedError
from aioproducer.reader import Reader
from aioproducer.testing import SimulatedWorld, expect, read_back, simulate
from aioproducer.testing.fault_proxy import ApiKey
from tests.support.simulated_world import connections_to, model_of, network_of

T = TypeVar("T")
Life: TypeAlias = Callable[[SimulatedWorld], Coroutine[Any, Any, T]]


def run(life: Life[T], **options: Any) -> T:
    return simulate(life, topics={"orders": 1}, **options)


def producer_of(world: SimulatedWorld, **options: Any) -> Producer:
    return Producer(bootstrap_servers=world.cluster.bootstrap_servers, **options)


async def seconds_of(world: SimulatedWorld, producer: Producer, value: bytes) -> float:
    """The time that a record takes."""
    began = world.now
    await producer.send("orders", value)
    return world.now - began


# --- clients --------------------------------------------------------------------------------------


def test_readers_and_admins_live_in_the_world() -> None:
    async def life(world: SimulatedWorld) -> None:
        servers = world.cluster.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic("invoices", partitions=2)
            assert sorted(await admin.list_topics()) == ["invoices", "orders"]
        async with producer_of(world) as producer:
            await producer.send("invoices", b"1", partition=1, headers={"trace": b"x"})
        async with Reader("invoices", bootstrap_servers=servers, end="end") as reader:
            [record] = [each async for each in reader]
        [stored] = world.cluster.records("invoices")
        assert stored == record._replace(leader_epoch=None)
        expect(await read_back("invoices", bootstrap_servers=servers)).has(value=b"1")

    run(life)


def test_producers_of_other_interfaces_live_in_the_world() -> None:
    async def life(world: SimulatedWorld) -> None:
        servers = world.cluster.bootstrap_servers
        producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
        await producer.start()
        await producer.send_and_wait("orders", b"one espresso")
        await producer.stop()
        assert world.cluster.records("orders").values == [b"one espresso"]

    run(life)


def test_records_are_those_of_committed_transactions() -> None:
    async def life(world: SimulatedWorld) -> None:
        cluster = world.cluster
        async with producer_of(world, transactional_id="shop") as producer:
            async with producer.transaction():
                await producer.send("orders", b"committed")
                await producer.send_offsets_to_transaction({("orders", 0): 7}, "shops")
                assert cluster.records("orders") == []
                assert cluster.committed_offsets("shops") == {}
            await asyncio.sleep(1)
            await producer.begin_transaction()
            await producer.send("orders", b"aborted")
            await producer.abort_transaction()
            await asyncio.sleep(1)
        assert cluster.records("orders").values == [b"committed"]
        [(partition, committed)] = cluster.committed_offsets("shops").items()
        assert (partition, committed.offset) == (TopicPartition("orders", 0), 7)

    run(life)


# --- brokers --------------------------------------------------------------------------------------


def test_another_broker_leads_after_a_crash() -> None:
    async def life(world: SimulatedWorld) -> None:
        cluster = world.cluster
        async with producer_of(world) as producer:
            await producer.send("orders", b"1")
            leader = cluster.leader("orders")
            assert leader is not None
            cluster.crash(leader)
            cluster.crash(leader)
            await producer.send("orders", b"2")
            assert cluster.leader("orders") not in (leader, None)
            for broker in cluster.brokers:
                cluster.crash(broker)
            await asyncio.sleep(2)
            assert cluster.leader("orders") is None
            third = producer.send("orders", b"3")
            await asyncio.sleep(30)
            assert not third.done()
            for broker in cluster.brokers:
                cluster.restart(broker)
                cluster.restart(broker)
            await third
        assert cluster.records("orders").values == [b"1", b"2", b"3"]

    run(life)


@pytest.mark.parametrize("acks", [1, "all"])
def test_a_crash_loses_what_one_broker_had(acks: Any) -> None:
    async def life(world: SimulatedWorld) -> list[bytes | None]:
        cluster = world.cluster
        async with producer_of(world, acks=acks, enable_idempotence=False) as producer:
            await producer.send("orders", b"acknowledged")
            leader = cluster.leader("orders")
            assert leader is not None
            cluster.crash(leader, lose_unreplicated=True)
            await asyncio.sleep(5)
        return cluster.records("orders").values

    lost = [seed for seed in range(20) if run(partial(life), seed=seed) == []]
    assert (acks == 1) == bool(lost)


def test_leaders_move() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with producer_of(world) as producer:
            for broker in world.cluster.brokers:
                world.cluster.move_leader("orders", 0, broker)
                assert world.cluster.leader("orders") == broker
                await producer.send("orders", b"%d" % broker)
        assert world.cluster.records("orders").values == [b"1", b"2", b"3"]

    run(life)


def test_requests_are_throttled() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with producer_of(world) as producer:
            await producer.send("orders", b"1")
            world.cluster.throttle(5_000)
            assert await seconds_of(world, producer, b"2") < 1
            assert 4 < await seconds_of(world, producer, b"3") < 6

    run(life)


def test_requests_fail() -> None:
    async def life(world: SimulatedWorld) -> None:
        cluster = world.cluster
        async with producer_of(world) as producer:
            cluster.fail_next(ApiKey.PRODUCE, NotEnoughReplicasError, times=2)
            await producer.send("orders", b"retried")
            cluster.fail_next(ApiKey.PRODUCE, TopicAuthorizationFailedError)
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send("orders", b"refused")
        assert cluster.records("orders").values == [b"retried"]

    run(life)


@pytest.mark.parametrize("idempotent", [True, False])
def test_lost_responses_show_who_writes_twice(idempotent: bool) -> None:
    async def life(world: SimulatedWorld) -> int:
        async with producer_of(world, enable_idempotence=idempotent) as producer:
            world.cluster.lose_next_response(ApiKey.PRODUCE)
            await producer.send("orders", b"one espresso")
        return len(world.cluster.records("orders"))

    assert run(life) == (1 if idempotent else 2)


def test_an_unknown_broker_or_topic_is_an_error() -> None:
    async def life(world: SimulatedWorld) -> None:
        cluster = world.cluster
        for call in (cluster.crash, cluster.restart, cluster.cut, cluster.stall, cluster.release):
            with pytest.raises(ValueError, match="no broker 4: the ids are 1 to 3"):
                call(4)
        with pytest.raises(ValueError, match="no broker 4"):
            cluster.move_leader("orders", 0, 4)
        with pytest.raises(LookupError, match="no topic 'invoices'"):
            cluster.records("invoices")
        with pytest.raises(LookupError, match="no partition orders-1"):
            cluster.leader("orders", 1)

    run(life)


def test_topics_have_settings() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("invoices", 2, min_insync_replicas=3)
        world.cluster.crash(1)
        async with producer_of(world, delivery_timeout_ms=40_000) as producer:
            with pytest.raises(DeliveryTimeoutError, match="NOT_ENOUGH_REPLICAS"):
                await producer.send("invoices", b"1")

    run(life)


# --- the network ----------------------------------------------------------------------------------


def test_bytes_take_time() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with producer_of(world) as producer:
            await producer.send("orders", b"1")
            world.cluster.set_latency(0.2)
            assert await seconds_of(world, producer, b"2") == pytest.approx(0.4, abs=0.02)
            world.cluster.set_latency(0.5, 1.5)
            assert 1 <= await seconds_of(world, producer, b"3") <= 3.02

    run(life)


def test_a_cut_connection_is_opened_again() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with producer_of(world) as producer:
            await producer.send("orders", b"one espresso")
            world.cluster.set_latency(0.2)
            order = producer.send("orders", b"two teas")
            await asyncio.sleep(0.1)
            for broker in world.cluster.brokers:
                world.cluster.cut(broker)
            await asyncio.sleep(0.35)
            assert not order.done()
            await order
        assert world.cluster.records("orders").values == [b"one espresso", b"two teas"]

    run(life)


DIRECTIONS: list[Any] = ["both", "requests", "responses"]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_stalled_broker_is_silent_until_its_release(direction: Any) -> None:
    async def life(world: SimulatedWorld) -> bool:
        cluster = world.cluster
        async with producer_of(world, linger_ms=0) as producer:
            await producer.send("orders", b"1")
            leader = cluster.leader("orders")
            assert leader is not None
            cluster.stall(leader, direction)
            order = producer.send("orders", b"2")
            await asyncio.sleep(10)
            assert not order.done()
            written = len(cluster.records("orders")) == 2
            cluster.release(leader)
            await asyncio.sleep(1)
            assert order.done()
        assert cluster.records("orders").values == [b"1", b"2"]
        return written

    assert run(life) == (direction == "responses")


def test_a_stalled_broker_answers_no_new_connection() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.stall(1)
        async with producer_of(world, max_block_ms=20_000) as producer:
            with pytest.raises(ProducerError):
                await producer.send("orders", b"1")
            world.cluster.release(1)
            await producer.send("orders", b"2")

    run(life, brokers=1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what passes")
def test_a_response_whose_bytes_still_pass_is_waited_for() -> None:
    """It takes about three seconds, and request_timeout_ms is one."""

    async def life(world: SimulatedWorld) -> None:
        async with producer_of(world, request_timeout_ms=1_000) as producer:
            await producer.send("orders", b"1")
            before = connections_to(world, 1)
            network_of(world).dripping[before[0].address] = 1, 0.05
            assert await seconds_of(world, producer, b"2") > 2
            assert connections_to(world, 1) == before
        assert world.cluster.records("orders").values == [b"1", b"2"]

    run(life, brokers=1)


# --- the application ------------------------------------------------------------------------------


def test_a_frozen_application_goes_on() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with producer_of(world) as producer:
            order = producer.send("orders", b"one espresso")
            world.at(1.0, lambda: world.freeze(900))
            await asyncio.sleep(2)
            assert world.now == pytest.approx(901, abs=2)
            await order
            await producer.send("orders", b"two teas")

    run(life)


PARTITIONS = 4
RECORDS = 200


class Readers:
    """Members of a group, and what they have read."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.read: Counter[int] = Counter()
        self.partitions: dict[str, set[int]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, name: str) -> None:
        self.partitions[name] = set()
        self.tasks.append(asyncio.create_task(self._consume(name)))

    async def _consume(self, name: str) -> None:
        async with Consumer(
            "orders",
            group_id="shop",
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=1_000,
        ) as consumer:
            async for record in consumer:
                self.read[int(record.value or b"")] += 1
                self.partitions[name].add(record.partition)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


async def send(producer: Producer, begin: int = 0) -> None:
    """Half of the records, ten a second."""
    for number in range(begin, begin + RECORDS // 2):
        producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("seed", range(2))
def test_two_consumers_share_the_partitions_of_a_topic(seed: int) -> None:
    async def life(world: SimulatedWorld) -> None:
        readers = Readers(world)
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            readers.start("one")
            await send(producer)
            readers.start("two")
            await asyncio.sleep(20)
            for each in readers.partitions.values():
                each.clear()
            await send(producer, RECORDS // 2)
            await asyncio.sleep(20)
        assert sorted(map(len, readers.partitions.values())) == [2, 2]
        assert not set.intersection(*readers.partitions.values())
        assert sorted(readers.read) == [*range(RECORDS)]
        await readers.stop()

    simulate(life, seed=seed, topics={"orders": PARTITIONS})


@pytest.mark.parametrize("seed", range(2))
def test_a_group_outlives_its_coordinator(seed: int) -> None:
    async def life(world: SimulatedWorld) -> None:
        readers = Readers(world)
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            readers.start("one")
            readers.start("two")
            await send(producer)
            coordinator = model_of(world).coordinators.groups.partition_of("shop").leader
            world.cluster.crash(coordinator)
            world.at(world.now + 15, partial(world.cluster.restart, coordinator))
            await send(producer, RECORDS // 2)
            await asyncio.sleep(60)
        assert sorted(readers.read) == [*range(RECORDS)]
        assert not any(task.done() for task in readers.tasks)
        await readers.stop()
        offsets = world.cluster.committed_offsets("shop")
        assert sum(each.offset for each in offsets.values()) == RECORDS

    simulate(life, seed=seed, topics={"orders": PARTITIONS})
