"""The sender's loop over a real accumulator; the network is played, time is a number."""

from __future__ import annotations

import asyncio
import datetime
import importlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.record_accumulator import BatchingRules, RecordAccumulator
from aioproducer.accumulator.topic_queues import StickyChoice
from aioproducer.accumulator.waiting_line import WaitingLine, WaitingRecord
from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata import Metadata
from aioproducer.errors import (
    BootstrapError,
    BrokerConnectionError,
    BufferExhaustedError,
    DeliveryTimeoutError,
    InvalidRecordError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    ProducerError,
    ProtocolError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    code_name,
)
from aioproducer.metrics import ProducerMetrics
from aioproducer.model import Node, RecordMetadata
from aioproducer.network.apis import Api, response_type
from aioproducer.network.client import Completion, NetworkClient
from aioproducer.records.compression import Compression, compression
from aioproducer.records.compression_ratio import CompressionRatios
from aioproducer.sender.completer import BatchCompleter
from aioproducer.sender.produce import ProduceRequest
from aioproducer.sender.refresher import MetadataRefresher
from aioproducer.sender.requests import InitProducerIdRequest, MetadataRequest
from aioproducer.sender.sender import Sender, SenderSettings
from aioproducer.sender.wakeup import Wakeup
from aioproducer.tasks import TaskOwner
from aioproducer.transactions.identity import ProducerIdentity

BOOT = Node(-1, "boot", 9092)
BROKERS = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}
NOTHING = i32Timedelta.parse(datetime.timedelta(0))
BACKOFF, DELIVERY, MAX_BLOCK = 0.1, 120.0, 60.0


class NoJitter(Random):
    def random(self) -> float:
        return 0.5


class Network:
    """Stands in for the NetworkClient: keeps what is sent, and the test answers."""

    def __init__(self, metrics: ProducerMetrics, wake: Callable[[], None]) -> None:
        self.metrics = metrics
        self.wake = wake
        self.sent: list[tuple[int, Any]] = []
        self.unreachable: set[int] = set()
        self.waiting: dict[int, int] = {}
        self.completed: list[Completion] = []
        self.throttled: list[tuple[int, float]] = []
        self.reasons: dict[int, ProducerError] = {}
        self.limit = 5

    def in_flight(self, node: int) -> int:
        return self.waiting.get(node, 0)

    def connection_count(self) -> int:
        return 1

    def can_send(self, node: int, now: float) -> bool:
        return node not in self.unreachable and self.in_flight(node) < self.limit

    def ready(self, node: Node, now: float) -> bool:
        return self.can_send(node.id, now)

    def not_before(self, node: int, now: float) -> float | None:
        return None

    def next_chance(self, nodes: Iterable[Node], now: float) -> float | None:
        return None

    def least_loaded(self, nodes: Iterable[Node], now: float) -> Node | None:
        return next((node for node in nodes if self.can_send(node.id, now)), None)

    def failures(self) -> dict[int, ProducerError]:
        return self.reasons

    def forget_except(self, nodes: Iterable[int]) -> None:
        pass

    def send(self, node: int, request: Any) -> None:
        self.sent.append((node, request))
        if request.answered:
            self.waiting[node] = self.in_flight(node) + 1
        else:
            self.completed.append(Completion(request, node, None, None, 0.0))
            self.wake()

    def throttle(self, node: int, seconds: float, now: float) -> None:
        self.throttled.append((node, seconds))

    def take_completed(self) -> list[Completion]:
        completed, self.completed = self.completed, []
        return completed

    def poll(self, now: float) -> float | None:
        return None


