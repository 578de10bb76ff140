"""The running parts of a producer: their start, their end, their undelivered records, and queries.

:class:`Engine` starts and ends what :class:`Parts` has wired together. :class:`ClusterQueries`
sends a caller's requests between those of the sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import (
    MemoryWaiters,
    PendingRecord,
    SerializedRecord,
    Unserialized,
)
from aioproducer.engine.client.connections import resolved_bootstrap_servers
from aioproducer.engine.client.environment import Environment
from aioproducer.engine.cluster.snapshot import ClusterView, TopicInfo, why_no_answer
from aioproducer.engine.core.hooks import Hooks
from aioproducer.engine.core.parts import Parts
from aioproducer.engine.metrics import Latencies, MetricsSnapshot
from aioproducer.engine.network.request import Request
from aioproducer.engine.observer import ObserverSlot
from aioproducer.engine.records.acceleration import RecordsBuilder
from aioproducer.errors import ProducerClosedError, ProducerError, ProducerTimeoutError, anew
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import ClientLog, counted, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.model import BootstrapServer, PartitionInfo, Peer, TransactionHandle


async def drain(waiters: MemoryWaiters, caller: object, clock: Callable[[], float]) -> None:
    """Wait for room, behind earlier callers. Source: ``StreamWriter.drain``."""
    waited, stalled = False, caller in waiters.stalled
    while (room := waiters.room_for(caller, clock())) is not None:
        waited = True
        await room
        if caller not in waiters.stalled:
            return
    if stalled and not waited:
        await asyncio.sleep(0)  # a caller whose records are refused must not hold the loop


_T = TypeVar("_T")


class ClusterQueries:
    """Sends requests on behalf of a caller, which waits for the response. Times are seconds."""

    def __init__(self, parts: Parts, clock: Callable[[], float]) -> None:
        self._client = parts.client
        self._metadata = parts.metadata
        self._metrics = parts.metrics
        self._ad_hoc = parts.ad_hoc
        self._clock = clock

    @property
    def known(self) -> ClusterView:
        """The cluster as it is known: the brokers, and the topics in use."""
        return self._metadata.snapshot

    @property
    def bootstrap_servers(self) -> Sequence[BootstrapServer]:
        """The addresses for the first request."""
        return self._metadata.bootstrap

    async def request(self, request: Request, node: Peer | None = None) -> Any:
        """The response of ``node``, or of any broker.

        Raises the reason that there is none. Without ``node`` the call waits until a broker accepts
        the login or each broker has refused it.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ad_hoc.ask(request, answer, node)
        result = await answer
        if isinstance(result, ProducerError):
            raise anew(result)
        return result

    @property
    def features(self) -> Mapping[str, int]:
        """The features that the whole cluster supports (KIP-584)."""
        return self._client.features.levels

    @property
    def versions(self) -> Mapping[str, tuple[int, int]]:
        """The versions of requests that a connected broker speaks."""
        return self._client.versions()

    def why_no_answer(self) -> str:
        """The last error of each broker that could get a request."""
        return why_no_answer(self._metadata.peers, self._client.failures())

    async def topic(self, topic: str, timeout: float) -> TopicInfo:
        """The partitions and leaders of ``topic``, waited for up to ``timeout`` seconds.

        Raises the error of a record that waits for the topic's metadata in vain.
        """
        known = self._metadata.snapshot.topics.get(topic)
        if known is not None:
            self._metadata.use(topic, self._clock())
            return known
        return await self._wait_for(topic, timeout, self._metadata.wait_for)

    async def partition_infos(self, topic: str, timeout: float) -> tuple[PartitionInfo, ...]:
        """The partitions of ``topic`` as the cluster has them now; raises as :meth:`topic` does."""
        return await self._wait_for(topic, timeout, self._metadata.wait_for_details)

    async def _wait_for(
        self,
        topic: str,
        timeout: float,
        wait: Callable[[str, asyncio.Future[_T | ProducerError], float], None],
    ) -> _T:
        began = self._clock()
        answer: asyncio.Future[_T | ProducerError] = asyncio.get_running_loop().create_future()
        wait(topic, answer, began)
        try:
            async with PatientTimeout(timeout):
                found = await answer
        except TimeoutError:
            failures, waited = self._client.failures, self._clock() - began
            raise self._metadata.why_no_metadata(topic, waited, failures) from None
        finally:
            self._metadata.wait_no_longer(topic, answer)
            now = self._clock()
            self._metrics.metadata_waited(now - began, now)
        if isinstance(found, ProducerError):
            raise anew(found)
        return found


