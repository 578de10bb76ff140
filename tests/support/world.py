"""The parts of a producer around fakes: no socket, and time is a number that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from random import Random
from typing import Any, cast

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import (
    AccumulatorSettings,
    RecordAccumulator,
    accumulator_settings,
)
from aioproducer.engine.accumulator.batch_queue import BatchQueue
from aioproducer.engine.accumulator.memory_quota import BufferPool, PendingMemory
from aioproducer.engine.accumulator.pending_records import PendingRecord
from aioproducer.engine.accumulator.waiting import PendingQueue
from aioproducer.engine.client.requester import AdHocRequests
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.observer import ObserverSlot
from aioproducer.engine.partitioning import PartitionFunction
from aioproducer.engine.records.compression import Compression
from aioproducer.engine.sender.batch_sender import BatchSender
from aioproducer.engine.sender.completer import BatchCompleter
from aioproducer.engine.sender.compressor import Compressor
from aioproducer.engine.sender.delivery_reports import DeliveryReports, PendingFailures
from aioproducer.engine.sender.expiry import Expiry
from aioproducer.engine.sender.gaps import Gaps
from aioproducer.engine.sender.produce import ProduceSettings
from aioproducer.engine.sender.producer_id import ProducerIdRequester
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.engine.sender.sender import Sender
from aioproducer.engine.sender.transaction_driver import TransactionDriver
from aioproducer.engine.transactions.group_offsets import GroupOffsets
from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.requests import InitProducerId
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.errors import ProducerError
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.model import (
    BootstrapId,
    BootstrapServer,
    Node,
    TopicPartition,
    TransactionHandle,
)
from tests.support.clock import NoJitter
from tests.support.fake_network import FakeNetwork
from tests.support.watchdog import WatchedWakeup

BOOT = BootstrapServer(BootstrapId("-1"), "boot", 9092)
BROKERS = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}
BACKOFF, BACKOFF_MAX = 0.1, 1.0
PAYMENTS = TransactionHandle("payments", 77, 3, 2)
"""The producer of requests that are compared; the comparison does not look at it."""
FENCE = InitProducerId(epoch_bump=False, timeout_ms=60_000, producer=PAYMENTS)
BUMP = InitProducerId(epoch_bump=True, timeout_ms=60_000, producer=PAYMENTS)
DELIVERY = 120.0
MAX_BLOCK = 60.0


def loop_future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(frozen=True)
class WorldOptions:
    """Everything but the settings of the accumulator; times are seconds."""

    now: float = 1000.0
    acks: int = -1
    codec: Compression | None = None
    idempotent: bool = False
    transactional_id: str | None = None
    joined: TransactionHandle | None = None
    """The transaction of another producer."""
    bootstrap: tuple[BootstrapServer, ...] = (BOOT,)
    max_idle: float = 300.0
    rebootstrap_after: float | None = None
    check_cluster: bool = True
    same_cluster: bool = False
    random: Callable[[], Random] = NoJitter
    network: Callable[[ProducerMetrics, Callable[[], None]], FakeNetwork] = FakeNetwork
    wakeup: Callable[[Callable[[], float]], Wakeup] = WatchedWakeup
    make_future: Callable[[], Any] = loop_future
    expansion: float = 1.0
    partitioner: PartitionFunction | None = None
    add_to_transaction: Callable[[TopicPartition], bool] | None = None
    elsewhere: Callable[[Callable[[], None]], Awaitable[None]] = asyncio.to_thread
    on_failed: Callable[[ProducerError, Sequence[PendingRecord]], None] | None = None


_OPTIONS = frozenset(each.name for each in fields(WorldOptions))


class World:
    """All parts below the core of a producer; each is made when a test first uses it.

    ``given``: the fields of :class:`WorldOptions` and of :class:`AccumulatorSettings` that matter
    to the test.
    """

    def __init__(self, **given: Any) -> None:
        named = {name: given.pop(name) for name in _OPTIONS & given.keys()}
        self.options = WorldOptions(**named)
        self._settings = given
        self.now = self.options.now
        self.wakes = 0
        self.sought: list[str] = []
        """The topics whose metadata the accumulator has requested."""
        self.changes = 0
        """How often the transaction driver reported a change."""
        self.deaths: list[BaseException] = []

    def clock(self) -> float:
        return self.now

    def wake(self, now: float | None = None) -> None:
        self.wakes += 1
        self.wakeup.wake(now)

    def _changed(self) -> None:
        self.changes += 1

    # --- the fakes -------------------------------------------------------------------------

    @cached_property
    def network(self) -> FakeNetwork:
        return self.options.network(self.metrics, self.wake)

    @cached_property
    def wakeup(self) -> Wakeup:
        return self.options.wakeup(self.clock)

    # --- the accumulator -------------------------------------------------------------------

    @cached_property
    def settings(self) -> AccumulatorSettings:
        memory = self._settings.get("memory", 100_000)
        defaults: dict[str, Any] = {
            "memory": memory,
            "pending_memory": 10_000,
            "kept_memory": memory,
            "batch_size": 1000,
            "max_request_size": 1_000_000,
            "linger": 0.0,
            "adaptive_linger": 0.005,
            "delivery_timeout": DELIVERY,
            "max_block": MAX_BLOCK,
            "retries": 100,
            "in_order": self.options.idempotent,
            "adaptive_partitioning": False,
        }
        return AccumulatorSettings(**(defaults | self._settings))

    @cached_property
    def accumulator(self) -> RecordAccumulator:
        options, manager = self.options, self.transactions
        return RecordAccumulator(
            self.settings,
            options.random(),
            self.wake,
            options.make_future,
            lambda _topic: options.expansion,
            options.partitioner,
            options.add_to_transaction if manager is None else manager.add_partition,
            options.on_failed
            if manager is None
            else lambda error, _records: manager.delivery_failed(error),
            lambda topic, _now: self.sought.append(topic),
        )

    @property
    def batches(self) -> BatchQueue:
        return self.accumulator.batches

    @property
    def pending(self) -> PendingQueue:
        return self.accumulator.pending

    @property
    def pool(self) -> BufferPool:
        return self.accumulator._pool

    @property
    def pending_memory(self) -> PendingMemory:
        return self.accumulator._pending_memory

    # --- sequence numbers and transactions -------------------------------------------------

    @cached_property
    def sequence_numbers(self) -> SequenceNumbers:
        options = self.options
        return SequenceNumbers(
            idempotent=options.idempotent, transactional=options.transactional_id is not None
        )

    @cached_property
    def transactions(self) -> TransactionManager | None:
        """None: there is no ``transactional_id``."""
        options = self.options
        if options.transactional_id is None:
            return None
        return TransactionManager(
            options.transactional_id, self.sequence_numbers, 60_000, options.joined
        )

    @property
    def manager(self) -> TransactionManager:
        assert self.transactions is not None
        return self.transactions

    @cached_property
    def group_offsets(self) -> GroupOffsets:
        return GroupOffsets(f"transactional id {self.options.transactional_id!r}")

    # --- the sender ------------------------------------------------------------------------

    @cached_property
    def metrics(self) -> ProducerMetrics:
        return ProducerMetrics(now=self.options.now)

    @cached_property
    def owner(self) -> TaskOwner:
        return TaskOwner(self.deaths.append)

    @cached_property
    def backoff(self) -> ExponentialBackoff:
        return ExponentialBackoff(BACKOFF, BACKOFF_MAX, NoJitter())

    @cached_property
    def metadata(self) -> Metadata:
        options = self.options
        return Metadata(
            options.bootstrap,
            max_age=300.0,
            max_idle=options.max_idle,
            backoff=self.backoff,
            rebootstrap_after=options.rebootstrap_after,
            check_cluster=options.check_cluster,
            same_cluster=options.same_cluster,
        )

    @property
    def client(self) -> NetworkClient:
        """The network, as the parts of the sender see it."""
        return cast(NetworkClient, self.network)

    @cached_property
    def compressor(self) -> Compressor:
        return Compressor(self.options.codec, self.owner, self.options.elsewhere)

    @cached_property
    def refresher(self) -> MetadataRefresher:
        return MetadataRefresher(
            self.metadata,
            self.client,
            self.accumulator,
            self.pending_failures,
            self.compressor,
            self.wakeup.wake,
        )

    @cached_property
    def pending_failures(self) -> PendingFailures:
        return PendingFailures(self.accumulator, self.metrics)

    @cached_property
    def gaps(self) -> Gaps:
        return Gaps(self.accumulator.batches, self.sequence_numbers, self.transactions)

    @cached_property
    def reports(self) -> DeliveryReports:
        return DeliveryReports(self.metrics, ObserverSlot(), self.metadata, lambda: 0)

    @cached_property
    def completer(self) -> BatchCompleter:
        return BatchCompleter(
            self.accumulator,
            self.metadata,
            self.gaps,
            self.pending_failures,
            self.reports,
            self.compressor,
            self.refresher,
            self.backoff,
            self.transactions,
        )

    @cached_property
    def requester(self) -> ProducerIdRequester | TransactionDriver:
        if self.transactions is None:
            return ProducerIdRequester(
                self.sequence_numbers,
                self.accumulator,
                self.client,
                self.metadata,
                self.completer,
                self.backoff,
                self.wakeup.wake,
            )
        return TransactionDriver(
            self.transactions,
            self.group_offsets,
            self.accumulator,
            self.client,
            self.metadata,
            self.completer,
            self.backoff,
            self._changed,
            self.wakeup.wake,
        )

    @cached_property
    def batch_sender(self) -> BatchSender:
        return BatchSender(
            self.accumulator,
            self.client,
            self.metadata,
            self.sequence_numbers,
            self.compressor,
            ProduceSettings(self.options.acks, 30_000),
            self.wakeup,
            self.transactions,
        )

    @cached_property
    def expiry(self) -> Expiry:
        return Expiry(
            self.accumulator,
            self.completer,
            self.client,
            self.metadata,
            self.sequence_numbers,
            self.pending_failures,
            self.transactions,
        )

    @cached_property
    def sender(self) -> Sender:
        sender = Sender(
            self.accumulator,
            self.client,
            self.completer,
            self.expiry,
            self.pending_failures,
            (
                self.refresher,
                self.requester,
                AdHocRequests(self.client, self.metadata, self.wakeup.wake),
            ),
            self.batch_sender,
            self.wakeup,
        )
        self.client.misrouted = lambda _: self.metadata.misrouted()
        self.client.failed = lambda: self.metadata.broker_failed(
            transactional=self.transactions is not None
        )
        if isinstance(self.wakeup, WatchedWakeup):
            self.wakeup.sender = sender
        self.refresher.on_another_cluster = self.completer.leave_cluster
        return sender


def settings_of(max_request_size: int) -> AccumulatorSettings:
    """The settings of a producer with this option."""
    config = ProducerConfig(bootstrap_servers="localhost:1", max_request_size=max_request_size)
    return accumulator_settings(config, None)
