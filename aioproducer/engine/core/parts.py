"""The parts of a running producer, made of its configuration and wired together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from aioproducer.config import ADAPTIVE_LINGER_MS, ProducerConfig
from aioproducer.engine.accumulator import (
    AccumulatorSettings,
    PendingRecord,
    RecordAccumulator,
)
from aioproducer.engine.client.connections import bootstrap_servers, network_client, security
from aioproducer.engine.client.environment import Environment
from aioproducer.engine.client.requester import AdHocRequests
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.core.hooks import Hooks
from aioproducer.engine.metrics import MetricsSnapshot, ProducerMetrics
from aioproducer.engine.observer import ObserverSlot
from aioproducer.engine.partitioning import NAMED_PARTITIONERS, PartitionFunction
from aioproducer.engine.records.compression import Compression, compression
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
from aioproducer.engine.telemetry.requester import TelemetryRequester
from aioproducer.engine.telemetry.subscription import TelemetryStates, producer_groups
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.errors import ProducerError
from aioproducer.foundation import tuning
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.foundation.runtime.threads import BESIDE_THE_LOOP, DaemonThreads
from aioproducer.model import TransactionHandle

if TYPE_CHECKING:
    # a producer without logins and transactions imports no part of them
    from aioproducer.engine.core.failures import FailedRecordHandler, FailureWorker
    from aioproducer.engine.core.transaction_api import TransactionApi
    from aioproducer.engine.sender.transaction_driver import TransactionDriver
    from aioproducer.engine.telemetry.payload_maker import PayloadMaker
    from aioproducer.engine.transactions.manager import TransactionManager


class Parts:
    """All parts of one producer, wired together; the :class:`Engine` starts and ends them.

    Each is made once, below those that use it.
    """

    def __init__(
        self,
        config: ProducerConfig,
        client_id: str,
        hooks: Hooks,
        joined: TransactionHandle | None,
        environment: Environment,
        owner: TaskOwner,
        observed: ObserverSlot,
        snapshot: Callable[[], MetricsSnapshot],
    ) -> None:
        self._random = environment.random()
        self._owner = owner
        self.wakeup = environment.wakeup(environment.clock)
        self._clock = clock = self.wakeup.clock
        self.metrics = ProducerMetrics(
            num_samples=config.metrics_num_samples,
            sample_window=max(config.metrics_sample_window_ms, 1) / 1000,
            now=clock(),
        )
        self.compression_threads = DaemonThreads("aioproducer-compress", BESIDE_THE_LOOP)
        self._compressor = Compressor(_compression(config), owner, self.compression_threads.run)
        self._retry_backoff = config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000
        self.metadata = self._make_metadata(config)
        transactional_id = config.transactional_id
        self._sequence_numbers = SequenceNumbers(
            idempotent=config.enable_idempotence, transactional=transactional_id is not None
        )
        self._manager = None if transactional_id is None else self._make_manager(config, joined)
        self.failure_worker = self._make_failure_worker(config, hooks.failed_records)
        """The worker of the hook for failed records; None: there is no hook."""
        failed_records = None if self.failure_worker is None else self.failure_worker.queue
        self._reports = DeliveryReports(
            self.metrics, observed, self.metadata, environment.wall_clock_ns, failed_records
        )
        self.accumulator = self._make_accumulator(config, hooks.partitioner())
        secured = security(config, environment)
        self.mechanism = secured.mechanism
        self.client = network_client(
            config,
            client_id,
            environment,
            self._random,
            owner,
            self.wakeup,
            self.metrics,
            secured,
        )
        self.transactions = None if self._manager is None else self._make_api(config, self._manager)
        """The calls of a transactional producer; None: there is no ``transactional_id``."""
        self._pending_failures = PendingFailures(self.accumulator, self.metrics)
        self.refresher = self._make_refresher()
        self.ad_hoc = AdHocRequests(self.client, self.metadata, self.wakeup.wake)
        self.telemetry = self._make_telemetry(config, environment, snapshot)
        self.produce_settings = ProduceSettings(config.acks_value, config.request_timeout_ms)
        self.sender = self._make_sender(config)

    def _make_refresher(self) -> MetadataRefresher:
        self.client.misrouted = lambda _: self.metadata.misrouted()
        return MetadataRefresher(
            self.metadata,
            self.client,
            self.accumulator,
            self._pending_failures,
            self._compressor,
            self.wakeup.wake,
            self._login_refused,
        )

    def _login_refused(self, error: ProducerError) -> None:
        if self.transactions is not None:
            self.transactions.login_refused(error)

    def backoff(self) -> ExponentialBackoff:
        """The delays between retries."""
        return ExponentialBackoff(*self._retry_backoff, self._random)

    def _make_metadata(self, config: ProducerConfig) -> Metadata:
        strategy = config.metadata_recovery_strategy
        rebootstraps = strategy != "none"
        return Metadata(
            bootstrap_servers(config.bootstrap_servers),
            max_age=config.metadata_max_age_ms / 1000,
            max_idle=config.metadata_max_idle_ms / 1000,
            backoff=self.backoff(),
            rebootstrap_after=(
                config.metadata_recovery_rebootstrap_trigger_ms / 1000 if rebootstraps else None
            ),
            check_cluster=rebootstraps and config.metadata_cluster_check_enable,
            same_cluster=strategy == "same_cluster",
        )

    def _make_accumulator(self, config: ProducerConfig, partitioner: Any) -> RecordAccumulator:
        for_pending = config.buffer_memory // 4
        idempotent = config.enable_idempotence
        availability_timeout_ms = config.partitioner_availability_timeout_ms
        memory = config.buffer_memory - for_pending
        smallest, doublings = _batch_sizes(config, memory)
        settings = AccumulatorSettings(
            memory=memory,
            pending_memory=for_pending,
            kept_memory=max(for_pending, config.max_request_size),
            batch_size=smallest,
            most_doublings=doublings,
            max_request_size=config.max_request_size,
            linger=None if config.linger_ms is None else config.linger_ms / 1000,
            adaptive_linger=ADAPTIVE_LINGER_MS / 1000,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            one_at_a_time=not idempotent and config.max_in_flight_requests_per_connection == 1,
            in_order=idempotent,
            ignore_keys=config.partitioner_ignore_keys,
            adaptive_partitioning=config.partitioner_adaptive_partitioning_enable,
            availability_timeout=availability_timeout_ms / 1000 or None,
            is_near=self._rack_check(config),
        )
        return RecordAccumulator(
            settings,
            self._random,
            self.wakeup.wake,
            asyncio.get_running_loop().create_future,
            self._compressor.expansion,
            _partition_function(partitioner, self._random),
            None if self._manager is None else self._manager.add_partition,
            self._pending_failed,
        )

    def _rack_check(self, config: ProducerConfig) -> Callable[[int], bool] | None:
        """Whether a node is in the producer's rack; None: its rack is not considered."""
        if not (config.partitioner_rack_aware and config.client_rack):
            return None
        metadata, rack = self.metadata, config.client_rack

        def is_near(node_id: int) -> bool:
            node = metadata.snapshot.brokers.get(node_id)
            return node is not None and node.rack == rack

        return is_near

    def _pending_failed(self, error: ProducerError, records: Sequence[PendingRecord]) -> None:
        if self._manager is not None:
            self._manager.delivery_failed(error)
        if self.failure_worker is not None:
            self.failure_worker.queue.add_pending(error, records)

    def _make_failure_worker(
        self, config: ProducerConfig, handler: FailedRecordHandler | None
    ) -> FailureWorker | None:
        if handler is None:
            return None
        from aioproducer.engine.core.failures import FailureWorker

        concerns: Callable[[ProducerError], bool] = lambda _error: True  # noqa: E731
        if self._manager is not None:
            from aioproducer.engine.transactions.errors import is_its_own as concerns
        return FailureWorker(handler, config.buffer_memory, concerns, self._owner)

    def _make_sender(self, config: ProducerConfig) -> Sender:
        completer = self.completer = BatchCompleter(
            self.accumulator,
            self.metadata,
            Gaps(self.accumulator.batches, self._sequence_numbers, self._manager),
            self._pending_failures,
            self._reports,
            self._compressor,
            self.refresher,
            self.backoff(),
            config.retries,
            self._manager,
        )
        self.refresher.on_another_cluster = completer.leave_cluster
        expiry = Expiry(
            self.accumulator,
            completer,
            self.client,
            self.metadata,
            self._sequence_numbers,
            self._pending_failures,
            self.metrics,
            self._manager,
        )
        return Sender(
            self.accumulator,
            self.client,
            completer,
            expiry,
            self._pending_failures,
            (
                self.refresher,
                self._make_requester(config, completer),
                self.ad_hoc,
                *(() if self.telemetry is None else (self.telemetry,)),
            ),
            self._make_batch_sender(),
            self.metrics,
            self.wakeup,
        )

    def _make_batch_sender(self) -> BatchSender:
        return BatchSender(
            self.accumulator,
            self.client,
            self.metadata,
            self._sequence_numbers,
            self._compressor,
            self.produce_settings,
            self.metrics,
            self.wakeup,
            self._manager,
        )

    def _make_telemetry(
        self,
        config: ProducerConfig,
        environment: Environment,
        snapshot: Callable[[], MetricsSnapshot],
    ) -> TelemetryRequester | None:
        if not config.enable_metrics_push:
            return None
        started_ns = environment.wall_clock_ns()
        name = config.transactional_id
        resource = {} if name is None else {"transactional_id": name}

        def load() -> PayloadMaker:
            from aioproducer.engine.telemetry.payload_maker import MetricsSource, PayloadMaker

            source = MetricsSource(
                snapshot,
                producer_groups(),
                environment.wall_clock_ns,
                started_ns,
                lambda: resource,
            )
            return PayloadMaker(source, self.compression_threads.run)

        async def new_maker() -> PayloadMaker:
            return await self.compression_threads.run(load)

        return TelemetryRequester(
            TelemetryStates(self._random),
            producer_groups,
            new_maker,
            self.client,
            self.metadata,
            lambda: self.accumulator.closing and self.accumulator.is_empty,
            self._owner,
            self.wakeup,
        )

    def _make_requester(
        self, config: ProducerConfig, completer: BatchCompleter
    ) -> ProducerIdRequester | TransactionDriver:
        if self._manager is None:
            return ProducerIdRequester(
                self._sequence_numbers,
                self.accumulator,
                self.client,
                self.metadata,
                completer,
                config.retry_backoff_ms / 1000,
                self.wakeup.wake,
            )
        from aioproducer.engine.sender.transaction_driver import TransactionDriver

        assert self.transactions is not None
        return TransactionDriver(
            self._manager,
            self.transactions.offsets,
            self.accumulator,
            self.client,
            self.metadata,
            completer,
            self.backoff(),
            self.transactions.changed,
            self.wakeup.wake,
        )

    def _make_manager(
        self, config: ProducerConfig, joined: TransactionHandle | None
    ) -> TransactionManager:
        from aioproducer.engine.transactions.manager import TransactionManager

        assert config.transactional_id is not None
        return TransactionManager(
            config.transactional_id, self._sequence_numbers, config.transaction_timeout_ms, joined
        )

    def _make_api(self, config: ProducerConfig, manager: TransactionManager) -> TransactionApi:
        from aioproducer.engine.core.transaction_api import SenderCommands, TransactionApi
        from aioproducer.engine.transactions.group_offsets import GroupOffsets

        api = TransactionApi(
            manager,
            GroupOffsets(f"transactional id {config.transactional_id!r}"),
            SenderCommands(
                wake=self.wakeup.wake,
                flush=self._flush,
                allow_sending=self.accumulator.allow_fast_path,
                describe_delay=self._describe_delay,
                topic_ids=self.metadata.snapshot.topic_ids,
            ),
            config.max_block_ms / 1000,
            self.metrics,
            self._clock,
        )
        api.changed()
        return api

    def _flush(self) -> None:
        self.accumulator.flush(asyncio.get_running_loop().create_future())

    def _describe_delay(self, error: ProducerError | None) -> str:
        """The reason that a coordinator does not answer, or that no broker does, if it is known."""
        reason = error or next(iter(self.client.failures().values()), None)
        return "" if reason is None else f": {reason}"


def _batch_sizes(config: ProducerConfig, memory: int) -> tuple[int, int]:
    """The size of a batch, and the number of times that it may double."""
    if config.batch_size is not None:
        return max(config.batch_size, 1), 0
    largest = min(tuning.LARGEST_BATCH, config.max_request_size, memory)
    smallest = min(tuning.SMALLEST_BATCH, largest)
    return smallest, (largest // smallest).bit_length() - 1


def _compression(config: ProducerConfig) -> Compression | None:
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return compression(config.compression_type, level=levels.get(config.compression_type))


def _partition_function(partitioner: Any, random: Random) -> PartitionFunction | None:
    if partitioner is None:
        return None
    if isinstance(partitioner, str):
        return NAMED_PARTITIONERS[partitioner](random).partition
    function: PartitionFunction = getattr(partitioner, "partition", partitioner)
    return function