class World:
    """A sender with all its real parts but the network."""

    def __init__(
        self,
        *,
        idempotent: bool = False,
        acks: int = -1,
        retries: int = 100,
        memory: int = 100_000,
        line: int = 10_000,
        codec: Compression | None = None,
    ) -> None:
        self.now = 1000.0
        self.deaths: list[BaseException] = []
        self.serve_waiters = 0
        self.wakeup = Wakeup(lambda: self.now)
        metrics = ProducerMetrics(now=self.now)
        self.metrics = metrics
        self.network = Network(metrics, self.wakeup.wake)
        client = cast(NetworkClient, self.network)
        backoff = ExponentialBackoff(BACKOFF, 1.0, NoJitter())
        self.metadata = Metadata(
            [BOOT], max_age=300.0, max_idle=300.0, backoff=backoff, rebootstrap_after=None
        )
        self.owner = TaskOwner(self.deaths.append)
        rules = BatchingRules(
            batch_size=1000,
            max_request_size=1_000_000,
            linger=0.0,
            adaptive_linger=0.005,
            delivery_timeout=DELIVERY,
            in_order=idempotent,
        )
        pool = BufferPool(memory, rules.batch_size)
        self.accumulator = RecordAccumulator(
            rules,
            pool,
            WaitingLine(line, pool, memory),
            StickyChoice(NoJitter(), adaptive=False, unavailable=lambda _: False),
            self.wakeup.wake,
            lambda _: 1.0,
        )
        identity = ProducerIdentity(idempotent=idempotent)
        ratios = CompressionRatios()
        self.sender = Sender(
            SenderSettings(acks, 30_000, 1_000_000, DELIVERY, BACKOFF),
            accumulator=self.accumulator,
            client=client,
            metadata=self.metadata,
            refresher=MetadataRefresher(self.metadata, client, self.accumulator, ratios),
            completer=BatchCompleter(
                self.accumulator, self.metadata, identity, metrics, ratios, backoff, retries
            ),
            identity=identity,
            compression=codec,
            ratios=ratios,
            metrics=metrics,
            owner=self.owner,
            wakeup=self.wakeup,
            clock=lambda: self.now,
            serve_waiters=self._serve_waiters,
        )

    def _serve_waiters(self) -> None:
        self.serve_waiters += 1

    # what the producer does

    def send(
        self, value: bytes = b"v", *, partition: int = 0, topic: str = "orders"
    ) -> asyncio.Future[RecordMetadata]:
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        batch = self.accumulator.append(topic, partition, 1, None, value, (), future, self.now)
        if batch is None:
            self.accumulator.wait_in_line(
                WaitingRecord(
                    topic,
                    partition,
                    1,
                    None,
                    value,
                    (),
                    future,
                    size=len(value) + 100,
                    sent=self.now,
                    deadline=self.now + MAX_BLOCK,
                )
            )
            self.metadata.use(topic, self.now)
            self.metadata.request_update()
        return future

    # what happens

    async def turn(self, later: float = 0.0) -> None:
        """Let ``later`` seconds go by and the sender run."""
        self.now += later
        self.wakeup.wake()
        for _ in range(10):
            await asyncio.sleep(0)
        assert self.deaths == []

    def requests(self, kind: type[Any]) -> list[tuple[int, Any]]:
        """Those that were sent since the last call."""
        found = [each for each in self.network.sent if isinstance(each[1], kind)]
        self.network.sent = [each for each in self.network.sent if each not in found]
        return found

    def one(self, kind: type[Any]) -> tuple[int, Any]:
        (found,) = self.requests(kind)
        return found

    async def complete(
        self, sent: tuple[int, Any], response: Any = None, error: ProducerError | None = None
    ) -> None:
        node, request = sent
        if request.answered:
            self.network.waiting[node] -= 1
        self.network.completed.append(Completion(request, node, response, error, 0.1))
        await self.turn()

    async def tell_metadata(
        self,
        leaders: Sequence[int] = (1, 1),
        *,
        topic: str = "orders",
        code: int = 0,
        brokers: Mapping[int, Node] = BROKERS,
        epoch: int = 5,
    ) -> None:
        await self.turn()
        sent = self.one(MetadataRequest)
        await self.complete(sent, metadata_response(topic, leaders, code, brokers, epoch))

    async def answer(self, sent: tuple[int, Any], **said: Any) -> None:
        """The same answer for every batch of a produce request."""
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        await self.complete(sent, produce_response(places, **said))


