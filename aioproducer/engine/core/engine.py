"""The running parts of a producer: their wiring, their start, and the policy of ``close()``.

The constructor of :class:`Engine` makes each part after those that it uses. :meth:`Engine.close`
has the steps of a close, and :meth:`Engine.closed` what its callers may cut short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import PendingRecord, RecordAccumulator, accumulator_settings
from aioproducer.engine.client.connections import (
    bootstrap_servers,
    network_client,
    resolved_bootstrap_servers,
    retry_backoff,
    security,
)
from aioproducer.engine.client.environment import Environment
from aioproducer.engine.client.requester import AdHocRequests, Requester
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.core.hooks import Hooks
from aioproducer.engine.core.queries import ClusterQueries
from aioproducer.engine.core.sending import SendPipeline
from aioproducer.engine.core.serializer_preparation import SerializerPreparation
from aioproducer.engine.metrics import MetricsSnapshot, ProducerMetrics
from aioproducer.engine.observer import ObserverSlot
from aioproducer.engine.partitioning import partition_function
from aioproducer.engine.records.compression import configured_compression
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
from aioproducer.errors import ProducerClosedError, ProducerError, ProducerTimeoutError
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import ClientLog, counted, duration
from aioproducer.foundation.runtime.patience import PatientTimeout, sockets_read
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.foundation.runtime.threads import BESIDE_THE_LOOP, DaemonThreads
from aioproducer.model import TransactionHandle

if TYPE_CHECKING:
    # a producer without hooks and transactions imports no part of them
    from aioproducer.engine.core.failures import FailureWorker
    from aioproducer.engine.core.transaction_api import TransactionApi
    from aioproducer.engine.telemetry.payload_maker import PayloadMaker
    from aioproducer.engine.transactions.manager import TransactionManager

_SECONDS_PER_BATCHED_RECORD: Final = 1e-6
_SECONDS_PER_PENDING_RECORD: Final = 5e-6
"""Seconds to fail one record on a slow machine, for records in batches and pending ones."""

_LEAST_TO_END: Final = 1.0
"""Seconds in which cancelled tasks end, whatever the timeout of ``close()`` is."""

_LEFT_BEHIND: Final = (
    "the producer was closed before the transaction had ended; its outcome is not known here."
    " The coordinator aborts what is open after transaction_timeout_ms, or when a producer with the"
    " same transactional_id starts"
)


class Engine:
    """All parts below :class:`ProducerCore`; it makes, starts and ends them.

    ``joined``: another producer's transaction.
    """

    def __init__(
        self,
        config: ProducerConfig,
        client_id: str,
        hooks: Hooks,
        on_death: Callable[[BaseException], None],
        environment: Environment,
        joined: TransactionHandle | None,
        observed: ObserverSlot,
        log: ClientLog,
    ) -> None:
        self.config, self._environment, self._hooks = config, environment, hooks
        self.tasks = tasks = TaskOwner(on_death, log)
        """Runs coroutines until the producer is closed."""
        self._random = random = environment.random()
        self._backoff = retry_backoff(config, random)
        self._wakeup = wakeup = environment.wakeup(environment.clock)
        self.clock = clock = wakeup.clock
        """The clock of every deadline that the producer sets itself."""
        self.metrics = ProducerMetrics(
            num_samples=config.metrics_num_samples,
            sample_window=max(config.metrics_sample_window_ms, 1) / 1000,
            now=clock(),
        )
        self._threads = DaemonThreads("aioproducer-compress", BESIDE_THE_LOOP)
        compressor = Compressor(configured_compression(config), tasks, self._threads.run)
        self.metadata = metadata = _metadata(config, self._backoff)
        self._numbers = SequenceNumbers(
            idempotent=config.enable_idempotence,
            transactional=config.transactional_id is not None,
        )
        self._manager = manager = self._make_manager(joined)
        self._failure_worker = self._make_failure_worker()
        settings = accumulator_settings(config, _rack_check(config, metadata))
        self.max_block: float = config.max_block_ms / 1000
        """Seconds of a call that names no timeout; the wait of a record is in ``settings``."""
        self.accumulator = accumulator = RecordAccumulator(
            settings,
            random,
            wakeup.wake,
            asyncio.get_running_loop().create_future,
            compressor.expansion,
            partition_function(hooks.partitioner(), random),
            None if manager is None else manager.add_partition,
            self._pending_failed,
            metadata.seek,
        )
        secured = security(config, environment)
        self.mechanism = secured.mechanism
        """Of the login; None: the connections have none."""
        self.client = network_client(
            config, client_id, environment, random, tasks, wakeup, self.metrics, secured
        )
        self.client.misrouted = lambda _: metadata.misrouted()
        self.client.failed = partial(metadata.broker_failed, transactional=manager is not None)
        self.transactions = None if manager is None else self._make_transactions(manager)
        """The calls of a transactional producer; None: there is no ``transactional_id``."""
        self._batches, self._pending = accumulator.batches, accumulator.pending
        self._waiters, self._flushes = accumulator.waiters, accumulator.flushes
        self._sender = self._make_sender(compressor, observed)
        preparation = self._make_preparation(settings.max_block, log)
        self.pipeline = SendPipeline(
            accumulator, hooks, preparation, self.transactions, clock, environment.wall_clock_ns
        )
        """The long way of records."""
        self._sender_task: asyncio.Task[None] | None = None
        self._closing_now: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _make_sender(self, compressor: Compressor, observed: ObserverSlot) -> Sender:
        """The sender, with the parts that it calls in its rounds."""
        config, wakeup, numbers, manager = self.config, self._wakeup, self._numbers, self._manager
        accumulator, client, metadata = self.accumulator, self.client, self.metadata
        failed = None if self._failure_worker is None else self._failure_worker.queue
        failures, backoff = PendingFailures(accumulator, self.metrics), self._backoff
        refresher = MetadataRefresher(
            metadata, client, accumulator, failures, compressor, wakeup.wake, self._login_refused
        )
        wall_clock_ns = self._environment.wall_clock_ns
        reports = DeliveryReports(self.metrics, observed, metadata, wall_clock_ns, failed)
        gaps = Gaps(accumulator.batches, numbers, manager)
        self._completer = completer = BatchCompleter(
            accumulator, metadata, gaps, failures, reports, compressor, refresher, backoff, manager
        )
        refresher.on_another_cluster = completer.leave_cluster
        expiry = Expiry(accumulator, completer, client, metadata, numbers, failures, manager)
        self._produce_settings = settings = ProduceSettings(
            config.acks_value, config.request_timeout_ms
        )
        batch_sender = BatchSender(
            accumulator, client, metadata, numbers, compressor, settings, wakeup, manager
        )
        self._ad_hoc = AdHocRequests(client, metadata, wakeup.wake)
        self.queries = ClusterQueries(
            metadata, client, self.metrics, self._ad_hoc, self.max_block, self.clock
        )
        self.telemetry = self._make_telemetry() if config.enable_metrics_push else None
        requesters: list[Requester] = [refresher, self._make_identity(), self._ad_hoc]
        if self.telemetry is not None:
            requesters.append(self.telemetry)
        return Sender(
            accumulator, client, completer, expiry, failures, requesters, batch_sender, wakeup
        )

    # --- the parts of some producers ---------------------------------------------------------

    def _make_manager(self, joined: TransactionHandle | None) -> TransactionManager | None:
        name = self.config.transactional_id
        if name is None:
            return None
        from aioproducer.engine.transactions.manager import TransactionManager

        return TransactionManager(name, self._numbers, self.config.transaction_timeout_ms, joined)

    def _make_failure_worker(self) -> FailureWorker | None:
        """The worker of the hook for failed records; None: there is no hook."""
        handler = self._hooks.failed_records
        if handler is None:
            return None
        from aioproducer.engine.core.failures import FailureWorker

        concerns: Callable[[ProducerError], bool] = lambda _error: True  # noqa: E731
        if self._manager is not None:
            from aioproducer.engine.transactions.errors import is_its_own as concerns
        return FailureWorker(handler, self.config.buffer_memory, concerns, self.tasks)

    def _make_preparation(self, wait: float, log: ClientLog) -> SerializerPreparation | None:
        hooked, accumulator = self._hooks.serializers, self.accumulator
        if not hooked.need_preparation:
            return None
        # Later records need what a prepare() has begun to fetch for one that has expired.
        longest = max(wait, self.config.request_timeout_ms / 1000)
        return SerializerPreparation(
            hooked, accumulator, self.tasks, self._backoff, longest, self.clock, log
        )

    def _make_transactions(self, manager: TransactionManager) -> TransactionApi:
        from aioproducer.engine.core.transaction_api import SenderCommands, TransactionApi
        from aioproducer.engine.transactions.group_offsets import GroupOffsets

        return TransactionApi(
            manager,
            GroupOffsets(f"transactional id {self.config.transactional_id!r}"),
            SenderCommands(
                wake=self._wakeup.wake,
                flush=self._flush,
                allow_sending=self.accumulator.allow_fast_path,
                describe_delay=self._describe_delay,
                topic_ids=self.metadata.snapshot.topic_ids,
            ),
            self.max_block,
            self.metrics,
            self.clock,
        )

    def _make_identity(self) -> Requester:
        """The part that gets the producer id, and sends the requests of transactions."""
        accumulator, client, metadata = self.accumulator, self.client, self.metadata
        ends, backoff, wake = self._completer, self._backoff, self._wakeup.wake
        if self._manager is None or self.transactions is None:
            return ProducerIdRequester(
                self._numbers, accumulator, client, metadata, ends, backoff, wake
            )
        from aioproducer.engine.sender.transaction_driver import TransactionDriver

        offsets, changed = self.transactions.offsets, self.transactions.changed
        return TransactionDriver(
            self._manager, offsets, accumulator, client, metadata, ends, backoff, changed, wake
        )

    def _make_telemetry(self) -> TelemetryRequester:
        wall_clock_ns = self._environment.wall_clock_ns
        started_ns, name = wall_clock_ns(), self.config.transactional_id
        resource = {} if name is None else {"transactional_id": name}

        def load() -> PayloadMaker:
            from aioproducer.engine.telemetry.payload_maker import MetricsSource, PayloadMaker

            source = MetricsSource(
                self.snapshot_metrics,
                producer_groups(),
                wall_clock_ns,
                started_ns,
                lambda: resource,
            )
            return PayloadMaker(source, self._threads.run)

        async def new_maker() -> PayloadMaker:
            return await self._threads.run(load)

        return TelemetryRequester(
            TelemetryStates(self._random),
            producer_groups,
            new_maker,
            self.client,
            self.metadata,
            lambda: self.accumulator.has_ended,
            self.tasks,
            self._wakeup,
        )

    # --- their calls to each other -----------------------------------------------------------

    def _pending_failed(self, error: ProducerError, records: Sequence[PendingRecord]) -> None:
        if self._manager is not None:
            self._manager.delivery_failed(error)
        if self._failure_worker is not None:
            self._failure_worker.queue.add_pending(error, records)

    def _login_refused(self, error: ProducerError) -> None:
        if self.transactions is not None:
            self.transactions.login_refused(error)

    def _flush(self) -> None:
        self.accumulator.flush(asyncio.get_running_loop().create_future())

    def _describe_delay(self, error: ProducerError | None) -> str:
        """The reason that a coordinator does not answer, or that no broker does, if it is known."""
        reason = error or next(iter(self.client.failures().values()), None)
        return "" if reason is None else f": {reason}"

    # --- life ------------------------------------------------------------------------------

    async def resolve_bootstrap(self) -> None:
        """Read the files of TLS, and wait for a name that can be resolved, as the options ask.

        Raises :class:`ConfigError` if a file can't be used, and :class:`BootstrapError`.
        """
        await self.client.prepare()
        servers = await resolved_bootstrap_servers(
            self.config, self._environment, self._backoff, self.tasks
        )
        self.metadata.set_bootstrap(servers)

    def start(self, close: Callable[[], Awaitable[object]]) -> None:
        """Run the sender on the running loop. ``close``: closes the producer at the loop's end."""
        self.tasks.close_with_loop(close)
        self._sender_task = self.tasks.start(self._sender.run(), name="aioproducer-sender")

    def ack_within(self, timeout_ms: int) -> None:
        """Let a broker wait so long for its replicas, instead of ``request_timeout_ms``."""
        self._produce_settings.ack_timeout_ms = timeout_ms

    async def flush(self, timeout: float | None) -> None:
        """Wait for the outcome of every record that is here now.

        Raises:
            ProducerTimeoutError: ``timeout`` seconds are over; the records are still sent.
            ProducerError: the error of a failed record, if another producer may commit the
                transaction.
        """
        loop = asyncio.get_running_loop()
        future, began = loop.create_future(), loop.time()
        self.accumulator.flush(future)
        try:
            async with PatientTimeout(timeout, stops_count=True):
                await future
                if self._failure_worker is not None:
                    async with PatientTimeout(self.config.delivery_timeout_ms / 1000):
                        await self._failure_worker.join()
        except TimeoutError:
            raise ProducerTimeoutError(
                f"flush() gave up after {duration(loop.time() - began)}: "
                f"{counted(len(self._batches), 'batch')} and "
                f"{counted(len(self._pending), 'pending record')} have no outcome yet"
                f"{self._failed_records_left()}"
            ) from None
        finally:
            self._flushes.give_up(future)
            self.metrics.flushed(loop.time() - began, self.clock())
        if self.transactions is not None:
            self.transactions.check_own_part("flush")

    def _failed_records_left(self) -> str:
        left = 0 if self._failure_worker is None else self._failure_worker.left
        return f", and on_failed did not handle {counted(left, 'failed record')}" if left else ""

    def purge(self, queued: ProducerError | None, in_flight: ProducerError | None) -> int:
        """Fail the records that wait with ``queued``, those in flight with ``in_flight``; None:
        they stay. Returns their number."""
        failed = self._completer.purge(queued, in_flight, self.clock())
        self._wakeup.wake()
        return failed

    def disown(self, error: ProducerError, *, runs_on: bool) -> None:
        """Do nothing more in a forked child, where transactional calls raise ``error``.

        ``runs_on``: the fork was in the event loop, so the child may run a copy of it.
        """
        if self.transactions is not None:
            self.transactions.disown(error)
        if runs_on:
            self.tasks.disown()

    def snapshot_metrics(self) -> MetricsSnapshot:
        """All metrics as they are now."""
        now = self.clock()
        updated = self.metadata.last_full_update
        return self.metrics.snapshot(
            now,
            gauges={
                "buffer-total-bytes": float(self.config.buffer_memory),
                "buffer-available-bytes": float(self.accumulator.free_memory),
                "requests-in-flight": float(self.client.total_in_flight),
                "metadata-age": float("nan") if updated is None else now - updated,
                "waiting-threads": float(len(self._pending)),
                "connection-count": float(self.client.connection_count()),
            },
        )

    # --- the end ---------------------------------------------------------------------------

    def close_called(self) -> None:
        """Note that the present task waits for the end of :meth:`close`."""
        if self._failure_worker is not None:
            self._failure_worker.closing()

    async def close(self, bound: float) -> int:
        """Deliver for ``bound`` seconds, then fail the rest.

        Returns the number of records that failed. The steps:

        - No batch lingers any more, and a transaction that has failed is aborted. Records are
          delivered, until the time is left that it takes to fail the others (:meth:`_deliver`).
        - With ``acks=0``, brokers may read what was sent, for ``request_timeout_ms`` at most.
        - The connections end. All records and calls that wait fail.
        - The handler of failed records has the rest of the time (:meth:`FailureWorker.finish`).
        - Tasks, the login, threads and hooks end.
        """
        end = self.clock() + bound
        error = ProducerClosedError(
            "the producer was closed before this record was delivered (close() waited for at most "
            f"{duration(bound)}, or was cancelled); give close() more time, or call flush() first"
        )
        if self.transactions is not None:
            self.transactions.leave()
        self.accumulator.close()
        try:
            await self._deliver(bound)
            if self.config.acks == "0" and (barriers := self.client.barriers()):
                left = min(end - self.clock(), self.config.request_timeout_ms / 1000)
                await asyncio.wait(barriers, timeout=max(left, 0.0))
            if self._sender_task is not None:
                self.tasks.cancel(self._sender_task)
            self.client.close()
        finally:
            try:
                undelivered = await self._fail_all(error)
            finally:
                await self._end_parts(end)
        return undelivered

    async def closed(self, closing: asyncio.Task[int], timeout: float | None) -> int:
        """Wait for ``closing``, the task of :meth:`close`, and return its result.

        After ``timeout`` seconds, or if the caller is cancelled, it delivers no more; what has
        arrived by then is read first. That task may be another call's, with more time.
        """
        had_ended = self.tasks.loop_ends
        try:
            try:
                await asyncio.wait([closing], timeout=timeout)
            except asyncio.CancelledError:
                task, ends = asyncio.current_task(), self.tasks.loop_ends and not had_ended
                if ends and task is not None and task.cancelling() == 1:
                    await asyncio.wait([closing])  # asyncio.run() has cancelled all tasks, once
                raise
            if not closing.done():
                await sockets_read(self.client.received)
        finally:
            if not closing.done():
                if not self._closing_now.done():
                    self._closing_now.set_result(None)
                await asyncio.wait([closing])
        return closing.result()

    async def _deliver(self, timeout: float) -> None:
        """Wait for the sender's end, but keep time to fail the rest: half of it at most."""
        task, began = self._sender_task, self.clock()
        while task is not None and not task.done() and not self._closing_now.done():
            left = began + timeout - min(self._time_to_fail_all(timeout), timeout / 2)
            left -= self.clock()
            if left <= 0:
                return
            await asyncio.wait(
                [task, self._closing_now], timeout=left, return_when=asyncio.FIRST_COMPLETED
            )

    def _time_to_fail_all(self, timeout: float) -> float:
        """Seconds of ``timeout`` that it takes to fail all records without an outcome."""
        batched = sum(batch.count for batch in self._batches)
        handling = (
            0.0 if self._failure_worker is None else self._failure_worker.time_to_finish(timeout)
        )
        return (
            batched * _SECONDS_PER_BATCHED_RECORD
            + len(self._pending) * _SECONDS_PER_PENDING_RECORD
            + handling
        )

    async def _end_parts(self, end: float) -> None:
        """End what :meth:`close` leaves, once no record is without an outcome."""
        try:
            if self.transactions is not None:
                self.transactions.close(ProducerClosedError(_LEFT_BEHIND))
            self._fail_calls(ProducerClosedError("the producer is closed; make a new Producer"))
            if self._failure_worker is not None:
                await self._failure_worker.finish(end - self.clock(), self._closing_now)
            # A user's prepare() may ignore its cancellation.
            await self.tasks.close(max(end - self.clock(), _LEAST_TO_END))
            if self.mechanism is not None:
                await self.mechanism.close()
            self._threads.shutdown(cancel_futures=True)
        finally:
            await self._hooks.close(end - self.clock())

    def break_down(self, error: ProducerError) -> None:
        """Fail every waiting call and record with ``error``: a part has died."""
        with ExitStack() as steps:  # each part gets the error, even if another part raises
            steps.callback(self._threads.shutdown, cancel_futures=True)
            steps.callback(self._fail_calls, error)
            if self.transactions is not None:
                steps.callback(self.transactions.close, error)
            steps.callback(self._flushes.fail, error)
            steps.callback(self._fail_all_soon, error)
            steps.callback(self.accumulator.close)

    def _fail_calls(self, error: ProducerError) -> None:
        """End the connections, and fail the calls that wait for memory or for a response."""
        with ExitStack() as steps:
            steps.callback(self.client.close)
            steps.callback(self._waiters.close, error)
            steps.callback(self.metadata.tell_waiting, error)
            steps.callback(self._ad_hoc.close, error)
            if self.telemetry is not None:
                steps.callback(self.telemetry.close, error)

    def _fail_all_soon(self, error: ProducerError) -> None:
        """Fail every record; in a task if they are many, unless the event loop is ending."""
        if self._sender_task is not None:
            self.tasks.cancel(self._sender_task)
        loop_ends = isinstance(error.__cause__, asyncio.CancelledError)
        for _ in self._completer.abort_in_slices(error, self.clock()):
            if not loop_ends:
                break
        if not self.accumulator.is_empty:
            self.tasks.start(self._fail_all(error), name="aioproducer-failing")

    async def _fail_all(self, error: ProducerError) -> int:
        """Fail every record in slices, or at once if cancelled; returns their number."""
        failed = 0
        try:
            for count in self._completer.abort_in_slices(error, self.clock()):
                failed += count
                await asyncio.sleep(0)
        finally:
            failed += self._completer.abort(error, self.clock())
        return failed


# --- settings of the parts, read from the configuration ------------------------------------------


def _metadata(config: ProducerConfig, backoff: ExponentialBackoff) -> Metadata:
    strategy = config.metadata_recovery_strategy
    rebootstraps = strategy != "none"
    return Metadata(
        bootstrap_servers(config.bootstrap_servers),
        max_age=config.metadata_max_age_ms / 1000,
        max_idle=config.metadata_max_idle_ms / 1000,
        backoff=backoff,
        rebootstrap_after=(
            config.metadata_recovery_rebootstrap_trigger_ms / 1000 if rebootstraps else None
        ),
        check_cluster=rebootstraps and config.metadata_cluster_check_enable,
        same_cluster=strategy == "same_cluster",
    )


def _rack_check(config: ProducerConfig, metadata: Metadata) -> Callable[[int], bool] | None:
    """Whether a node is in the producer's rack; None: its rack is not considered."""
    rack = config.client_rack
    if not (config.partitioner_rack_aware and rack):
        return None

    def is_near(node_id: int) -> bool:
        node = metadata.snapshot.brokers.get(node_id)
        return node is not None and node.rack == rack

    return is_near
