"""The steps of tests of the sender: records, responses of brokers, and time that goes by."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aioproducer.engine.accumulator import SerializedRecord
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.network.versions import Features
from aioproducer.engine.protocol import SUPPORTED, response_schema
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.engine.transactions.requests import (
    FIRST_STABLE_VERSION,
    AddPartitionsToTxn,
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    OffsetFetch,
    TxnOffsetCommit,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import ProducerError
from aioproducer.model import Node, NodeId, RecordMetadata, TopicPartition
from tests.support.responses import identity_response, metadata_response, produce_response
from tests.support.waiting import settle
from tests.support.world import BROKERS, World


class SenderWorld(World):
    """A sender with all its real parts but the network, which the test plays.

    ``transactional_id``: it is that of a transactional producer, whose brokers speak ``version`` of
    the transaction protocol.
    """

    def __init__(self, *, version: int = 1, **given: Any) -> None:
        super().__init__(**given)
        self.network.features = Features(1, {"transaction.version": version})

    # what the producer does

    def send(
        self, value: bytes = b"v", *, partition: int = 0, topic: str = "orders"
    ) -> asyncio.Future[RecordMetadata]:
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        record = SerializedRecord(topic, partition, 1, None, value, (), future)
        if not self.accumulator.append(record, self.now):
            pending = self.accumulator.enqueue(record, self.now)
            if pending.awaits_metadata:
                self.metadata.seek(topic, self.now)
        return future

    def state(self) -> TransactionState:
        """Where the transaction is now, whatever was looked at before."""
        return self.manager.state

    # what happens

    async def turn(self, later: float = 0.0) -> None:
        """Let ``later`` seconds go by, in which the loop turned, and the sender run."""
        self.wakeup.clock.limit = math.inf
        self.now += later
        self.wakeup.wake()
        await settle(20)
        assert self.deaths == []

    def requests(self, kind: type[Any]) -> list[tuple[NodeId, Any]]:
        """Those that were sent since the last call."""
        return self.network.take_sent(kind)

    def one(self, kind: type[Any]) -> tuple[NodeId, Any]:
        (found,) = self.requests(kind)
        return found

    async def complete(
        self, sent: tuple[NodeId, Any], response: Any = None, error: ProducerError | None = None
    ) -> None:
        _, request = sent
        result = None if response is None else request.read(response)
        self.network.complete(sent, result, error)
        await self.turn()

    async def tell_metadata(
        self,
        leaders: Sequence[int] = (1, 1),
        *,
        topic: str = "orders",
        code: int = 0,
        brokers: Mapping[int, Node] = BROKERS,
        epoch: int = 5,
        cluster: str | None = None,
    ) -> None:
        await self.turn()
        sent = self.one(MetadataRequest)
        response = metadata_response(topic, leaders, code, brokers, epoch, cluster_id=cluster)
        await self.complete(sent, response)

    async def answer(self, sent: tuple[NodeId, Any], **said: Any) -> None:
        """The same answer for every batch of a produce request."""
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        await self.complete(sent, produce_response(places, **said))


@asynccontextmanager
async def running(*, known: bool = True, **options: Any) -> AsyncIterator[SenderWorld]:
    """A world whose sender runs; ``known``: it knows the topic ``orders``."""
    world = SenderWorld(**options)
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
async def identified(**options: Any) -> AsyncIterator[SenderWorld]:
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
    schema = response_schema(request.api)
    said: dict[str, Any]
    match request:
        case FindCoordinator():
            said = {"node_id": node, "host": BROKERS[node].host, "port": BROKERS[node].port}
        case AddPartitionsToTxn(partitions):
            said = {
                "results_by_topic_v3_and_below": _by_topic(
                    partitions, "results_by_partition", partition_error_code=code
                )
            }
        case TxnOffsetCommit(offsets):
            said = {"topics": _by_topic(offsets, "partitions", error_code=code)}
            for topic in said["topics"]:
                topic["topic_id"] = request.topic_ids.get(topic["name"])
        case OffsetFetch(_, partitions):
            said = {"topics": _by_topic(partitions, "partitions", committed_offset=-1)}
        case EndTxn() | InitProducerId():
            said = {"producer_id": producer_id, "producer_epoch": epoch}
        case _:
            said = {}
    if "error_code" in schema.root.kind._fields:
        said["error_code"] = code
    lowest, highest = SUPPORTED[request.api]
    version = lowest if isinstance(request, FindCoordinator) else highest
    if isinstance(request, OffsetFetch):
        version = FIRST_STABLE_VERSION
    version = request.chosen_version(version)
    message = schema.encode(schema.of(said, version), version)
    return schema.decode(message, 0, version)[0]


def _by_topic(partitions: Iterable[TopicPartition], name: str, **said: Any) -> list[dict[str, Any]]:
    return [
        {"name": topic, name: [{"partition_index": number, **said}]}
        for topic, number in sorted(partitions)
    ]


async def answered(world: SenderWorld, code: int = 0, **said: Any) -> CoordinatorRequest:
    """The request that is on its way, which gets its response."""
    sent = world.one(CoordinatorRequest)
    request: CoordinatorRequest = sent[1]
    if isinstance(request, InitProducerId) and not code:
        said = {"producer_id": 77, "epoch": world.manager.handle.epoch + 1, **said}
    await world.complete(sent, coordinator_answer(request, code, **said))
    return request


@asynccontextmanager
async def transactional(
    version: int = 1, *, ready: bool = True, **options: Any
) -> AsyncIterator[SenderWorld]:
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