def metadata_response(
    topic: str, leaders: Sequence[int], code: int, brokers: Mapping[int, Node], epoch: int
) -> Any:
    parts: Any = importlib.import_module(response_type(Api.METADATA, 13).__module__)
    partitions = tuple(
        parts.MetadataResponsePartition(
            error_code=ErrorCode.none, partition_index=index, leader_id=leader, leader_epoch=epoch
        )
        for index, leader in enumerate(leaders if not code else ())
    )
    return parts.MetadataResponse(
        throttle_time=NOTHING,
        brokers=tuple(
            parts.MetadataResponseBroker(node_id=each.id, host=each.host, port=each.port)
            for each in brokers.values()
        ),
        topics=(
            parts.MetadataResponseTopic(
                error_code=ErrorCode(code), name=topic, topic_id=UUID(int=1), partitions=partitions
            ),
        ),
        error_code=ErrorCode.none,
    )


def produce_response(
    places: Iterable[tuple[str, int]],
    *,
    code: int = 0,
    offset: int = 42,
    throttle: float = 0.0,
    leader: tuple[int, int] = (-1, -1),
    record_errors: Mapping[int, str] | None = None,
) -> Any:
    parts: Any = importlib.import_module(response_type(Api.PRODUCE, 12).__module__)
    wrong = tuple(
        parts.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in (record_errors or {}).items()
    )
    return parts.ProduceResponse(
        responses=tuple(
            parts.TopicProduceResponse(
                name=topic,
                partition_responses=(
                    parts.PartitionProduceResponse(
                        index=partition,
                        error_code=ErrorCode(code),
                        base_offset=offset,
                        record_errors=wrong,
                        current_leader=parts.LeaderIdAndEpoch(
                            leader_id=leader[0], leader_epoch=leader[1]
                        ),
                    ),
                ),
            )
            for topic, partition in places
        ),
        throttle_time=i32Timedelta.parse(datetime.timedelta(seconds=throttle)),
    )


def identity_response(producer_id: int, code: int = 0) -> Any:
    parts: Any = importlib.import_module(response_type(Api.INIT_PRODUCER_ID, 4).__module__)
    return parts.InitProducerIdResponse(
        throttle_time=NOTHING,
        error_code=ErrorCode(code),
        producer_id=producer_id,
        producer_epoch=0,
    )


@asynccontextmanager
async def running(*, known: bool = True, **options: Any) -> AsyncIterator[World]:
    """A world whose sender runs; ``known``: it knows the topic ``orders``."""
    world = World(**options)
    task = world.owner.start(world.sender.run(), name="sender")
    if known:
        world.metadata.use("orders", world.now)
        await world.tell_metadata()
    yield world
    assert world.deaths == []
    task.cancel()
    await world.owner.close()


def states(sent: tuple[int, Any]) -> list[tuple[int, int]]:
    """Producer id and base sequence of each batch of a produce request."""
    return [(each.state.producer_id, each.state.base_sequence) for each, _ in sent[1].batches]


# --- there and back -----------------------------------------------------------------------------


async def test_the_whole_way_of_a_record() -> None:
    async with running(known=False, idempotent=True) as world:
        first, second = world.send(b"a"), world.send(b"bc")
        await world.tell_metadata()
        node, request = world.one(InitProducerIdRequest)
        assert node in BROKERS
        assert world.requests(ProduceRequest) == [], "nothing leaves without identity"
        await world.complete((node, request), identity_response(77))
        sent = world.one(ProduceRequest)
        assert sent[0] == 1
        assert states(sent) == [(77, 0)]
        assert sent[1].topic_ids == {"orders": UUID(int=1)}
        await world.answer(sent, offset=10)
        assert await first == RecordMetadata("orders", 0, 10, 1, -1, 1)
        assert await second == RecordMetadata("orders", 0, 11, 1, -1, 2)
        world.send(b"d")
        await world.turn()
        assert states(world.one(ProduceRequest)) == [(77, 2)]


async def test_without_acks_a_record_is_delivered_when_it_is_written() -> None:
    async with running(acks=0) as world:
        future = world.send()
        await world.turn()
        assert (await asyncio.wait_for(future, 60)).offset == -1


