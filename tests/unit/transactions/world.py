"""A transaction manager whose coordinators say what the test wants. No I/O, no clock."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.transactions.requests import (
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    Reaction,
    Response,
    TxnOffsetCommit,
)
from aioproducer.engine.transactions.transaction import Ending, PendingOffsets, TransactionState
from aioproducer.errors import BrokerConnectionError, DeliveryTimeoutError
from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)
from tests.support.world import PAYMENTS, World

VERSIONS = [1, 2]
COMMIT = EndTxn(committed=True, producer=PAYMENTS)
ABORT = EndTxn(committed=False, producer=PAYMENTS)
FAILED = DeliveryTimeoutError("orders-0: not acknowledged")
LOST = BrokerConnectionError("lost")
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
READERS = ConsumerGroupMetadata("readers", 3, "member-1")
CONSUMED = {TopicPartition("events", 0): OffsetAndMetadata(7)}
HOME, OTHER = Node(1, "host1", 9092), Node(2, "host2", 9092)

FENCED, INVALID_STATE, ABORTABLE, INVALID_MAPPING = 90, 48, 120, 49
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT = 14, 15, 16, 51
GROUP_UNAUTHORIZED, ILLEGAL_GENERATION, UNAUTHORIZED, UNSTABLE = 30, 22, 53, 88


class TransactionWorld(World):
    """The manager, and the requests to its coordinators; every batch has its outcome."""

    def __init__(self, version: int = 1, joined: TransactionHandle | None = None) -> None:
        super().__init__(idempotent=True, transactional_id="payments", joined=joined)
        self.manager.offered_version = version
        self.version = version
        self.flushed = True
        self.asked: list[CoordinatorRequest] = []

    def state(self) -> TransactionState:
        """Where the manager is now."""
        return self.manager.state

    def next(self) -> CoordinatorRequest | None:
        """What the manager wants to ask now."""
        self.manager.complete_unknown(flushed=self.flushed)
        return self.manager.next_request(flushed=self.flushed)

    def ask(self) -> CoordinatorRequest:
        """The next request, on its way."""
        request = self.next()
        assert request is not None
        self.manager.sent(request)
        self.asked.append(request)
        return request

    def answer(self, request: CoordinatorRequest, code: int = 0, **said: Any) -> Reaction:
        """The answer to a request; one without an error says what there is to say."""
        if not code and isinstance(request, FindCoordinator):
            said.setdefault("node", HOME)
        if not code and isinstance(request, InitProducerId):
            said.setdefault("producer_id", 70)
            said.setdefault("epoch", self.manager.handle.epoch + 1)
        if not code and isinstance(request, EndTxn) and self.manager.handle.version == 2:
            said.setdefault("producer_id", self.manager.handle.producer_id)
            said.setdefault("epoch", self.manager.handle.epoch + 1)
        return self.manager.handle_response(request, Response(code, **said), "broker 1")

    def exchange(self, code: int = 0, **said: Any) -> CoordinatorRequest:
        """One request and its answer."""
        request = self.ask()
        self.answer(request, code, **said)
        return request

    def run(self) -> list[CoordinatorRequest]:
        """Every request is answered without error; what was asked, but for coordinators."""
        asked = []
        while self.next() is not None:
            asked.append(self.exchange())
            assert len(asked) < 100
        return [each for each in asked if not isinstance(each, FindCoordinator)]

    def begin(self, *, shared: bool = False) -> None:
        while not self.manager.begin(shared=shared):
            self.run()
        if shared:
            self.manager.hand_out()

    def write(self, *partitions: TopicPartition) -> None:
        """Batches for ``partitions`` leave and are delivered; they are taken in before."""
        for partition in partitions or (ONE,):
            if not self.manager.add_partition(partition):
                assert self.manager.handle.version == 1
                self.run()
            assert self.manager.add_partition(partition)
            self.sequence_numbers.stamp(partition, 1)

    def offsets(self, group: ConsumerGroupMetadata = READERS) -> PendingOffsets:
        return self.manager.add_offsets(CONSUMED, group, {})

    def end(self, *, committed: bool) -> Ending:
        """A commit or abort, to its outcome."""
        ending = self.manager.commit() if committed else self.manager.abort()
        self.run()
        return ending


def ready(version: int = 1) -> TransactionWorld:
    """No transaction is open."""
    world = TransactionWorld(version)
    world.manager.initialize()
    world.run()
    return world


def opened(version: int = 1, *, shared: bool = False) -> TransactionWorld:
    """A transaction is open, and nothing is in it."""
    world = ready(version)
    world.begin(shared=shared)
    return world


def kinds(requests: list[CoordinatorRequest]) -> list[str]:
    """What was asked, in short."""
    return [type(each).__name__ for each in requests]


def is_offsets(request: CoordinatorRequest | None) -> bool:
    return isinstance(request, TxnOffsetCommit)