_SECONDS_PER_BATCHED_RECORD: Final = 1e-6
_SECONDS_PER_PENDING_RECORD: Final = 5e-6
"""Seconds to fail one record on a slow machine, for records in batches and pending ones."""

_LEAST_TO_END: Final = 1.0
"""Seconds in which cancelled tasks end, whatever the timeout of ``close()`` is."""

_LEFT_BEHIND: Final = (
    "the producer was closed before the transaction had ended; what became of it is not known here."
    " The coordinator aborts what is open after transaction_timeout_ms, or when a producer with the"
    " same transactional_id starts"
)


class Engine:
    """Starts and ends all parts below :class:`ProducerCore`.

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
        self._config = config
        self._environment = environment
        self.log = log
        """Of the lines that callers' tasks write."""
        self._owner = TaskOwner(on_death, log)
        self.parts = parts = Parts(
            config,
            client_id,
            hooks,
            joined,
            environment,
            self._owner,
            observed,
            self.snapshot_metrics,
        )
        self.accumulator = parts.accumulator
        self.topic_outcomes = parts.accumulator.topic_outcomes
        """Delivered and failed records."""
        self.transactions = parts.transactions
        self.clock = parts.wakeup.clock
        """The clock of every deadline that the producer sets itself."""
        self.queries = ClusterQueries(parts, self.clock)
        self._client = parts.client
        self._metadata = parts.metadata
        self._metrics = parts.metrics
        self._sender, self._completer = parts.sender, parts.completer
        self._wakeup = parts.wakeup
        self._waiters = parts.accumulator.waiters
        self._pending = parts.accumulator.pending
        self._flushes = parts.accumulator.flushes
        self._failure_worker = parts.failure_worker
        self._sender_task: asyncio.Task[None] | None = None
        self._closing_now: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- life ------------------------------------------------------------------------------

    async def resolve_bootstrap(self) -> None:
        """Read the files of TLS, and wait for a name that can be resolved, as the options ask.

        Raises :class:`ConfigError` if a file can't be used, and :class:`BootstrapError`.
        """
        await self._client.prepare()
        servers = await resolved_bootstrap_servers(
            self._config, self._environment, self.backoff(), self._owner
        )
        self._metadata.set_bootstrap(servers)

    def start(self, close: Callable[[], Awaitable[object]]) -> None:
        """Run the sender on the running loop. ``close``: closes the producer at the loop's end."""
        self._owner.close_with_loop(close)
        self._sender_task = self._owner.start(self._sender.run(), name="aioproducer-sender")

    def ack_within(self, timeout_ms: int) -> None:
        """Let a broker wait so long for its replicas, instead of ``request_timeout_ms``."""
        self.parts.produce_settings.ack_timeout_ms = timeout_ms

    def enqueue(
        self,
        record: SerializedRecord,
        now: float,
        deadline: float,
        caller: object,
        *,
        over_capacity: bool,
        unserialized: Unserialized | None = None,
    ) -> PendingRecord:
        """Let a record of ``caller`` wait for its bytes, its topic, its partition or memory.

        See :meth:`RecordAccumulator.enqueue`, also for its errors.
        """
        pending = self.accumulator.enqueue(
            record,
            now,
            deadline,
            caller=caller,
            over_capacity=over_capacity,
            unserialized=unserialized,
        )
        if pending.awaits_metadata or not self.accumulator.knows(record.topic):
            self._metadata.seek(record.topic, now)
        self._wakeup.wake()
        return pending

    def send_encoded(
        self,
        topic: str,
        partition: int,
        encoded: RecordsBuilder,
        tokens: list[Any],
        sent_ns: int,
    ) -> bool:
        """Send a caller's records as one batch; False: none of them is sent.

        See :meth:`BatchQueue.add_encoded`.
        """
        if self.transactions is not None:
            self.transactions.check_open()
        batches = self.accumulator.batches
        batch = batches.add_encoded(topic, partition, encoded, tokens, sent_ns, self.clock())
        if batch is None:
            return False
        self._waiters.record_joined(batch.builder)
        self._wakeup.wake()
        return True

    def seek_awaited(self, topic: str) -> None:
        """Request the metadata of ``topic`` if records wait for it."""
        if topic in self._pending.awaiting_metadata:
            self._metadata.seek(topic, self.clock())

    def start_task(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Run ``coroutine`` until the producer is closed."""
        self._owner.start(coroutine, name=name)

    def backoff(self) -> ExponentialBackoff:
        """The delays of ``retry_backoff_ms`` and ``retry_backoff_max_ms``."""
        return self.parts.backoff()

    async def drain(self, caller: object) -> None:
        """Wait for memory, in turn; ``caller``, a task, sends more afterwards."""
        await drain(self._waiters, caller, self.clock)

    def room_for(self, caller: object) -> asyncio.Future[None] | None:
        """A future for when ``caller``, a thread, may send more; None: now."""
        room: asyncio.Future[None] | None
        room = self._waiters.room_for(caller, self.clock(), patient=True)
        return room

    async def flush(self, timeout: float | None) -> None:
        """Wait for the outcome of every record that is here now.

        Raises:
            ProducerTimeoutError: ``timeout`` seconds are over; the records are still sent.
        """
        accumulator, loop = self.accumulator, asyncio.get_running_loop()
        future, began = loop.create_future(), loop.time()
        accumulator.flush(future)
        try:
            async with PatientTimeout(timeout, stops_count=True):
                await future
                await self._failed_records_handled()
        except TimeoutError:
            raise ProducerTimeoutError(
                f"flush() gave up after {duration(loop.time() - began)}: "
                f"{counted(len(accumulator.batches), 'batch')} and "
                f"{counted(len(self._pending), 'pending record')} have no outcome yet"
                f"{self._failed_records_left()}"
            ) from None
        finally:
            self._flushes.give_up(future)
            self._metrics.flushed(loop.time() - began, self.clock())

    async def _failed_records_handled(self) -> None:
        """Wait for the hook of failed records, ``delivery_timeout_ms`` at most."""
        if self._failure_worker is not None:
            async with PatientTimeout(self._config.delivery_timeout_ms / 1000):
                await self._failure_worker.join()

    def _failed_records_left(self) -> str:
        left = 0 if self._failure_worker is None else self._failure_worker.left
        return f", and on_failed has not handled {counted(left, 'failed record')}" if left else ""

    def withdraw(self, record: PendingRecord) -> None:
        """Take a cancelled record out, if it is still pending."""
        self._pending.withdraw(record)
        self._wakeup.wake()

    def withdraw_cancelled(self) -> None:
        """Take out all pending records that were cancelled."""
        self._pending.withdraw_cancelled()
        self._wakeup.wake()

    def purge(self, queued: ProducerError | None, in_flight: ProducerError | None) -> int:
        """Fail the records that wait with ``queued``, those in flight with ``in_flight``; None:
        they stay. Returns their number."""
        failed = self._completer.purge(queued, in_flight, self.clock())
        self._wakeup.wake()
        return failed

    async def close(self, timeout: float, error: ProducerError) -> int:
        """Deliver for ``timeout`` seconds, fail the rest with ``error``; returns their number.

        ``ProducerCore._close`` makes the error, and the timeout of a call that names none.
        :meth:`close_now` ends the wait early.
        """
        if self.transactions is not None:
            self.transactions.leave()
        self.accumulator.close()
        end = self.clock() + timeout
        try:
            await self._deliver(timeout)
            if self._config.acks == "0" and (barriers := self._client.barriers()):
                left = min(end - self.clock(), self._config.request_timeout_ms / 1000)
                await asyncio.wait(barriers, timeout=max(left, 0.0))
            if self._sender_task is not None:
                self._owner.cancel(self._sender_task)
            self._client.close()
        finally:
            try:
                undelivered = await self._fail_all(error)
            finally:
                if self.transactions is not None:
                    self.transactions.close(ProducerClosedError(_LEFT_BEHIND))
                closed = ProducerClosedError("the producer is closed; make a new Producer")
                self._waiters.close(closed)
                self._metadata.tell_waiting(closed)
                self.parts.ad_hoc.close(closed)
                if self.parts.telemetry is not None:
                    self.parts.telemetry.close(closed)
                self._client.close()
                if self._failure_worker is not None:
                    await self._failure_worker.finish(end - self.clock(), self._closing_now)
                # A user's prepare() may ignore its cancellation.
                await self._owner.close(max(end - self.clock(), _LEAST_TO_END))
                if self.parts.mechanism is not None:
                    await self.parts.mechanism.close()
                self.parts.compression_threads.shutdown(cancel_futures=True)
        return undelivered

    @property
    def loop_ends(self) -> bool:
        """True once somebody has cancelled the tasks of the event loop."""
        return self._owner.loop_ends

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

    @property
    def records_without_outcome(self) -> int:
        """The number of records that are neither delivered nor failed."""
        return sum(batch.count for batch in self.accumulator.batches) + len(self._pending)

    def _time_to_fail_all(self, timeout: float) -> float:
        """Seconds of ``timeout`` that it takes to fail all records without an outcome."""
        batched = sum(batch.count for batch in self.accumulator.batches)
        handling = (
            0.0 if self._failure_worker is None else self._failure_worker.time_to_finish(timeout)
        )
        return (
            batched * _SECONDS_PER_BATCHED_RECORD
            + len(self._pending) * _SECONDS_PER_PENDING_RECORD
            + handling
        )

    def close_called(self) -> None:
        """Note that the present task waits for the end of :meth:`close`."""
        if self._failure_worker is not None:
            self._failure_worker.closing()

    def disown(self, error: ProducerError, *, runs_on: bool) -> None:
        """Do nothing more in a forked child, where transactional calls raise ``error``.

        ``runs_on``: the fork was in the event loop, so the child may run a copy of it.
        """
        if self.transactions is not None:
            self.transactions.disown(error)
        if runs_on:
            self._owner.disown()

    def close_now(self) -> None:
        """End a :meth:`close` under way before its timeout."""
        if not self._closing_now.done():
            self._closing_now.set_result(None)

    def break_down(self, error: ProducerError) -> None:
        """Fail every waiting call and record with ``error``: a part has died."""
        with ExitStack() as steps:  # each part gets the error, even if another part raises
            steps.callback(self._client.close)
            steps.callback(self.parts.compression_threads.shutdown, cancel_futures=True)
            steps.callback(self._waiters.close, error)
            steps.callback(self._metadata.tell_waiting, error)
            steps.callback(self.parts.ad_hoc.close, error)
            if self.parts.telemetry is not None:
                steps.callback(self.parts.telemetry.close, error)
            if self.transactions is not None:
                steps.callback(self.transactions.close, error)
            steps.callback(self._flushes.fail, error)
            steps.callback(self._fail_all_soon, error)
            steps.callback(self.accumulator.close)

    def _fail_all_soon(self, error: ProducerError) -> None:
        """Fail every record; in a task if they are many, unless the event loop is ending."""
        if self._sender_task is not None:
            self._owner.cancel(self._sender_task)
        loop_ends = isinstance(error.__cause__, asyncio.CancelledError)
        for _ in self._completer.abort_in_slices(error, self.clock()):
            if not loop_ends:
                break
        if not self.accumulator.is_empty:
            self._owner.start(self._fail_rest(error), name="aioproducer-failing")

    async def _fail_rest(self, error: ProducerError) -> None:
        await self._fail_all(error)

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

    def latencies(self) -> Latencies:
        """The times of records since the start."""
        return self._metrics.latencies(self.clock())

    def snapshot_metrics(self) -> MetricsSnapshot:
        """All metrics as they are now."""
        now = self.clock()
        updated = self._metadata.last_full_update
        return self._metrics.snapshot(
            now,
            gauges={
                "buffer-total-bytes": float(self._config.buffer_memory),
                "buffer-available-bytes": float(self.accumulator.free_memory),
                "requests-in-flight": float(self._client.total_in_flight),
                "metadata-age": float("nan") if updated is None else now - updated,
                "waiting-threads": float(len(self._pending)),
                "connection-count": float(self._client.connection_count()),
            },
        )