async def test_one_request_for_each_broker() -> None:
    async with running(known=False) as world:
        futures = [world.send(partition=index) for index in range(3)]
        await world.tell_metadata([1, 2, 1])
        sent = world.requests(ProduceRequest)
        assert sorted((node, len(each.batches)) for node, each in sent) == [(1, 2), (2, 1)]
        for each in sent:
            await world.answer(each)
        assert [(await future).partition for future in futures] == [0, 1, 2]


async def test_memory_goes_back_and_the_admission_hears_of_it() -> None:
    async with running(memory=1000) as world:
        world.send()
        assert world.accumulator.pool.available == 0
        await world.turn()
        await world.answer(world.one(ProduceRequest))
        assert world.accumulator.pool.available == 1000
        assert world.serve_waiters > 0


async def test_throttling_is_passed_on() -> None:
    async with running() as world:
        world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), throttle=1.5)
        assert (1, 1.5) in world.network.throttled


async def test_run_ends_when_all_have_their_fate_and_no_more_will_come() -> None:
    world = World()
    task = world.owner.start(world.sender.run(), name="sender")
    world.metadata.use("orders", world.now)
    await world.tell_metadata()
    future = world.send()
    world.accumulator.close()
    await world.turn()
    assert not task.done()
    await world.answer(world.one(ProduceRequest))
    await asyncio.wait_for(task, 60)
    assert future.done()


# --- retries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [BrokerConnectionError("broken"), None])
async def test_a_batch_is_sent_again_as_it_was_after_the_backoff(
    error: ProducerError | None,
) -> None:
    async with running(known=False, idempotent=True) as world:
        future = world.send()
        await world.tell_metadata()
        await world.complete(world.one(InitProducerIdRequest), identity_response(77))
        sent = world.one(ProduceRequest)
        batch = sent[1].batches[0].batch
        if error is None:
            await world.answer(sent, code=19)
        else:
            await world.complete(sent, error=error)
        assert not future.done()
        await world.turn(BACKOFF * 0.99)
        assert world.requests(ProduceRequest) == []
        await world.turn(BACKOFF * 0.02)
        again = world.one(ProduceRequest)
        assert again[1].batches[0].batch is batch
        assert states(again) == [(77, 0)]
        await world.answer(again)
        assert future.done()


async def test_a_response_that_lacks_a_partition_is_an_error_of_that_partition() -> None:
    async with running() as world:
        there, missing = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        await world.complete(sent, produce_response([("orders", 0)]))
        assert there.done()
        assert not missing.done()
        batch = next(iter(world.accumulator.incomplete))
        assert isinstance(batch.last_error, ProtocolError)
        assert "orders-1 on broker 1 (host1:9092)" in str(batch.last_error)
        await world.turn(BACKOFF * 2)
        again = world.one(ProduceRequest)
        assert [each.topic_partition.partition for each, _ in again[1].batches] == [1]


async def test_the_new_leader_of_a_response_is_used_at_once() -> None:
    async with running() as world:
        world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=6, leader=(2, 6))
        assert world.one(ProduceRequest)[0] == 2, "without backoff, without a refresh"


async def test_an_old_hint_is_not_followed() -> None:
    async with running() as world:
        world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=6, leader=(2, 5))
        assert world.requests(ProduceRequest) == []
        await world.turn(BACKOFF * 1.1)
        assert world.one(ProduceRequest)[0] == 1


@pytest.mark.parametrize("retries", [0, 100])
@pytest.mark.parametrize(
    ("code", "refreshed"), [(6, True), (3, True), (56, True), (19, False), (2, False)]
)
async def test_stale_leaders_are_refreshed_whether_the_batch_is_retried_or_not(
    retries: int, code: int, refreshed: bool
) -> None:
    """Else, without retries, every later batch would go to the wrong broker for five minutes."""
    async with running(retries=retries) as world:
        future = world.send()
        await world.turn(1.0)
        await world.answer(world.one(ProduceRequest), code=code)
        assert bool(world.requests(MetadataRequest)) is refreshed
        assert future.done() is (retries == 0)
        if future.done():
            assert isinstance(future.exception(), KafkaError)


