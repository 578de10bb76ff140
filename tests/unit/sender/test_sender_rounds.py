"""A whole producer over a played network: what one round of the sender does, and in which order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from aioproducer import BufferExhaustedError, Producer, ProducerBrokenError, RecordMetadata
from aioproducer.engine.client.environment import Environment
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.protocol import Api
from aioproducer.engine.sender.produce import PartitionResult, ProduceRequest, ProduceResults
from aioproducer.errors import BrokerConnectionError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.tuning import RECORDS_PER_SLICE
from tests.support.fake_network import FakeNetwork
from tests.support.inside import accumulator_of, engine_of, in_environment
from tests.support.kio_messages import response_module
from tests.support.responses import NOTHING, metadata_answer
from tests.support.waiting import settle
from tests.support.watchdog import WatchedWakeup
from tests.support.world import BROKERS

START, LINGER, MAX_AGE, MAX_BLOCK, DELIVERY = 1000.0, 2.0, 300.0, 60.0, 5000.0


class WatchedProducer:
    """A producer, its clock, and what it does with both."""

    def __init__(self) -> None:
        self.now = START
        self.sleeps: list[float | None] = []
        self.network: FakeNetwork
        self.wakeup: WatchedWakeup
        self.producer: Producer

        def connect(*given: Any) -> FakeNetwork:
            *_, wake, metrics = given
            self.network = FakeNetwork(metrics, wake)
            return self.network

        sleeps = self.sleeps

        class Watched(WatchedWakeup):
            async def wait(self, deadline: float | None, late_at: float | None = None) -> float:
                sleeps.append(deadline)
                return await super().wait(deadline)  # no time is left out

        def watched(clock: Callable[[], float]) -> Wakeup:
            self.wakeup = Watched(clock)
            return self.wakeup

        self.environment = Environment(
            clock=lambda: self.now, network=cast(Any, connect), wakeup=watched
        )

    async def turn(self, later: float = 0.0) -> None:
        """Let ``later`` seconds go by and wake the sender, once it sleeps."""
        await self.settle()
        self.now += later
        self.network.wake()
        await self.settle()

    async def settle(self) -> None:
        """Let the sender do what it does by itself."""
        await settle(20)

    def kinds(self) -> list[type]:
        """What kinds of requests were sent since the last call, in their order."""
        return [type(request) for _, request in self.network.take_sent()]

    async def tell_metadata(self, leaders: Sequence[int] = (1, 1), *, code: int = 0) -> None:
        """Answer the metadata request that is on its way."""
        await self.settle()
        (sent,) = self.network.take_sent(MetadataRequest)
        response = metadata_response(leaders if not code else (), code)
        self.network.complete(sent, sent[1].read(response))
        self.network.wake()
        await self.settle()

    def send(self, value: bytes = b"v") -> asyncio.Future[RecordMetadata]:
        return self.producer.send("orders", value, partition=0)


def metadata_response(leaders: Sequence[int], code: int) -> Any:
    parts: Any = response_module(Api.METADATA, 9)
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
                        error_code=ErrorCode.NONE,
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
) -> AsyncIterator[WatchedProducer]:
    """``known``: the producer knows the topic ``orders`` and its ``leaders`` since START."""
    world = WatchedProducer()
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
    world.wakeup.sender = engine_of(world.producer)._sender
    if known:
        first = world.send()
        await world.tell_metadata(leaders)
        first.cancel()
        await world.turn(LINGER)
        assert world.kinds() == [ProduceRequest]
        world.now = START
    yield world
    await world.producer.close(0)


async def test_close_returns_once_the_last_slice_of_results_is_set() -> None:
    """Nobody else asks for a round then: telemetry has to see that the producer has finished."""
    async with running(known=False, linger_ms=0, batch_size=1_000_000) as world:
        futures = [world.send() for _ in range(3 * RECORDS_PER_SLICE)]
        await world.tell_metadata()
        (sent,) = world.network.take_sent(ProduceRequest)
        closing = asyncio.ensure_future(world.producer.close())
        await world.settle()
        world.network.complete(sent, [(0, -1, 0)])
        world.network.responded(world.now)
        await world.settle()
        assert all(future.done() for future in futures)
        assert closing.done(), "nothing is left to wait for"


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
        await world.settle()
        world.now += 40.0
        await world.tell_metadata()
        assert accumulator.pending.awaiting_metadata.of("orders") == []
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
        world.network.fail(1, BrokerConnectionError("broker 1 closed the connection"))
        world.now += 1.0
        world.send()
        await world.settle()
        assert world.kinds() == [MetadataRequest]


async def test_records_without_acks_go_to_the_new_leader_after_the_broker_hung_up() -> None:
    async with running(acks=0, linger_ms=0) as world:
        world.network.fail(1, BrokerConnectionError("broker 1 closed the connection"))
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
        (sent,) = world.network.sent
        assert world.kinds() == [ProduceRequest]
        gone = BrokerConnectionError("broker 1 closed the connection")
        world.network.complete(sent, error=gone)
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


# --- an idle broker, and a busy event loop -----------------------------------------------------


async def iterations_until_sent(world: WatchedProducer, busy: bool) -> int:
    """Loop iterations until a request leaves; ``busy``: each of them sends another record."""
    for count in range(1, 50):
        if busy:
            world.producer.send("orders", b"more", partition=0)
        await asyncio.sleep(0)
        if any(isinstance(request, ProduceRequest) for _, request in world.network.sent):
            return count
    raise AssertionError("nothing was sent")


@asynccontextmanager
async def adaptive() -> AsyncIterator[WatchedProducer]:
    """A producer with the adaptive linger, and no request in flight."""
    async with running(linger_ms=None) as world:
        world.network.waiting.clear()
        world.network.sent.clear()
        yield world


async def test_a_lone_record_leaves_in_the_next_iteration() -> None:
    async with adaptive() as world:
        world.send()
        assert await iterations_until_sent(world, busy=False) <= 2


@pytest.mark.parametrize("node", [1, 2])
async def test_a_lone_record_does_not_wait_for_a_metadata_request(node: int) -> None:
    """One of records or of telemetry is no reason either: only a produce request brings callers."""
    async with adaptive() as world:
        world.network.unreachable.add(3 - node)
        await world.turn(MAX_AGE)
        ((asked, request),) = world.network.take_sent()
        assert (asked, type(request)) == (node, MetadataRequest)
        world.network.unreachable.clear()
        world.send()
        assert await iterations_until_sent(world, busy=False) == 1


async def test_a_record_lingers_while_its_broker_has_a_produce_request() -> None:
    async with adaptive() as world:
        world.send()
        await world.settle()
        assert world.kinds() == [ProduceRequest]
        world.send()
        await world.settle()
        assert world.kinds() == []
        await world.turn(0.006)
        assert world.kinds() == [ProduceRequest]


async def test_records_leave_together_while_each_iteration_brings_more() -> None:
    async with adaptive() as world:
        world.send()
        world.send()
        gathering = asyncio.ensure_future(iterations_until_sent(world, busy=True))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not gathering.done(), "the time stands still, and records keep coming"
        world.now += 0.0011
        for _ in range(4):
            await asyncio.sleep(0)
        assert gathering.done(), "no record is kept for longer than a millisecond"
        gathering.cancel()


async def test_records_leave_as_soon_as_an_iteration_brings_no_more() -> None:
    async with adaptive() as world:
        for _ in range(3):
            world.send()
        assert await iterations_until_sent(world, busy=False) <= 4


@pytest.mark.parametrize("linger_ms", [0, 5])
async def test_a_number_for_linger_gathers_nothing_beyond_it(linger_ms: int) -> None:
    async with running(linger_ms=linger_ms) as world:
        world.network.waiting.clear()
        world.network.sent.clear()
        world.send()
        world.send()
        world.now += 0.005
        assert await iterations_until_sent(world, busy=True) <= 3


async def test_a_response_resolves_its_records_before_the_next_round() -> None:
    async with running(known=False, linger_ms=None) as world:
        future = world.send()
        await world.tell_metadata()
        (sent,) = world.network.take_sent(ProduceRequest)
        batch = sent[1].batches[0][0]
        result = ProduceResults({batch: PartitionResult(0, 7, -1)}, {}, {})
        world.network.complete(sent, result)
        rounds = len(world.sleeps)
        world.network.responded(world.now)
        assert future.result().offset == 7
        await world.settle()
        assert len(world.sleeps) == rounds, "nothing is left to do"


async def test_a_round_follows_a_response_that_leaves_work() -> None:
    async with adaptive() as world:
        world.network.limit = 1
        first, second = world.send(), None
        await world.settle()
        (sent,) = world.network.take_sent(ProduceRequest)
        second = world.send()
        await world.settle()
        assert world.kinds() == [], "one request is in flight, no more may be"
        batch = sent[1].batches[0][0]
        world.network.complete(sent, ProduceResults({batch: PartitionResult(0, 7, -1)}, {}, {}))
        world.network.responded(world.now)
        assert first.done()
        assert not second.done()
        await world.settle()
        assert world.kinds() == [ProduceRequest]


async def test_a_round_follows_a_response_that_asks_for_metadata() -> None:
    async with adaptive() as world:
        world.send()
        await world.settle()
        (sent,) = world.network.take_sent(ProduceRequest)
        batch = sent[1].batches[0][0]
        world.now += 1.0
        refused = PartitionResult(6, -1, -1)  # NOT_LEADER_OR_FOLLOWER
        world.network.complete(sent, ProduceResults({batch: refused}, {}, {}))
        world.network.responded(world.now)
        await world.settle()
        assert MetadataRequest in world.kinds()


async def test_a_response_that_can_not_be_settled_breaks_the_producer() -> None:
    """An error of the sender's own ends the sender, in whichever callback it happens."""
    async with adaptive() as world:
        future = world.send()
        await world.settle()
        (sent,) = world.network.take_sent(ProduceRequest)
        world.network.complete(sent, result="no result")
        world.network.responded(world.now)
        await world.settle()
        assert isinstance(future.exception(), ProducerBrokenError)
        with pytest.raises(ProducerBrokenError):
            world.send()
