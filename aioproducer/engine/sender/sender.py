"""The coroutine that sends batches, and the callback that completes them by their responses.

Source: Kafka's ``Sender``. Its thread is a task here; its poll is a sleep until an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aioproducer.engine.accumulator import (
    BatchQueue,
    LateResults,
    PendingQueue,
    RecordAccumulator,
)
from aioproducer.engine.client.requester import NEVER, Requester
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.sender.batch_sender import BatchSender
from aioproducer.engine.sender.completer import BatchCompleter
from aioproducer.engine.sender.delivery_reports import PendingFailures
from aioproducer.engine.sender.expiry import Expiry
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.foundation import logs
from aioproducer.foundation.runtime.patience import sockets_read

if TYPE_CHECKING:
    from aioproducer.engine.network.network_client import NetworkClient


class Sender:
    """Runs until the producer is closing, and every record has its outcome.

    A round does what is due, and nothing else: ``parts`` send their own requests in this order,
    each when it says so (:class:`Requester`), then memory is given out, and then batches leave.
    While the producer is closing, every part has its step in every round.

    A round follows :meth:`Wakeup.wake`, and the first time at which something is due. It follows a
    response if there is something to do (:meth:`_is_due`). A record that joins an open batch asks
    for none.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        completer: BatchCompleter,
        expiry: Expiry,
        pending_failures: PendingFailures,
        parts: Sequence[Requester],
        batch_sender: BatchSender,
        wakeup: Wakeup,
    ) -> None:
        self._accumulator = accumulator
        self._batches: BatchQueue = accumulator.batches
        self._late_results: LateResults = accumulator.late_results
        self._pending: PendingQueue = accumulator.pending
        self._waiters = accumulator.waiters
        self._client = client
        self._completer = completer
        self._gaps = completer.gaps
        self._expiry = expiry
        self._pending_failures = pending_failures
        self._parts = tuple(parts)
        self._batch_sender = batch_sender
        self._metrics: ProducerMetrics = client.metrics
        self._wakeup = wakeup
        self._part_of = {kind: each for each in parts for kind in each.requests}
        self._is_busy = False
        """True if records or responses were waited for at the end of the last round."""
        self._memory_due: float = NEVER
        """The time at which callers that wait for memory are looked at again."""
        self._batches_due: float | None = None
        """The time at which batches may leave, if there are any."""
        self._late_at: float | None = None
        """No batch, pending record or connection is late before this time."""
        self._log: logs.ClientLog | None = None
        client.wake = self.connections_changed
        client.responded = self.handle_response

    async def run(self) -> None:
        """Send until the accumulator is closing, and nothing is left to do."""
        accumulator, wakeup = self._accumulator, self._wakeup
        self._log = logs.current()
        try:
            now = wakeup.turn()
            while not (accumulator.closing and self._is_finished):
                if self._late_at is not None and now >= self._late_at:
                    await sockets_read(self._client.received, wakeup.clock.turned)
                    self._judge(now)
                    now = wakeup.turn()  # the process may have been stopped meanwhile
                self._round(now)
                deadline = self._next_round(now)
                if not (accumulator.closing and self._is_finished):
                    now = await wakeup.wait(deadline, self._late_at if self._is_busy else None)
        finally:
            wakeup.close()
            logs.tell_due(all_of_them=True)

    def _judge(self, now: float) -> None:
        """Fail what was late at ``now``. Everything that had arrived by then has been read."""
        self._take_completed(now)
        self._expiry.expire(now)
        self._client.poll(now)

    def _round(self, now: float) -> None:
        """Do what is due. The order matters: outcomes, requests, memory, batches."""
        accumulator: RecordAccumulator
        closing: bool
        accumulator, closing = self._accumulator, self._accumulator.closing
        self._late_results.turn(now)
        if self._client.completed:
            self._take_completed(now)
        if self._gaps.partitions:
            self._completer.close_gaps(now)
        for part in self._parts:
            if closing or part.waits or part.due <= now:
                part.step(now)
        self._memory_due = self._serve_memory(now) if accumulator.somebody_waits else NEVER
        self._batches_due = self._batch_sender.step(now)
        if self._pending.refused:
            self._pending_failures.count_refused(now)

    def _next_round(self, now: float) -> float | None:
        """The time of the next round, if nothing happens before."""
        expiry = self._accumulator.next_deadline()
        late_at = self._client.next_timeout()
        if late_at is None or (expiry is not None and expiry < late_at):
            late_at = expiry
        self._late_at = late_at
        self._is_busy = expiry is not None or self._client.total_in_flight > 0
        if self._late_results.waiting:
            return now
        due: float = self._memory_due
        for part in self._parts:
            if part.due < due:
                due = part.due
        if self._log is not None and self._log.next_line is not None:
            due = min(due, self._log.tell_due() or NEVER)
        for moment in (late_at, self._batches_due):
            if moment is not None and moment < due:
                due = moment
        return None if due == NEVER else due

    def _is_due(self, now: float) -> bool:
        """True if a round would do something: it asks for all that :meth:`_round` looks at."""
        accumulator: RecordAccumulator = self._accumulator
        if accumulator.closing or accumulator.somebody_waits or self._gaps.partitions:
            return True
        if self._late_results.waiting or self._client.completed or self._pending.refused:
            return True
        for part in self._parts:
            if part.waits or part.due <= now:
                return True
        return self._batches.next_expiry < NEVER and not self._batch_sender.quiet

    def connections_changed(self) -> None:
        """A connection has opened or ended, or its requests have failed: every part is due."""
        for part in self._parts:
            part.due = 0.0
        self._wakeup.wake()

    def _take_completed(self, now: float) -> None:
        completion: Completion
        for completion in self._client.take_completed():
            request = completion.request
            if type(request) is ProduceRequest:
                self._completer.complete(request, completion, now)
            else:
                part = self._part_of[type(request)]
                part.due = 0.0
                part.completed(completion, now)
        if self._pending.refused:  # before the callers look at the metrics
            self._pending_failures.count_refused(now)

    def handle_response(self, now: float) -> None:
        """Handle a response in the callback that brought it: its records need not wait for a round.

        Otherwise each awaited record would take another iteration of the event loop.
        """
        try:
            self._take_completed(now)
        except BaseException as error:
            self._wakeup.fail(error)
        else:
            if self._is_due(now):
                self._wakeup.wake()

    def _serve_memory(self, now: float) -> float:
        """Serve those who wait for memory, and count their waits."""
        metrics: ProducerMetrics = self._metrics
        self._expiry.tell_waiting(now)
        due = self._waiters.serve(now) or NEVER
        for_memory, for_batches = self._pending.take_waits()
        for waited in for_memory:
            metrics.buffer_waited(waited, now)
        for waited in for_batches:
            metrics.record_waited(waited, now)
        return due

    @property
    def _is_finished(self) -> bool:
        """True if every record has its outcome, and every part is idle: no transaction is being
        ended, and the last push of metrics is over."""
        return self._accumulator.is_empty and all(part.idle for part in self._parts)