async def test_a_partition_without_leader_waits_and_asks() -> None:
    async with running() as world:
        world.metadata.use("fresh", world.now)
        await world.tell_metadata([-1], topic="fresh")
        future = world.send(topic="fresh")
        await world.turn(1.0)
        assert world.requests(ProduceRequest) == []
        await world.tell_metadata([2], topic="fresh")
        assert world.one(ProduceRequest)[0] == 2
        assert not future.done()


# --- failures -----------------------------------------------------------------------------------


async def test_records_that_the_broker_refused_get_their_own_errors() -> None:
    async with running() as world:
        futures = [world.send(value) for value in (b"a", b"b", b"c")]
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=87, record_errors={1: "no key"})
        errors = [future.exception() for future in futures]
        assert all(type(error) is InvalidRecordError for error in errors)
        assert ["no key" in str(error) for error in errors] == [False, True, False]
        assert ["not written" in str(error) for error in errors] == [True, False, True]
        assert all("orders-0 on broker 1" in str(error) for error in errors)


async def test_a_batch_without_answer_in_time_fails_and_a_late_answer_changes_nothing() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        await world.turn(DELIVERY - 0.01)
        assert not future.done()
        await world.turn(0.02)
        error = future.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert "orders-0" in str(error)
        assert "delivery_timeout_ms" in str(error)
        await world.answer(sent)
        assert world.accumulator.pool.available == world.accumulator.pool.total


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_batch_that_is_too_large_is_sent_again_in_parts(idempotent: bool) -> None:
    async with identified() if idempotent else running() as world:
        futures = [world.send(bytes(100)) for _ in range(6)]
        await world.turn()
        refused = world.one(ProduceRequest)
        (batch, _) = refused[1].batches[0]
        first = batch.state.base_sequence
        await world.answer(refused, code=10)
        sequences = []
        while not all(future.done() for future in futures):
            for sent in world.requests(ProduceRequest):
                ((part, _),) = sent[1].batches
                sequences += [part.state.base_sequence + number for number in range(part.count)]
                await world.answer(sent)
        assert all(future.exception() is None for future in futures)
        if idempotent:
            assert sequences == list(range(first, first + 6))
        assert world.accumulator.pool.available == world.accumulator.pool.total


async def test_a_single_record_that_is_too_large_fails() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=10)
        error = future.exception()
        assert isinstance(error, RecordTooLargeError)
        assert not error.may_have_been_written


async def test_errors_say_whether_the_record_may_be_in_the_log() -> None:
    async with running() as world:
        in_flight = world.send()
        await world.turn()
        world.one(ProduceRequest)
        queued = world.send()
        await world.turn(DELIVERY + 1)
        for future, written in ((in_flight, True), (queued, False)):
            error = future.exception()
            assert isinstance(error, DeliveryTimeoutError)
            assert error.may_have_been_written is written
            assert ("may have been written" in str(error)) is written


async def test_giving_up_says_so_too() -> None:
    async with running() as world:
        in_flight = world.send()
        await world.turn()
        world.one(ProduceRequest)
        queued, waiting = world.send(), world.send(topic="unknown")
        world.sender.give_up(ProducerClosedError("closed"))
        errors = [future.exception() for future in (in_flight, queued, waiting)]
        assert [getattr(error, "may_have_been_written", None) for error in errors] == [
            True,
            False,
            False,
        ]


async def test_a_timeout_names_the_last_error() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=19)
        await world.turn(DELIVERY)
        assert "NOT_ENOUGH_REPLICAS" in str(future.exception())


async def test_giving_up_fails_batches_and_waiting_records() -> None:
    async with running() as world:
        future, other = world.send(), world.send(topic="unknown")
        error = ProducerClosedError("closed")
        assert world.sender.give_up(error) == 2
        assert future.exception() is other.exception() is error
        assert world.sender.give_up(error) == 0


@pytest.mark.parametrize("code", [17, 29])
async def test_a_fatal_error_of_a_topic_reaches_whoever_waits_at_once(code: int) -> None:
    async with running(known=False) as world:
        futures = [world.send() for _ in range(3)]
        await world.tell_metadata(code=code)
        for future in futures:
            error = future.exception()
            assert isinstance(error, KafkaError)
            assert error.code == code
            assert "'orders'" in str(error)


