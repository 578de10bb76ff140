# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The coroutine that sends batches, and the callback that settles them by their responses.

Source: Kafka's ``Sender``. Its thread is a task here; its poll is a sleep until an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from aioproducer.engine.accumulator import RecordAccumulator
from aioproducer.engine.client.requester import Requester
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.client import NetworkClient
from aioproducer.engine.sender.batch_sender import BatchSender
from aioproducer.engine.sender.completer import BatchCompleter
from aioproducer.engine.sender.expiry import Expiry
from aioproducer.engine.sender.pending_failures import PendingFailures
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.errors import ProducerError
from aioproducer.foundation import logs
from aioproducer.foundation.runtime.patience import sockets_read

_NEVER: Final = float("inf")


class Sender:
    """Runs until the producer is closing, and every record has its outcome.

    In a *usual* round batches leave, and nothing else. In a *whole* round all parts look for work:
    ``requesters`` send their requests in this order, then ``batch_sender``. A usual round follows
    :meth:`Wakeup.stir`: a record has begun a batch, a response has only settled batches, or records
    wait for their results. A whole round follows :meth:`Wakeup.wake`, any wake-up while a requester
    is not quiet, and the time of a part's next work. A batch of pending records
    (:meth:`PendingQueue._fill`) or of a caller (:meth:`Engine.send_encoded`) calls
    :meth:`~Wakeup.wake`, too, and so does anything that is late. A record that joins an open batch
    wakes nobody.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        completer: BatchCompleter,
        expiry: Expiry,
        pending_failures: PendingFailures,
        refresher: MetadataRefresher,
        requesters: Sequence[Requester],
        batch_sender: BatchSender,
        metrics: ProducerMetrics,
        wakeup: Wakeup,
    ) -> None:
        self._accumulator = accumulator
        self._batches = accumulator.batches
        self._late_results = accumulator.late_results
        self._pending = accumulator.pending
        self._waiters = accumulator.waiters
        self._client = client
        self._completer = completer
        self._expiry = expiry
        self._pending_failures = pending_failures
        self._refresher = refresher
        self._requesters = requesters
        self._batch_sender = batch_sender
        self._metrics = metrics
        self._wakeup = wakeup
        parts: Sequence[Requester] = (refresher, *requesters)
        self._requester_of = {kind: each for each in parts for kind in each.requests}
        self._is_busy = False
        """True if records or responses were waited for at the end of the last round."""
        self._whole_at: float | None = None
        """The time of the next whole round by the clock."""
        self._others_quiet = False
        """True if no requester had a step left after the last whole round."""
        self._late_at: float | None = None
        """No batch, pending record or connection is late before this time."""

    async def run(self) -> None:
        """Send until the accumulator is closing and empty."""
        accumulator, wakeup, late = self._accumulator, self._wakeup, self._late_results
        try:
            now = wakeup.turn()
            while not (accumulator.closing and self._finished):
                if self._late_at is not None and now >= self._late_at:
                    await sockets_read(self._client.received, wakeup.clock.turned)
                    self._judge(now)
                    now = wakeup.turn()  # the process may have been stopped meanwhile
                    wakeup.whole = True
                late.turn(now)
                if (
                    wakeup.whole
                    or not self._others_quiet
                    or (self._whole_at is not None and self._whole_at <= now)
                ):
                    deadline = self._whole_round(now)
                else:
                    deadline = self._usual_round(now)
                if late.waiting:
                    wakeup.stir()
                if not (accumulator.closing and self._finished):
                    now = await wakeup.wait(deadline, self._late_at if self._is_busy else None)
        finally:
            wakeup.close()
            logs.tell_due(all_of_them=True)

    def _judge(self, now: float) -> None:
        """Fail what was late at ``now``. Everything that had arrived by then has been read."""
        self._take_completed(now)
        self._expiry.expire(now)
        self._client.poll(now)

    def _usual_round(self, now: float) -> float | None:
        """Let batches leave. Returns the time of the next round by the clock."""
        due = self._batch_sender.step(now)
        if not self._refresher.quiet:
            self._wakeup.wake()  # a batch has no leader, or its topic is new
        return self._next_round(due)

    def _whole_round(self, now: float) -> float | None:
        """Do one whole round of work. Returns the time of the next round by the clock."""
        self._wakeup.whole = False
        self._take_completed(now)
        self._expiry.tell_waiting(now)
        self._completer.close_gaps(now)
        due = self._refresher.step(now)
        others = [
            self._serve_memory(now),
            *[each.step(now) for each in self._requesters],
        ]
        batches_due = self._batch_sender.step(now)
        if not self._refresher.quiet:
            due = self._refresher.step(now)  # now leaders may lack
        self._pending_failures.count_refused(now)
        self._others_quiet = all(each.quiet for each in self._requesters)
        moments = [moment for moment in (due, *others, logs.tell_due()) if moment is not None]
        self._whole_at = min(moments, default=None)
        return self._next_round(batches_due)

    def _next_round(self, batches_due: float | None) -> float | None:
        expiry = self._accumulator.next_deadline()
        late_at = self._client.next_timeout()
        if late_at is None or (expiry is not None and expiry < late_at):
            late_at = expiry
        self._late_at = late_at
        self._is_busy = expiry is not None or self._client.total_in_flight > 0
        due, whole_at = batches_due, self._whole_at
        if due is None or (whole_at is not None and whole_at < due):
            due = whole_at
        return late_at if due is None or (late_at is not None and late_at < due) else due

    def _take_completed(self, now: float) -> bool:
        """Take the completed requests; True if all of them were requests with batches."""
        only_batches = True
        for completion in self._client.take_completed():
            request = completion.request
            if type(request) is ProduceRequest:
                self._completer.take(request, completion, now)
            else:
                self._requester_of[type(request)].completed(completion, now)
                only_batches = False
        if self._pending.refused:  # before the callers look at the metrics
            self._pending_failures.count_refused(now)
        return only_batches

    def take_response(self, now: float) -> None:
        """Take a response in the callback that brought it: its records need not wait for a round.

        Otherwise each awaited record would take another iteration of the event loop. A round
        follows if it has something to do: a whole one, if settled batches leave more to do than to
        let others leave.
        """
        try:
            only_batches = self._take_completed(now)
        except BaseException as error:
            self._wakeup.fail(error)
        else:
            if (
                not only_batches
                or not self._others_quiet
                or self._accumulator.closing
                or self._accumulator.somebody_waits
                or self._completer.has_gaps
                or not self._refresher.quiet
            ):
                self._wakeup.wake()
            elif self._late_results.waiting or (
                self._batches.next_expiry < _NEVER and not self._batch_sender.quiet
            ):
                self._wakeup.stir()

    def _serve_memory(self, now: float) -> float | None:
        """Give returned memory to pending records, then to callers of ``drain()``."""
        for waited in self._pending.admit(now):
            self._metrics.buffer_waited(waited, now)
        for waited in self._pending.take_waits():
            self._metrics.record_waited(waited, now)
        return self._waiters.serve(now)

    @property
    def _finished(self) -> bool:
        """True if a producer that is closing has nothing left to do."""
        if not self._accumulator.is_empty:
            return False
        return all(each.idle for each in self._requesters)

    def give_up(self, error: ProducerError) -> int:
        """Fail every record that has no outcome. Returns their number. The memory is not reused."""
        return sum(self.giving_up(error))

    def purge(self, queued: ProducerError | None, in_flight: ProducerError | None) -> int:
        """Fail the records that wait, or those in flight: see :meth:`BatchCompleter.purge`."""
        failed = self._completer.purge(queued, in_flight, self._wakeup.clock())
        self._wakeup.wake()
        return failed

    def giving_up(self, error: ProducerError) -> Iterator[int]:
        """Fail every record that has no outcome, when :meth:`run` has ended, in steps.

        Each step yields the number of records that failed in it.
        """
        return self._completer.abort_in_slices(error, self._wakeup.clock())
