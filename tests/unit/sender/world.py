"""A sender over a real accumulator; the network is played, time is a number."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import io
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta

from aioproducer.accumulator import AccumulatorSettings, RecordAccumulator, SerializedRecord
from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata import Metadata
from aioproducer.cluster.metadata_response import MetadataNews
from aioproducer.errors import ProducerError, ProtocolError
from aioproducer.metrics import ProducerMetrics
from aioproducer.model import BootstrapId, BootstrapServer, Node, NodeId, Peer, RecordMetadata
from aioproducer.network.apis import NO_FEATURES, Api, Features, response_type
from aioproducer.network.client import NetworkClient
from aioproducer.network.lazy_metadata import LazyMetadataResponse
from aioproducer.network.request import Completion
from aioproducer.records.compression import Compression
from aioproducer.runtime.tasks import TaskOwner
from aioproducer.sender.ad_hoc_requests import AdHocRequests
from aioproducer.sender.batch_sender import (
    BatchSender,
    ProduceRequestBuilder,
    ProduceResponses,
    ProduceSettings,
)
from aioproducer.sender.completer import BatchCompleter
from aioproducer.sender.compressor import Compressor
from aioproducer.sender.expiry import BatchExpiry, Expiry, RecordExpiry
from aioproducer.sender.produce import ProduceRequest
from aioproducer.sender.producer_id import ProducerIdRequester
from aioproducer.sender.refresher import MetadataRefresher
from aioproducer.sender.requests import InitProducerIdRequest, MetadataRequest
from aioproducer.sender.sender import Sender
from aioproducer.sender.transaction_codec import TransactionRequest
from aioproducer.sender.transaction_driver import DriverSettings, TransactionDriver
from aioproducer.sender.wakeup import Wakeup
from aioproducer.transactions.group_offsets import GroupOffsets
from aioproducer.transactions.manager import TransactionManager
from aioproducer.transactions.requests import (
    AddPartitionsToTxn,
    CoordinatorRequest,
    FindCoordinator,
    InitProducerId,
    OffsetFetch,
    TxnOffsetCommit,
)
from aioproducer.transactions.sequence_numbers import SequenceNumbers
from aioproducer.transactions.states import TransactionState

_T = TypeVar("_T")

BOOT = BootstrapServer(BootstrapId("-1"), "boot", 9092)


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
        self.sent: list[tuple[NodeId, Any]] = []
        self.unreachable: set[NodeId] = set()
        self.waiting: dict[NodeId, int] = {}
        self.completed: list[Completion] = []
        self.reasons: dict[NodeId, ProducerError] = {}
        self.limit = 5
        self.features = NO_FEATURES

    def in_flight(self, node: NodeId) -> int:
        return self.waiting.get(node, 0)

    def reaches(self, nodes: Iterable[Peer]) -> bool:
        return True

    def can_send(self, node: NodeId, now: float) -> bool:
        return node not in self.unreachable and self.in_flight(node) < self.limit

    def ready(self, node: Peer, now: float) -> bool:
        return self.can_send(node.id, now)

    def not_before(self, node: NodeId, now: float) -> float | None:
        return None

    def next_chance(self, nodes: Iterable[Peer], now: float) -> float | None:
        return None

    def least_loaded(self, nodes: Iterable[Peer], now: float) -> Peer | None:
        return next((node for node in nodes if self.can_send(node.id, now)), None)

    has_refused_logins = False
    refused: ProducerError | None = None

    def refusal(self, nodes: Iterable[Peer]) -> ProducerError | None:
        return self.refused

    def failures(self) -> dict[NodeId, ProducerError]:
        return self.reasons

    def forget_except(self, nodes: Iterable[NodeId]) -> None:
        pass

    def send(self, node: NodeId, request: Any) -> None:
        self.sent.append((node, request))
        if request.answered:
            self.waiting[node] = self.in_flight(node) + 1
        else:
            self.completed.append(Completion(request, node, None, None, 0.0))
            self.wake()

    def take_completed(self) -> list[Completion]:
        completed, self.completed = self.completed, []
        return completed

    def poll(self, now: float) -> float | None:
        return None


class World:
    """A sender with all its real parts but the network.

    ``transactional_id``: it is that of a transactional producer, whose brokers speak ``version`` of
    the transaction protocol.
    """

    def __init__(
        self,
        *,
        idempotent: bool = False,
        acks: int = -1,
        retries: int = 100,
        memory: int = 100_000,
        pending: int = 10_000,
        codec: Compression | None = None,
        transactional_id: str | None = None,
        version: int = 1,
    ) -> None:
        self.now = 1000.0
        self.deaths: list[BaseException] = []
        self.wakeup = Wakeup(lambda: self.now)
        metrics = ProducerMetrics(now=self.now)
        self.metrics = metrics
        self.network = Network(metrics, self.wakeup.wake)
        self.network.features = Features(1, {"transaction.version": version})
        client = cast(NetworkClient, self.network)
        backoff = ExponentialBackoff(BACKOFF, 1.0, NoJitter())
        self.metadata = Metadata(
            [BOOT], max_age=300.0, max_idle=300.0, backoff=backoff, rebootstrap_after=None
        )
        self.owner = TaskOwner(self.deaths.append)
        identity = SequenceNumbers(
            idempotent=idempotent, transactional=transactional_id is not None
        )
        self.identity = identity
        self.changes = 0
        self.offsets = GroupOffsets("shop")
        self._manager = (
            None if transactional_id is None else TransactionManager(transactional_id, identity)
        )
        self.accumulator = RecordAccumulator(
            AccumulatorSettings(
                memory=memory,
                pending_memory=pending,
                kept_memory=memory,
                batch_size=1000,
                max_request_size=1_000_000,
                linger=0.0,
                adaptive_linger=0.005,
                delivery_timeout=DELIVERY,
                in_order=idempotent,
                adaptive_partitioning=False,
            ),
            NoJitter(),
            self.wakeup.wake,
            lambda: asyncio.get_running_loop().create_future(),
            admits=None if self._manager is None else self._manager.admit,
            on_failed=None if self._manager is None else self._manager.batch_failed,
        )
        self.batches = self.accumulator.batches
        self.pool = self.accumulator._pool
        self.pending = self.accumulator.pending
        self.records = self.accumulator._records
        compressor = Compressor(codec, self.owner, asyncio.to_thread)
        self.refresher = refresher = MetadataRefresher(
            self.metadata, client, self.accumulator, compressor
        )
        completer = BatchCompleter(
            self.accumulator,
            self.metadata,
            identity,
            metrics,
            compressor,
            backoff,
            retries,
            self._manager,
        )
        self.completer = completer
        producer_id: ProducerIdRequester | TransactionDriver = ProducerIdRequester(
            identity, self.accumulator, client, self.metadata, completer, BACKOFF
        )
        if self._manager is not None:
            producer_id = TransactionDriver(
                self._manager,
                self.offsets,
                self.accumulator,
                client,
                self.metadata,
                completer,
                DriverSettings(backoff, 60_000),
                self._changed,
            )
        self.requester = producer_id
        self.batch_sender = BatchSender(
            self.accumulator,
            client,
            self.metadata,
            identity,
            compressor,
            ProduceRequestBuilder(
                ProduceSettings(acks, 30_000), self.metadata, compressor, metrics, self._manager
            ),
            ProduceResponses(self.accumulator, self.metadata, completer),
            self.wakeup,
        )
        expiry = Expiry(
            BatchExpiry(
                self.accumulator, completer, client, self.metadata, identity, self._manager
            ),
            RecordExpiry(self.accumulator, self.metadata, refresher, metrics),
        )
        self.sender = Sender(
            self.accumulator,
            client,
            completer,
            expiry,
            refresher,
            (producer_id, AdHocRequests(client, self.metadata), self.batch_sender),
            metrics,
            self.wakeup,
        )

    @property
    def manager(self) -> TransactionManager:
        """Where there is a ``transactional_id``."""
        assert self._manager is not None
        return self._manager

    def _changed(self) -> None:
        self.changes += 1

    # what the producer does

    def send(
        self, value: bytes = b"v", *, partition: int = 0, topic: str = "orders"
    ) -> asyncio.Future[RecordMetadata]:
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        record = SerializedRecord(topic, partition, 1, None, value, (), future)
        if not self.accumulator.append(record, self.now):
            pending = self.accumulator.enqueue(record, self.now, self.now + MAX_BLOCK)
            if pending.awaits_metadata:
                self.metadata.seek(topic, self.now)
        return future

    def state(self) -> TransactionState:
        """Where the transaction is now, whatever was looked at before."""
        return self.manager.state

    # what happens

    async def turn(self, later: float = 0.0) -> None:
        """Let ``later`` seconds go by and the sender run."""
        self.now += later
        self.wakeup.wake()
        for _ in range(10):
            await asyncio.sleep(0)
        assert self.deaths == []

    def requests(self, kind: type[Any]) -> list[tuple[NodeId, Any]]:
        """Those that were sent since the last call."""
        found = [each for each in self.network.sent if isinstance(each[1], kind)]
        self.network.sent = [each for each in self.network.sent if each not in found]
        return found

    def one(self, kind: type[Any]) -> tuple[NodeId, Any]:
        (found,) = self.requests(kind)
        return found

    async def complete(
        self, sent: tuple[NodeId, Any], response: Any = None, error: ProducerError | None = None
    ) -> None:
        node, request = sent
        if request.answered:
            self.network.waiting[node] -= 1
        said = None if response is None else request.read(response)
        self.network.completed.append(Completion(request, node, said, error, 0.1))
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

    async def answer(self, sent: tuple[NodeId, Any], **said: Any) -> None:
        """The same answer for every batch of a produce request."""
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        await self.complete(sent, produce_response(places, **said))


def metadata_response(
    topic: str,
    leaders: Sequence[int],
    code: int,
    brokers: Mapping[int, Node],
    epoch: int | Sequence[int],
    *,
    partition_code: int = 0,
    whole_code: int = 0,
) -> LazyMetadataResponse:
    parts: Any = importlib.import_module(response_type(Api.METADATA, 13).__module__)
    partitions = tuple(
        parts.MetadataResponsePartition(
            error_code=_Code(partition_code),
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch if isinstance(epoch, int) else epoch[index],
        )
        for index, leader in enumerate(leaders if not code else ())
    )
    response = parts.MetadataResponse(
        throttle_time=NOTHING,
        brokers=tuple(
            parts.MetadataResponseBroker(node_id=each.id, host=each.host, port=each.port)
            for each in brokers.values()
        ),
        topics=(
            parts.MetadataResponseTopic(
                error_code=_Code(code), name=topic, topic_id=UUID(int=1), partitions=partitions
            ),
        ),
        error_code=_Code(whole_code),
    )
    return metadata_answer(response)


class _Code(NamedTuple):
    """An error code to be written, of which kio need not know."""

    value: int


def metadata_answer(response: Any) -> LazyMetadataResponse:
    """``response``, one of kio's, as it comes from a connection; refusing it fails the test."""
    wire = io.BytesIO()
    kind = type(response)
    entity_writer(kind.__header_schema__)(wire, kind.__header_schema__(correlation_id=i32(1)))
    entity_writer(kind)(wire, response)
    return unread(kind, wire.getvalue())