async def test_an_unknown_topic_is_waited_for_until_max_block() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(code=3)
        assert not future.done()
        await world.turn(BACKOFF * 2)
        await world.tell_metadata(code=3)
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, MetadataTimeoutError)
        for part in ("'orders'", "max_block_ms", "UNKNOWN_TOPIC_OR_PARTITION", "does not exist"):
            assert part in str(error)


@pytest.mark.parametrize("code", [9999, -1, 38])
async def test_an_odd_error_of_a_topic_is_waited_out_and_then_named(code: int) -> None:
    """As with Kafka: what forbids to create a topic may pass, too few brokers for one."""
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        answer = metadata_response("orders", (1,), 0, BROKERS, 5)
        object.__setattr__(answer.topics[0], "error_code", code)
        await world.complete(world.one(MetadataRequest), answer)
        await world.turn(BACKOFF * 2)
        assert not future.done()
        assert len(world.requests(MetadataRequest)) == 1, "and asked again"
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, MetadataTimeoutError)
        assert code_name(code) in str(error)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("code", [9999, 42])
async def test_an_answer_that_is_an_error_as_a_whole_is_waited_out_and_then_named(
    known: bool, code: int
) -> None:
    async with running(known=known) as world:
        future = world.send(topic="new")
        await world.turn()
        answer = metadata_response("new", (), 0, BROKERS, 5)
        object.__setattr__(answer, "error_code", code)
        await world.turn(BACKOFF * 2)
        await world.complete(world.one(MetadataRequest), answer)
        assert not future.done()
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, MetadataTimeoutError if known else BootstrapError)
        assert code_name(code) in str(error)


async def test_an_odd_error_of_a_partition_does_not_hide_its_leader() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        answer = metadata_response("orders", (1,), 0, BROKERS, 5)
        object.__setattr__(answer.topics[0].partitions[0], "error_code", 9999)
        await world.complete(world.one(MetadataRequest), answer)
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


async def test_an_auto_created_topic_is_used_as_soon_as_it_has_leaders() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(code=5)
        await world.turn(BACKOFF * 2)
        await world.tell_metadata()
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


async def test_no_bootstrap_server_answers() -> None:
    async with running(known=False) as world:
        world.network.unreachable.add(-1)
        world.network.reasons[-1] = BrokerConnectionError(f"{BOOT}: refused")
        future = world.send()
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, BootstrapError)
        for part in ("boot:9092: refused", "bootstrap_servers", "'orders'"):
            assert part in str(error)


async def test_bootstrap_servers_that_answer_with_a_refusal_say_so() -> None:
    """It is not the connection that is at fault, so its state explains nothing."""
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        too_old = UnsupportedVersionError("the broker speaks METADATA versions 0 to 3")
        await world.complete(world.one(MetadataRequest), error=too_old)
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, BootstrapError)
        assert str(too_old) in str(error)


async def test_a_broker_that_knows_topics_but_no_brokers_yet() -> None:
    """It has just started. What it says can't be used, and must not end the producer."""
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(brokers={})
        assert not future.done()
        await world.turn(BACKOFF * 2)
        await world.tell_metadata()
        await world.answer(world.one(ProduceRequest))
        assert future.done()


async def test_no_memory_within_max_block() -> None:
    async with running(memory=1000) as world:
        world.network.unreachable.add(1)
        world.send(b"x" * 900)
        late = world.send(b"x" * 900)
        await world.turn(MAX_BLOCK)
        error = late.exception()
        assert isinstance(error, BufferExhaustedError)
        assert "drain()" in str(error)


async def test_a_cancelled_future_does_not_disturb_its_batch() -> None:
    async with running() as world:
        first, cancelled, last = (world.send() for _ in range(3))
        cancelled.cancel()
        await world.turn()
        await world.answer(world.one(ProduceRequest), offset=10)
        assert ((await first).offset, (await last).offset) == (10, 12), "it is sent all the same"


# --- identity -----------------------------------------------------------------------------------


@asynccontextmanager
async def identified(**options: Any) -> AsyncIterator[World]:
    async with running(known=False, idempotent=True, **options) as world:
        world.send()
        await world.tell_metadata()
        await world.complete(world.one(InitProducerIdRequest), identity_response(77))
        await world.answer(world.one(ProduceRequest))
        yield world


