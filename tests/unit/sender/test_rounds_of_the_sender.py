"""A whole producer over a played network: what one round of the sender does, and in which order."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from aioproducer import BufferExhaustedError, Producer, RecordMetadata
from aioproducer.core.environment import Environment
from aioproducer.errors import BrokerConnectionError, ProducerError
from aioproducer.model import Node
from aioproducer.network.apis import Api, response_type
from aioproducer.network.request import Completion
from aioproducer.sender.produce import ProduceRequest
from aioproducer.sender.requests import MetadataRequest
from aioproducer.sender.wakeup import Wakeup
from tests.support.inside import accumulator_of, in_environment
from tests.unit.sender.world import metadata_answer

NOTHING = i32Timedelta.parse(datetime.timedelta(0))
START, LINGER, MAX_AGE, MAX_BLOCK, DELIVERY = 1000.0, 2.0, 300.0, 60.0, 5000.0
BROKERS = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}


class Network:
    """Stands in for the NetworkClient: keeps what is sent, and the test answers."""

    def barriers(self) -> list[Any]:
        return []

    def __init__(self, wake: Callable[[], None], metrics: Any) -> None:
        self.wake = wake
        self.metrics = metrics
        self.sent: list[tuple[int, Any]] = []
        self.completed: list[Completion] = []
        self.unreachable: set[int] = set()
        self.reasons: dict[int, ProducerError] = {}
        self.due: float | None = None
        self.asks_nobody = False

    def in_flight(self, node: int) -> int:
        return 0

    def total_in_flight(self) -> int:
        return 0

    def reaches(self, nodes: Iterable[Node]) -> bool:
        return True

    def can_send(self, node: int, now: float) -> bool:
        return node not in self.unreachable

    def ready(self, node: Node, now: float) -> bool:
        return self.can_send(node.id, now)

    def not_before(self, node: int, now: float) -> float | None:
        return None

    def next_chance(self, nodes: Iterable[Node], now: float) -> float | None:
        return None

    def least_loaded(self, nodes: Iterable[Node], now: float) -> Node | None:
        if self.asks_nobody:
            return None
        return next((node for node in nodes if self.can_send(node.id, now)), None)

    has_refused_logins = False

    def failures(self) -> dict[int, ProducerError]:
        return self.reasons

    def forget_except(self, nodes: Iterable[int]) -> None:
        pass

    def send(self, node: int, request: Any) -> None:
        self.sent.append((node, request))
        if not request.answered:
            self.completed.append(Completion(request, node, None, None, 0.0))
            self.wake()

    def take_completed(self) -> list[Completion]:
        completed, self.completed = self.completed, []
        return completed

    def poll(self, now: float) -> float | None:
        return self.due

    def close(self) -> None:
        pass


class World:
    """A producer, its clock, and what it does with both."""

    def __init__(self) -> None:
        self.now = START
        self.sleeps: list[float | None] = []
        self.network: Network
        self.producer: Producer

        def connect(*given: Any) -> Network:
            *_, wake, metrics = given
            self.network = Network(wake, metrics)
            return self.network

        sleeps = self.sleeps

        class Watched(Wakeup):
            async def wait(self, deadline: float | None) -> None:
                sleeps.append(deadline)
                await super().wait(deadline)

        self.environment = Environment(
            clock=lambda: self.now, network=cast(Any, connect), wakeup=Watched
        )

    async def turn(self, later: float = 0.0) -> None:
        """Let ``later`` seconds go by and wake the sender."""
        self.now += later
        self.network.wake()
        await self.settle()

    async def settle(self) -> None:
        """Let the sender do what it does by itself."""
        for _ in range(20):
            await asyncio.sleep(0)

    def kinds(self) -> list[type]:
        """What kinds of requests were sent since the last call, in their order."""
        sent, self.network.sent = self.network.sent, []
        return [type(request) for _, request in sent]

    async def tell_metadata(self, leaders: Sequence[int] = (1, 1), *, code: int = 0) -> None:
        """Answer the metadata request that is on its way."""
        await self.settle()
        asked = [each for each in self.network.sent if isinstance(each[1], MetadataRequest)]
        self.network.sent = [each for each in self.network.sent if each not in asked]
        ((node, request),) = asked
        said = request.read(metadata_response(leaders if not code else (), code))
        self.network.completed.append(Completion(request, node, said, None, 0.1))
        self.network.wake()
        await self.settle()

    def send(self, value: bytes = b"v") -> asyncio.Future[RecordMetadata]:
        return self.producer.send("orders", value, partition=0)


def metadata_response(leaders: Sequence[int], code: int) -> Any:
    parts: Any = importlib.import_module(response_type(Api.METADATA, 9).__module__)
    response = parts.MetadataResponse(
        throttle_time=NOTHING,
        cluster_id="c",
        controller_id=1,
        brokers=tuple(
            parts.MetadataResponseBroker(node_id=each.id, host=each.host, port=9092, rack=None)
            for each in BROKERS.values()
        ),
        topics=(
            parts.MetadataResponseTopic(
                error_code=ErrorCode(code),
                name="orders",
                partitions=tuple(
                    parts.MetadataResponsePartition(
                        error_code=ErrorCode.none,
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=1,
                        replica_nodes=(1, 2),
                        isr_nodes=(1, 2),
                    )
                    for index, leader in enumerate(leaders)
                ),
            ),
        ),
    )
    return metadata_answer(response)


@asynccontextmanager
async def running(
    *,
    known: bool = True,
    leaders: Sequence[int] = (1, 1),
    **options: Any,
) -> AsyncIterator[World]:
    """``known``: the producer knows the topic ``orders`` and its ``leaders`` since START."""
    world = World()
    config: dict[str, Any] = {
        "bootstrap_servers": "boot:9092",
        "enable_idempotence": False,
        "linger_ms": int(LINGER * 1000),
        "batch_size": 1000,
        "delivery_timeout_ms": int(DELIVERY * 1000),
        "metadata_max_idle_ms": 1_000_000_000,
        **options,
    }
    world.producer = in_environment(world.environment)(**config)
    await world.producer.start()
    if known:
        first = world.send()
        await world.tell_metadata(leaders)
        first.cancel()
        await world.turn(LINGER)
        assert world.kinds() == [ProduceRequest]
        world.now = START
    yield world
    await world.producer.close(0)


async def test_metadata_that_is_due_is_asked_for_before_any_batch_leaves() -> None:
    async with running() as world:
        world.send()
        await world.turn(MAX_AGE)
        assert world.kinds() == [MetadataRequest, ProduceRequest]


async def test_batches_do_not_wait_for_metadata_that_nobody_can_be_asked_for() -> None:
    async with running() as world:
        world.network.asks_nobody = True
        world.send()
        await world.turn(MAX_AGE)
        assert world.kinds() == [ProduceRequest]


async def test_it_sleeps_until_the_first_thing_that_is_due() -> None:
    async with running(known=False) as world:
        await world.turn()
        assert world.sleeps[-1] is None, "there is nothing to do"
        world.send()
        await world.turn()
        assert world.sleeps[-1] == START + MAX_BLOCK, "a record waits for metadata"
        await world.tell_metadata()
        assert world.sleeps[-1] == START + LINGER, "a batch lingers"
        world.network.due = START + 0.5
        await world.turn()
        assert world.sleeps[-1] == START + 0.5, "a request times out"
        world.network.due = None
        await world.turn(LINGER)
        assert world.kinds() == [ProduceRequest]
        world.network.due = START + 30.0
        await world.turn()
        assert world.sleeps[-1] == START + 30.0, "a request is on its way"
        world.network.due = None
        await world.turn()
        assert world.sleeps[-1] == START + MAX_AGE, "metadata grows old"


async def test_one_deadline_for_both_waits() -> None:
    """Topic known after 40 s, no memory for 20 s more: that makes ``max_block_ms``."""
    async with running(known=False, buffer_memory=4_000) as world:
        future = world.send()
        accumulator = accumulator_of(world.producer)
        assert accumulator._pool.try_allocate(3_000, 1), "somebody else has all memory"
        world.now += 40.0
        await world.tell_metadata()
        assert accumulator.pending.awaiting("orders") == []
        assert len(accumulator.pending) == 1, "the topic is known, and memory is not there"
        await world.turn(19.9)
        assert not future.done()
        await world.turn(0.2)
        assert isinstance(future.exception(), BufferExhaustedError)
        assert "60.1 s (max_block_ms or delivery_timeout_ms)" in str(future.exception())


@pytest.mark.parametrize("leader", [-1, 3], ids=["no leader", "an unknown broker"])
async def test_a_missing_leader_is_asked_for_in_the_round_that_misses_it(leader: int) -> None:
    """Nothing else may happen for minutes, so nobody else would wake the sender."""
    async with running(leaders=(1, leader)) as world:
        world.now += 1.0
        future = world.producer.send("orders", b"v", partition=1)
        for _ in range(3):
            await world.settle()
            await world.tell_metadata((1, leader))
            due = world.sleeps[-1]
            assert due is not None
            assert world.now < due < world.now + 2.0, "asked for again after the backoff"
            await world.turn(due - world.now)
        await world.tell_metadata((1, 1))
        await world.turn(LINGER)
        assert ProduceRequest in world.kinds()
        assert not future.done()


async def test_a_broker_that_hangs_up_on_records_without_acks_is_asked_about() -> None:
    """With ``acks=0`` an error has no answer: the closed connection is all that tells of it."""
    async with running(acks=0, linger_ms=0) as world:
        world.network.unreachable.add(1)
        world.network.reasons[1] = BrokerConnectionError("broker 1 closed the connection")
        world.now += 1.0
        world.send()
        await world.settle()
        assert world.kinds() == [MetadataRequest]


async def test_records_without_acks_go_to_the_new_leader_after_the_broker_hung_up() -> None:
    async with running(acks=0, linger_ms=0) as world:
        world.network.unreachable.add(1)
        world.network.reasons[1] = BrokerConnectionError("broker 1 closed the connection")
        future = world.send()
        await world.turn(1.0)
        await world.tell_metadata((2, 2))
        ((node, request),) = world.network.sent
        assert (node, type(request)) == (2, ProduceRequest)
        assert (await future).offset == -1


async def test_metadata_is_refreshed_when_a_connection_ends_with_requests_on_it() -> None:
    async with running(linger_ms=0) as world:
        world.now += 1.0
        future = world.send()
        await world.settle()
        ((node, request),) = world.network.sent
        assert world.kinds() == [ProduceRequest]
        gone = BrokerConnectionError("broker 1 closed the connection")
        world.network.completed.append(Completion(request, node, None, gone, 0.1))
        await world.turn()
        assert world.kinds() == [MetadataRequest]
        assert not future.done(), "it is sent again"


@pytest.mark.parametrize("code", [3, 5], ids=["unknown topic", "no leader"])
async def test_a_topic_that_cannot_be_written_to_yet_is_logged_once(
    caplog: pytest.LogCaptureFixture, code: int
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    async with running(known=False) as world:
        world.send()
        for _ in range(3):
            await world.tell_metadata(code=code)
            await world.turn(2.0)
        told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert len(told) == 1
        assert "'orders'" in told[0]