def unread(
    kind: Any, body: bytes, on_refusal: Any = None, on_left_over: Any = lambda: None
) -> LazyMetadataResponse:
    """An answer of these bytes; refusing it fails the test unless somebody hears of that."""

    def fail(error: ProtocolError) -> None:
        raise AssertionError(error)

    return LazyMetadataResponse(
        kind, body, on_refusal=on_refusal or fail, on_left_over=on_left_over
    )


def read_to_its_end(
    answer: LazyMetadataResponse, asked: Collection[str], detailed: Collection[str] = ()
) -> MetadataNews:
    """What it says. Raises the :class:`ProtocolError` for which its connection ends."""
    refused: list[ProtocolError] = []
    said: MetadataNews | None = None
    with suppress(ProtocolError):
        said = at_once(unread(answer._kind, answer._body, refused.append).read(asked, detailed))
    for error in refused:
        raise error
    assert said is not None, "it raised, and its connection stays"
    return said


def at_once(steps: Generator[None, None, _T]) -> _T:
    """What the last of them returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            said: _T = end.value
            return said


def produce_response(
    places: Iterable[tuple[str, int]],
    *,
    code: int = 0,
    offset: int = 42,
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
        throttle_time=NOTHING,
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


def states(sent: tuple[NodeId, Any]) -> list[tuple[int, int]]:
    """Producer id and base sequence of each batch of a produce request."""
    return [(each.state.producer_id, each.state.base_sequence) for each, _ in sent[1].batches]


@asynccontextmanager
async def identified(**options: Any) -> AsyncIterator[World]:
    async with running(known=False, idempotent=True, **options) as world:
        world.send()
        await world.tell_metadata()
        await world.complete(world.one(InitProducerIdRequest), identity_response(77))
        await world.answer(world.one(ProduceRequest))
        yield world


def coordinator_answer(
    request: CoordinatorRequest,
    code: int = 0,
    *,
    node: int = 2,
    producer_id: int = -1,
    epoch: int = -1,
) -> Any:
    """What a coordinator says; the same ``code`` for each partition that it was asked about."""
    match request:
        case FindCoordinator():
            host, port = BROKERS[node].host, BROKERS[node].port
            return SimpleNamespace(error_code=code, node_id=node, host=host, port=port)
        case AddPartitionsToTxn(partitions):
            topics = [
                SimpleNamespace(
                    name=topic,
                    results_by_partition=[
                        SimpleNamespace(partition_index=number, partition_error_code=code)
                    ],
                )
                for topic, number in sorted(partitions)
            ]
            return SimpleNamespace(results_by_topic_v3_and_below=topics)
        case TxnOffsetCommit(offsets):
            topics = [
                SimpleNamespace(
                    name=topic,
                    partitions=[SimpleNamespace(partition_index=number, error_code=code)],
                )
                for topic, number in sorted(offsets)
            ]
            return SimpleNamespace(topics=topics)
        case OffsetFetch(_, partitions):
            topics = [
                SimpleNamespace(
                    name=topic,
                    partitions=[
                        SimpleNamespace(partition_index=number, committed_offset=-1, error_code=0)
                    ],
                )
                for topic, number in sorted(partitions)
            ]
            return SimpleNamespace(error_code=code, topics=topics)
    return SimpleNamespace(error_code=code, producer_id=producer_id, producer_epoch=epoch)


async def answered(world: World, code: int = 0, **said: Any) -> CoordinatorRequest:
    """The request that is on its way, which gets its response."""
    sent = world.one(TransactionRequest)
    request: CoordinatorRequest = sent[1].request
    if isinstance(request, InitProducerId) and not code:
        said = {"producer_id": 77, "epoch": world.manager.handle.epoch + 1, **said}
    await world.complete(sent, coordinator_answer(request, code, **said))
    return request


@asynccontextmanager
async def transactional(
    version: int = 1, *, ready: bool = True, **options: Any
) -> AsyncIterator[World]:
    """A world of a transactional producer; ``ready``: with its identity 77, epoch 0."""
    named: dict[str, Any] = {"transactional_id": "payments", "version": version, "idempotent": True}
    async with running(**named, **options) as world:
        if ready:
            world.manager.initialize()
            await world.turn()
            await answered(world)
            await answered(world)
            assert world.manager.state is TransactionState.READY
        yield world
