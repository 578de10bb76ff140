"""The one coroutine that sends batches, and gives them their outcomes.

Source: Kafka's ``Sender``. Its thread is a task here; its poll is a sleep until an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aioproducer import logs
from aioproducer.accumulator import RecordAccumulator
from aioproducer.client.requester import Requester
from aioproducer.client.wakeup import Wakeup
from aioproducer.errors import ProducerError
from aioproducer.metrics import ProducerMetrics
from aioproducer.network.client import NetworkClient
from aioproducer.runtime.patience import sockets_read
from aioproducer.sender.completer import BatchCompleter
from aioproducer.sender.expiry import Expiry
from aioproducer.sender.refresher import MetadataRefresher


class Sender:
    """Runs from the producer's start until every record has its outcome.

    ``requesters`` send their requests in this order, in each round.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        completer: BatchCompleter,
        expiry: Expiry,
        refresher: MetadataRefresher,
        requesters: Sequence[Requester],
        metrics: ProducerMetrics,
        wakeup: Wakeup,
    ) -> None:
        self._accumulator = accumulator
        self._pending = accumulator.pending
        self._waiters = accumulator.waiters
        self._client = client
        self._completer = completer
        self._expiry = expiry
        self._refresher = refresher
        self._requesters = requesters
        self._metrics = metrics
        self._wakeup = wakeup
        parts: Sequence[Requester] = (refresher, *requesters)
        self._requester_of = {kind: each for each in parts for kind in each.requests}
        self._is_busy = False
        """True if records or responses were waited for at the end of the last round."""
        self._late_at: float | None = None
        """No batch, pending record or connection is late before this time."""
        client.responded = self._take_response

    async def run(self) -> None:
        """Send until the accumulator is closing and empty."""
        try:
            now = self._wakeup.turn()
            while not self._finished:
                if self._late_at is not None and now >= self._late_at:
                    await sockets_read(self._client.received)
                    self._judge(now)
                deadline = self._round(now)
                if not self._finished:
                    now = await self._wakeup.wait(
                        deadline, self._late_at if self._is_busy else None
                    )
        finally:
            self._wakeup.close()
            logs.tell_due(all_of_them=True)

    def _judge(self, now: float) -> None:
        """Fail what was late at ``now``. What had arrived by then has been read."""
        self._take_completed(now)
        self._expiry.expire(now)
        self._client.poll(now)

    def _round(self, now: float) -> float | None:
        """Do one round of work. Returns the time of the next round by the clock."""
        self._take_completed(now)
        self._expiry.tell_waiting(now)
        self._completer.block_behind_gaps(now)
        due = self._refresher.step(now)
        deadline = _earliest(
            self._serve_memory(now),
            *[each.step(now) for each in self._requesters],
            due if self._refresher.quiet else self._refresher.step(now),  # now leaders may lack
        )
        self._expiry.report_refused(now)
        expiry = self._accumulator.next_deadline()
        self._late_at = _earliest(expiry, self._client.next_timeout())
        self._is_busy = expiry is not None or self._client.total_in_flight() > 0
        return _earliest(deadline, self._late_at, logs.tell_due())

    def _take_completed(self, now: float) -> None:
        for completion in self._client.take_completed():
            self._requester_of[type(completion.request)].completed(completion, now)
        self._expiry.report_refused(now)  # before the callers look at the metrics

    def _take_response(self) -> None:
        """Take a response in the callback that brought it: its records need not wait for a round.

        Otherwise each awaited record would take another iteration of the event loop. A round
        follows unless it had nothing to do.
        """
        try:
            self._take_completed(self._wakeup.clock())
        except BaseException as error:
            self._wakeup.fail(error)
        else:
            if not self._is_quiet:
                self._wakeup.wake()

    @property
    def _is_quiet(self) -> bool:
        """True if a round now would do nothing, and have no earlier deadline than the last one."""
        accumulator = self._accumulator
        return (
            accumulator.is_empty
            and not accumulator.closing
            and not self._waiters.has_callers
            and not self._completer.has_gaps
            and self._refresher.quiet
            and all(each.quiet for each in self._requesters)
        )

    def _serve_memory(self, now: float) -> float | None:
        """Give returned memory to pending records, then to callers of ``drain()``."""
        for waited in self._pending.admit(now):
            self._metrics.buffer_waited(waited, now)
        for waited in self._pending.take_waits():
            self._metrics.record_waited(waited, now)
        return self._waiters.serve(now)

    @property
    def _finished(self) -> bool:
        accumulator = self._accumulator
        if not (accumulator.closing and accumulator.is_empty):
            return False
        return all(each.idle for each in self._requesters)

    def give_up(self, error: ProducerError) -> int:
        """Fail every record that has no outcome. Returns their number. The memory is not reused."""
        return sum(self.giving_up(error))

    def giving_up(self, error: ProducerError) -> Iterator[int]:
        """Fail every record that has no outcome, when :meth:`run` has ended, in steps.

        Each step yields the number of records that failed in it.
        """
        return self._completer.abort_in_slices(error, self._wakeup.clock())


def _earliest(*moments: float | None) -> float | None:
    earliest = None
    for moment in moments:
        if moment is not None and (earliest is None or moment < earliest):
            earliest = moment
    return earliest
