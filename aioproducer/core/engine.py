"""The parts of a running producer, wired together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any, Final, TypeVar

from aioproducer.accumulator import (
    AccumulatorSettings,
    PendingRecord,
    RecordAccumulator,
    SerializedRecord,
)
from aioproducer.auth.mechanism import Mechanism
from aioproducer.auth.tls import TlsContexts
from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata import Metadata
from aioproducer.cluster.snapshot import TopicInfo
from aioproducer.config import ADAPTIVE_LINGER_MS, ProducerConfig
from aioproducer.core.environment import Environment
from aioproducer.core.transaction_api import SenderCommands, TransactionApi
from aioproducer.errors import ProducerClosedError, ProducerError, ProducerTimeoutError, anew
from aioproducer.metrics import MetricsSnapshot, ProducerMetrics
from aioproducer.model import BootstrapId, BootstrapServer, Node, PartitionInfo, TransactionHandle
from aioproducer.network.client import NetworkClient
from aioproducer.network.connection import ConnectionSettings
from aioproducer.network.connection_states import ClientSettings
from aioproducer.network.request import Request
from aioproducer.network.resolve import canonical_names
from aioproducer.network.transport import SocketSettings
from aioproducer.partitioning import (
    ConsistentRandomPartitioner,
    Murmur3Partitioner,
    PartitionFunction,
    RoundRobinPartitioner,
)
from aioproducer.records.compression import Compression, compression
from aioproducer.runtime.tasks import TaskOwner
from aioproducer.runtime.threads import BESIDE_THE_LOOP, DaemonThreads
from aioproducer.sender.ad_hoc_requests import AdHocRequests
from aioproducer.sender.batch_sender import (
    BatchSender,
    ProduceRequestBuilder,
    ProduceResponses,
    ProduceSettings,
)
from aioproducer.sender.completer import BatchCompleter
from aioproducer.sender.compressor import Compressor
from aioproducer.sender.drain import drain
from aioproducer.sender.expiry import BatchExpiry, Expiry, RecordExpiry
from aioproducer.sender.producer_id import ProducerIdRequester
from aioproducer.sender.refresher import MetadataRefresher
from aioproducer.sender.sender import Sender
from aioproducer.sender.transaction_driver import DriverSettings, TransactionDriver
from aioproducer.transactions.group_offsets import GroupOffsets
from aioproducer.transactions.manager import TransactionManager
from aioproducer.transactions.sequence_numbers import SequenceNumbers
from aioproducer.version import __version__

_TELLING_BATCHED: Final = 1e-6
_TELLING_WAITING: Final = 5e-6
"""Seconds that it takes to fail a record in a batch, and one in line, on a slow machine."""

_T = TypeVar("_T")

_LEFT_BEHIND: Final = (
    "the producer was closed before the transaction had ended; what became of it is not known here."
    " The coordinator aborts what is open after transaction_timeout_ms, or when a producer with the"
    " same transactional_id starts"
)


class Engine:
    """Everything below :class:`Producer`: made when it starts, gone when it is closed."""

    def __init__(
        self,
        config: ProducerConfig,
        client_id: str,
        partitioner: Any,
        on_death: Callable[[BaseException], None],
        environment: Environment,
        joined: TransactionHandle | None = None,
    ) -> None:
        self._config = config
        self._environment = environment
        self._clock = clock = environment.clock
        self._random = environment.random()
        self._owner = TaskOwner(on_death)
        self._wakeup = environment.wakeup(clock)
        now = clock()
        self.metrics = ProducerMetrics(
            num_samples=config.metrics_num_samples,
            sample_window=max(config.metrics_sample_window_ms, 1) / 1000,
            now=now,
        )
        self._compressors = DaemonThreads("aioproducer-compress", BESIDE_THE_LOOP)
        self._compressor = Compressor(_compression(config), self._owner, self._compressors.run)
        self.metadata = self._make_metadata(config)
        transactional_id = config.transactional_id
        self._identity = SequenceNumbers(
            idempotent=config.enable_idempotence, transactional=transactional_id is not None
        )
        self._manager = (
            None
            if transactional_id is None
            else TransactionManager(transactional_id, self._identity, joined)
        )
        self._group_offsets = GroupOffsets(f"transactional id {transactional_id!r}")
        self.transactions: TransactionApi | None = None
        """The calls of a transactional producer; None: there is no ``transactional_id``."""
        self.accumulator = self._make_accumulator(config, partitioner)
        self._waiters = self.accumulator.waiters
        self._tls, self._mechanism = _security(config, environment)
        self.client = self._make_client(config, client_id)
        self._refresher = MetadataRefresher(
            self.metadata, self.client, self.accumulator, self._compressor, self._login_refused
        )
        self._ad_hoc = AdHocRequests(self.client, self.metadata)
        self._sender = self._make_sender(config)
        self._sender_task: asyncio.Task[None] | None = None
        self._closing_now: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _login_refused(self, error: ProducerError) -> None:
        if self.transactions is not None:
            self.transactions.login_refused(error)

    def _backoff(self) -> ExponentialBackoff:
        config = self._config
        return ExponentialBackoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, self._random
        )

    def _make_metadata(self, config: ProducerConfig) -> Metadata:
        rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        return Metadata(
            _bootstrap_servers(config.bootstrap_servers),
            max_age=config.metadata_max_age_ms / 1000,
            max_idle=config.metadata_max_idle_ms / 1000,
            backoff=self._backoff(),
            rebootstrap_after=(
                config.metadata_recovery_rebootstrap_trigger_ms / 1000 if rebootstraps else None
            ),
        )

    def _make_accumulator(self, config: ProducerConfig, partitioner: Any) -> RecordAccumulator:
        for_pending = config.buffer_memory // 4
        idempotent = config.enable_idempotence
        availability_timeout_ms = config.partitioner_availability_timeout_ms
        settings = AccumulatorSettings(
            memory=config.buffer_memory - for_pending,
            pending_memory=for_pending,
            kept_memory=max(for_pending, config.max_request_size),
            batch_size=max(config.batch_size, 1),
            max_request_size=config.max_request_size,
            linger=None if config.linger_ms is None else config.linger_ms / 1000,
            adaptive_linger=ADAPTIVE_LINGER_MS / 1000,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            one_at_a_time=not idempotent and config.max_in_flight_requests_per_connection == 1,
            in_order=idempotent,
            ignore_keys=config.partitioner_ignore_keys,
            adaptive_partitioning=config.partitioner_adaptive_partitioning_enable,
            availability_timeout=availability_timeout_ms / 1000 or None,
        )
        return RecordAccumulator(
            settings,
            self._random,
            self._wakeup.wake,
            asyncio.get_running_loop().create_future,
            self._compressor.expansion,
            _partition_function(partitioner, self._random),
            None if self._manager is None else self._manager.admit,
            None if self._manager is None else self._manager.batch_failed,
        )

    def _make_client(self, config: ProducerConfig, client_id: str) -> NetworkClient:
        idle = config.connections_max_idle_ms
        return self._environment.network(
            ClientSettings(
                connection=ConnectionSettings(
                    client_id=client_id,
                    software_version=__version__,
                    request_timeout=config.request_timeout_ms / 1000,
                    socket=SocketSettings(
                        config.send_buffer_bytes, config.receive_buffer_bytes, self._tls
                    ),
                    mechanism=self._mechanism,
                ),
                max_in_flight=config.max_in_flight_requests_per_connection,
                request_timeout=config.request_timeout_ms / 1000,
                setup_timeout=config.socket_connection_setup_timeout_ms / 1000,
                setup_timeout_max=config.socket_connection_setup_timeout_max_ms / 1000,
                reconnect_backoff=config.reconnect_backoff_ms / 1000,
                reconnect_backoff_max=config.reconnect_backoff_max_ms / 1000,
                max_idle=float("inf") if idle < 0 else idle / 1000,
            ),
            self._owner,
            self._clock,
            self._random,
            self._wakeup.wake,
            self.metrics,
        )

    def _make_sender(self, config: ProducerConfig) -> Sender:
        completer = BatchCompleter(
            self.accumulator,
            self.metadata,
            self._identity,
            self.metrics,
            self._compressor,
            self._backoff(),
            config.retries,
            self._manager,
        )
        expiry = Expiry(
            BatchExpiry(
                self.accumulator,
                completer,
                self.client,
                self.metadata,
                self._identity,
                self._manager,
            ),
            RecordExpiry(self.accumulator, self.metadata, self._refresher, self.metrics),
        )
        return Sender(
            self.accumulator,
            self.client,
            completer,
            expiry,
            self._refresher,
            (
                self._make_requester(config, completer),
                self._ad_hoc,
                self._make_batch_sender(config, completer),
            ),
            self.metrics,
            self._wakeup,
        )

    def _make_batch_sender(self, config: ProducerConfig, completer: BatchCompleter) -> BatchSender:
        settings = ProduceSettings(config.acks_value, config.request_timeout_ms)
        return BatchSender(
            self.accumulator,
            self.client,
            self.metadata,
            self._identity,
            self._compressor,
            ProduceRequestBuilder(
                settings, self.metadata, self._compressor, self.metrics, self._manager
            ),
            ProduceResponses(self.accumulator, self.metadata, completer),
            self._wakeup,
        )

    def _make_requester(
        self, config: ProducerConfig, completer: BatchCompleter
    ) -> ProducerIdRequester | TransactionDriver:
        if self._manager is None:
            return ProducerIdRequester(
                self._identity,
                self.accumulator,
                self.client,
                self.metadata,
                completer,
                config.retry_backoff_ms / 1000,
            )
        self.transactions = calls = TransactionApi(
            self._manager,
            self._group_offsets,
            SenderCommands(
                wake=self._wakeup.wake,
                close_batches=self._let_nothing_linger,
                allow_sending=self.accumulator.allow_fast_path,
                describe_delay=lambda error: _because(error or self._why_unreachable()),
            ),
            config.max_block_ms / 1000,
            self.metrics,
            self._clock,
        )
        calls.changed()
        return TransactionDriver(
            self._manager,
            self._group_offsets,
            self.accumulator,
            self.client,
            self.metadata,
            completer,
            DriverSettings(self._backoff(), config.transaction_timeout_ms),
            calls.changed,
        )

    def _let_nothing_linger(self) -> None:
        self.accumulator.flush(asyncio.get_running_loop().create_future())

    def _why_unreachable(self) -> ProducerError | None:
        """Why no broker answers, as far as is known."""
        return next(iter(self.client.failures().values()), None)

    # --- life ------------------------------------------------------------------------------

    async def resolve_bootstrap(self) -> None:
        """Replace the bootstrap servers by their canonical names where the option asks for it."""
        if self._config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only":
            names = await canonical_names(self._config.bootstrap_servers)
            self.metadata.set_bootstrap(_bootstrap_servers(names))

    def start(self) -> None:
        """Run the sender on the running loop."""
        self._sender_task = self._owner.start(self._sender.run(), name="aioproducer-sender")

    def enqueue(
        self,
        record: SerializedRecord,
        now: float,
        deadline: float,
        caller: object,
        *,
        over_capacity: bool,
    ) -> PendingRecord:
        """Let a record of ``caller`` wait for its topic, its partition or memory.

        See :meth:`RecordAccumulator.enqueue`, also for what it raises.
        """
        pending = self.accumulator.enqueue(
            record, now, deadline, caller=caller, over_capacity=over_capacity
        )
        if pending.awaits_metadata:
            self.metadata.seek(record.topic, now)
        self._wakeup.wake()
        return pending

    async def drain(self, caller: object) -> None:
        """Wait for memory, in turn; ``caller``, a task, sends more afterwards."""
        await drain(self._waiters, caller, self._clock)

    def turn(self, caller: object) -> asyncio.Future[None] | None:
        """A future for when ``caller``, a thread, may send more; None: now."""
        turn: asyncio.Future[None] | None = self._waiters.turn(caller, self._clock(), patient=True)
        return turn

    async def inquire(self, request: Request, node: Node | None = None) -> Any:
        """The answer of ``node``, or of any broker.

        Raises why there is no answer; without ``node`` it waits until a broker lets the producer in
        or each has refused the login.
        """
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ad_hoc.ask(request, told, node)
        self._wakeup.wake()
        answer = await told
        if isinstance(answer, ProducerError):
            raise anew(answer)
        return answer

    @property
    def features(self) -> Mapping[str, int]:
        """The features that the whole cluster supports (KIP-584)."""
        return self.client.features.levels

    @property
    def versions(self) -> Mapping[str, tuple[int, int]]:
        """The versions of requests that a connected broker speaks."""
        return self.client.versions()

    def why_no_answer(self) -> str:
        """The last error of each broker that could be asked."""
        reasons = self.client.failures()
        peers = self.metadata.peers
        return "; ".join(str(reasons.get(each.id) or f"{each}: no answer yet") for each in peers)

    async def topic(self, topic: str, patience: float) -> TopicInfo:
        """The partitions and leaders of ``topic``, waited for up to ``patience`` seconds.

        Raises what a record would get that has to wait for it.
        """
        known = self.metadata.snapshot.topics.get(topic)
        if known is not None:
            self.metadata.use(topic, self._clock())
            return known
        return await self._wait_for(
            topic, patience, self.metadata.wait_for, self.metadata.wait_no_longer
        )

    async def partition_infos(self, topic: str, patience: float) -> tuple[PartitionInfo, ...]:
        """The partitions of ``topic`` as the cluster has them now; raises as :meth:`topic` does."""
        return await self._wait_for(
            topic,
            patience,
            self.metadata.wait_for_details,
            self.metadata.wait_for_details_no_longer,
        )

    async def _wait_for(
        self,
        topic: str,
        patience: float,
        wait: Callable[[str, asyncio.Future[_T | ProducerError], float], None],
        wait_no_longer: Callable[[str, asyncio.Future[_T | ProducerError]], None],
    ) -> _T:
        began = self._clock()
        told: asyncio.Future[_T | ProducerError] = asyncio.get_running_loop().create_future()
        wait(topic, told, began)
        self._wakeup.wake()
        try:
            async with asyncio.timeout(patience):
                found = await told
        except TimeoutError:
            raise self._refresher.why_no_metadata(topic, began, self._clock()) from None
        finally:
            wait_no_longer(topic, told)
            now = self._clock()
            self.metrics.metadata_waited(now - began, now)
        if isinstance(found, ProducerError):
            raise anew(found)
        return found

    async def flush(self, timeout: float | None) -> None:
        """Wait for the outcome of every record that is here now.

        Raises:
            ProducerTimeoutError: not within ``timeout`` seconds; the records go on.
        """
        accumulator, began = self.accumulator, self._clock()
        future = asyncio.get_running_loop().create_future()
        accumulator.flush(future)
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            raise ProducerTimeoutError(
                f"flush() gave up after {timeout} s: {len(accumulator.batches)} batches "
                f"and {accumulator.pending_count} waiting records have no outcome yet"
            ) from None
        finally:
            accumulator.give_up_flush(future)
            now = self._clock()
            self.metrics.flushed(now - began, now)

    def withdraw(self, record: PendingRecord) -> None:
        """Take a cancelled record out of the line, if it still stands there."""
        self.accumulator.withdraw(record)
        self._wakeup.wake()

    def take_back_cancelled(self) -> None:
        """Take all cancelled records out of the line."""
        self.accumulator.withdraw_cancelled()
        self._wakeup.wake()

    async def close(self, timeout: float, error: ProducerError) -> int:
        """Deliver for ``timeout`` seconds, fail the rest with ``error``; how many that were."""
        if self.transactions is not None:
            self.transactions.leave()
        self.accumulator.close()
        end = self._clock() + timeout
        try:
            await self._deliver(timeout)
            if self._config.acks == "0" and (barriers := self.client.barriers()):
                left = min(end - self._clock(), self._config.request_timeout_ms / 1000)
                await asyncio.wait(barriers, timeout=max(left, 0.0))
            if self._sender_task is not None:
                self._owner.cancel(self._sender_task)
            self.client.close()
        finally:
            try:
                undelivered = await self._tell(error)
            finally:
                if self.transactions is not None:
                    self.transactions.close(ProducerClosedError(_LEFT_BEHIND))
                closed = ProducerClosedError("the producer is closed; make a new Producer")
                self._waiters.close(closed)
                self.metadata.tell_waiting(closed)
                self._ad_hoc.close(closed)
                self.client.close()
                self.accumulator.close_memory()
                await self._owner.close()
                if self._mechanism is not None:
                    await self._mechanism.close()
                self._compressors.shutdown(cancel_futures=True)
        return undelivered

    async def _deliver(self, timeout: float) -> None:
        """Wait for the sender's end, but leave time to tell the futures: half of it at most."""
        task, began = self._sender_task, self._clock()
        while task is not None and not task.done() and not self._closing_now.done():
            left = began + timeout - min(self._telling(), timeout / 2) - self._clock()
            if left <= 0:
                return
            await asyncio.wait(
                [task, self._closing_now], timeout=left, return_when=asyncio.FIRST_COMPLETED
            )

    def _telling(self) -> float:
        """Seconds that it takes to tell the futures of all records without an outcome."""
        batched = sum(batch.count for batch in self.accumulator.batches)
        return batched * _TELLING_BATCHED + self.accumulator.pending_count * _TELLING_WAITING

    def close_now(self) -> None:
        """End a :meth:`close` under way before its timeout."""
        if not self._closing_now.done():
            self._closing_now.set_result(None)

    def break_down(self, error: ProducerError) -> None:
        """A part died: everything that waits gets ``error``."""
        with ExitStack() as steps:  # each is taken, whatever becomes of the others
            steps.callback(self.client.close)
            steps.callback(self._compressors.shutdown, cancel_futures=True)
            steps.callback(self._waiters.close, error)
            steps.callback(self.metadata.tell_waiting, error)
            steps.callback(self._ad_hoc.close, error)
            if self.transactions is not None:
                steps.callback(self.transactions.close, error)
            steps.callback(self.accumulator.fail_flushes, error)
            steps.callback(self._tell_all, error)
            steps.callback(self.accumulator.close)

    def _tell_all(self, error: ProducerError) -> None:
        """Fail every record; in a task if they are many, unless the event loop is ending."""
        if self._sender_task is not None:
            self._owner.cancel(self._sender_task)
        loop_ends = isinstance(error.__cause__, asyncio.CancelledError)
        for _ in self._sender.giving_up(error):
            if not loop_ends:
                break
        if not self.accumulator.is_empty:
            self._owner.start(self._tell_rest(error), name="aioproducer-telling")

    async def _tell_rest(self, error: ProducerError) -> None:
        await self._tell(error)

    async def _tell(self, error: ProducerError) -> int:
        """Fail every record, with turns for others in between; how many. Cancelled: at once."""
        failed = 0
        try:
            for told in self._sender.giving_up(error):
                failed += told
                await asyncio.sleep(0)
        finally:
            failed += self._sender.give_up(error)
        return failed

    def snapshot_metrics(self) -> MetricsSnapshot:
        """All metrics as they are now."""
        now = self._clock()
        updated = self.metadata.last_full_update
        return self.metrics.snapshot(
            now,
            gauges={
                "buffer-total-bytes": float(self._config.buffer_memory),
                "buffer-available-bytes": float(self.accumulator.free_memory),
                "requests-in-flight": float(self.client.total_in_flight()),
                "metadata-age": float("nan") if updated is None else now - updated,
                "waiting-threads": float(self.accumulator.pending_count),
                "connection-count": float(self.client.connection_count()),
            },
        )


def _security(
    config: ProducerConfig, environment: Environment
) -> tuple[TlsContexts | None, Mechanism | None]:
    """TLS and the login. Without either, nothing that they need is imported."""
    if config.security_protocol == "PLAINTEXT":
        return None, None
    from aioproducer.auth.configured import mechanism_of, tls_of

    mechanism = mechanism_of(config, lambda: environment.wall_clock_ns() / 1e9)
    return tls_of(config), mechanism


def _bootstrap_servers(addresses: Iterable[tuple[str, int]]) -> list[BootstrapServer]:
    return [
        BootstrapServer(BootstrapId(f"-{number}"), host, port)
        for number, (host, port) in enumerate(addresses, start=1)
    ]


def _because(obstacle: ProducerError | None) -> str:
    return "" if obstacle is None else f": {obstacle}"


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
    if partitioner == "round_robin":
        return RoundRobinPartitioner(random).partition
    if partitioner == "consistent_random":
        return ConsistentRandomPartitioner(random).partition
    if partitioner == "murmur3":
        return Murmur3Partitioner(random).partition
    function: PartitionFunction = getattr(partitioner, "partition", partitioner)
    return function