async def test_no_identity_is_asked_for_until_there_is_something_to_send() -> None:
    async with running(idempotent=True) as world:
        await world.turn(10)
        assert world.requests(InitProducerIdRequest) == []
        assert world.requests(ProduceRequest) == []


async def test_a_failed_request_for_an_identity_is_repeated_after_the_backoff() -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        sent = world.one(InitProducerIdRequest)
        await world.complete(sent, error=BrokerConnectionError("broken"))
        await world.turn(BACKOFF / 2)
        assert world.requests(InitProducerIdRequest) == []
        await world.turn(BACKOFF)
        sent = world.one(InitProducerIdRequest)
        await world.complete(sent, identity_response(-1, code=14))
        await world.turn(BACKOFF * 1.5)
        await world.complete(world.one(InitProducerIdRequest), identity_response(78))
        assert states(world.one(ProduceRequest)) == [(78, 0)]
        assert not future.done()


async def test_a_principal_without_the_right_to_an_identity_is_told_so() -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        refused = identity_response(-1, code=31)
        await world.complete(world.one(InitProducerIdRequest), refused)
        error = future.exception()
        assert isinstance(error, KafkaError)
        assert "IDEMPOTENT_WRITE" in str(error)
        assert "enable_idempotence=False" in str(error)
        assert world.accumulator.pool.available == world.accumulator.pool.total


def epochs(sent: tuple[int, Any]) -> list[tuple[int, int, int]]:
    """Partition, epoch and base sequence of each batch of a produce request."""
    return [
        (each.topic_partition.partition, each.state.producer_epoch, each.state.base_sequence)
        for each, _ in sent[1].batches
    ]


async def test_behind_a_refused_batch_the_partition_goes_on_in_its_next_epoch() -> None:
    async with identified() as world:
        lost, other = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        behind = world.send(partition=0)
        await world.turn()
        second = world.one(ProduceRequest)
        assert states(second) == [(77, 2)]
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        await world.complete(sent, produce_response(places[:1], code=10))
        assert isinstance(lost.exception(), KafkaError)
        assert not other.done()
        late = world.send(partition=0)
        await world.turn()
        assert [each for sent in world.requests(ProduceRequest) for each in epochs(sent)] == []
        await world.answer(second, code=45)
        await world.turn(BACKOFF * 2)
        again = [each for sent in world.requests(ProduceRequest) for each in epochs(sent)]
        assert (0, 1, 0) in again
        assert (0, 1, 1) not in again, "nothing follows the first of an epoch"
        assert world.requests(InitProducerIdRequest) == []
        assert not behind.done()
        assert not late.done()


@pytest.mark.parametrize("written", [True, False])
async def test_a_batch_given_up_on_its_way_leaves_a_doubt(written: bool) -> None:
    """What is behind it is sent with its own number, and that tells."""
    async with identified() as world:
        lost = world.send()
        await world.turn()
        one = world.one(ProduceRequest)
        world.now += 1
        behind = world.send()
        await world.turn()
        two = world.one(ProduceRequest)
        await world.turn(DELIVERY - 0.5)
        assert isinstance(lost.exception(), DeliveryTimeoutError)
        assert not behind.done()
        late = world.send()
        await world.turn()
        assert world.requests(ProduceRequest) == [], "no number is given in doubt"
        await world.answer(one, code=6)
        if written:
            await world.answer(two)
            assert epochs(world.one(ProduceRequest)) == [(0, 0, 3)]
            assert behind.done()
            return
        await world.answer(two, code=45)
        await world.turn(BACKOFF * 2)
        again = world.one(ProduceRequest)
        assert epochs(again) == [(0, 1, 0)]
        await world.answer(again)
        assert epochs(world.one(ProduceRequest)) == [(0, 1, 1)]
        assert behind.done()
        assert not late.done()


@pytest.mark.parametrize("code", [31, 53, 90])
@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_fatal_error_fails_everything_and_the_next_record_tries_again(
    code: int, idempotent: bool
) -> None:
    async with identified() if idempotent else running() as world:
        refused, other = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        queued, waiting = world.send(partition=0), world.send(topic="unknown")
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        await world.complete(sent, produce_response(places[:1], code=code))
        error = refused.exception()
        assert isinstance(error, KafkaError)
        assert (error.code, error.may_have_been_written) == (code, False)
        if not idempotent:
            assert not queued.done()
            assert not waiting.done()
            return
        for future, written in ((other, True), (queued, False), (waiting, False)):
            error = future.exception()
            assert isinstance(error, KafkaError)
            assert (error.code, error.may_have_been_written) == (code, written)
        after = world.send(partition=0)
        await world.turn()
        again = world.requests(ProduceRequest)[-1]
        assert epochs(again) == [(0, 1, 0)]
        await world.answer(again)
        assert after.exception() is None


@pytest.mark.parametrize("code", [7, 14, 15, 16, 51])
async def test_an_identity_that_is_not_to_be_had_yet_is_asked_for_again(code: int) -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        for _ in range(3):
            refusal = identity_response(-1, code=code)
            await world.complete(world.one(InitProducerIdRequest), refusal)
            await world.turn(BACKOFF * 2)
        await world.complete(world.one(InitProducerIdRequest), identity_response(78))
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


@pytest.mark.parametrize("code", [-1, 9999, 35, 42, 47, 49, 50, 53, 90, 120])
async def test_an_identity_that_is_refused_for_good_fails_what_waits_for_it(code: int) -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        refusal = identity_response(-1)
        object.__setattr__(refusal, "error_code", code)
        await world.complete(world.one(InitProducerIdRequest), refusal)
        error = future.exception()
        assert isinstance(error, KafkaError)
        assert error.code == code
        assert error.name in str(error)


async def test_out_of_order_behind_a_batch_on_its_way_keeps_the_identity() -> None:
    async with identified() as world:
        first = world.send()
        await world.turn()
        one = world.one(ProduceRequest)
        second = world.send()
        await world.turn()
        two = world.one(ProduceRequest)
        await world.answer(one, code=20)
        await world.answer(two, code=45)
        await world.turn(BACKOFF * 3)
        assert world.requests(InitProducerIdRequest) == []
        again = world.requests(ProduceRequest)
        assert states(again[0]) == [(77, 1)]
        await world.answer(again[0], offset=50)
        await world.turn(BACKOFF * 3)
        (last,) = again[1:] or world.requests(ProduceRequest)
        assert states(last) == [(77, 2)]
        await world.answer(last, offset=51)
        assert ((await first).offset, (await second).offset) == (50, 51)


# --- compression --------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [False, True])
async def test_much_to_compress_is_compressed_elsewhere(
    gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioproducer.sender.sender.COMPRESS_ELSEWHERE_BYTES", 100)
    codec = compression("gzip", level=None)
    async with running(codec=codec) as world:
        future = world.send(b"x" * 500)
        world.wakeup.wake()
        if gone:
            for _ in range(20):
                if not world.sender._preparing:
                    await asyncio.sleep(0)
            world.network.unreachable.add(1)
        for _ in range(500):
            if not world.sender._preparing and (world.network.sent or gone):
                break
            await asyncio.sleep(0.001)
        if gone:
            await world.turn()
            assert world.requests(ProduceRequest) == []
            world.network.unreachable.clear()
        await world.turn()
        await world.answer(world.one(ProduceRequest))
        assert (await asyncio.wait_for(future, 60)).offset == 42


async def test_a_refused_topic_is_named_with_its_broker() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest), code=29)
        error = future.exception()
        assert isinstance(error, TopicAuthorizationFailedError)
        assert "orders-0 on broker 1 (host1:9092)" in str(error)
        assert "WRITE" in str(error)


async def test_an_answer_that_comes_too_late_for_a_retry_is_the_batch_s_error() -> None:
    async with running() as world:
        future = world.send()
        await world.turn()
        sent = world.one(ProduceRequest)
        world.now += DELIVERY
        await world.answer(sent, code=19)
        error = future.exception()
        assert isinstance(error, KafkaError)
        assert error.name == "NOT_ENOUGH_REPLICAS"
