"""Requests without their response yet, or not yet written if they get none (``acks=0``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kio.static.protocol import ResponsePayload

from aioproducer.errors import ProtocolError
from aioproducer.network.frames import UsualResponse


@dataclass(slots=True)
class InFlightRequest:
    """One request on the wire. Times are the clock's seconds."""

    correlation_id: int
    response: type[ResponsePayload] | None
    """The type of the response; None: there is none (``acks=0``)."""
    context: Any
    """The sender's own object; it comes back with the response."""
    sent: float
    deadline: float
    label: str
    """Its name in messages, such as ``Produce v13``."""
    read_usual: Callable[[bytes], UsualResponse | None] | None = None
    """See :class:`~aioproducer.network.frames.EncodedPayload`."""


class InFlightRequests:
    """The requests of one connection; Kafka answers them in order."""

    def __init__(self) -> None:
        self._requests: deque[InFlightRequest] = deque()
        self._unwritten: deque[InFlightRequest] = deque()
        self.count = 0
        """The number of requests; any thread may look."""

    def __len__(self) -> int:
        return self.count

    def add(self, request: InFlightRequest) -> None:
        """``request`` was sent."""
        self.count += 1
        (self._requests if request.response else self._unwritten).append(request)

    def take_written(self) -> list[InFlightRequest]:
        """All bytes are written to the socket: take the requests that get no response."""
        if not self._unwritten:
            return []
        written = list(self._unwritten)
        self._unwritten.clear()
        self.count -= len(written)
        return written

    def complete_next(self, correlation_id: int) -> InFlightRequest:
        """Take the next request. Raises :class:`ProtocolError` if another one was answered."""
        if not self._requests:
            raise ProtocolError(
                f"a response has correlation id {correlation_id}, but no request waits"
            )
        expected = self._requests[0].correlation_id
        if correlation_id != expected:
            raise ProtocolError(
                f"a response has correlation id {correlation_id}, but {expected} was next"
            )
        self.count -= 1
        return self._requests.popleft()

    def restore(self, request: InFlightRequest) -> None:
        """Put back ``request``: its response can't be read, so it counts as unanswered."""
        self._requests.appendleft(request)
        self.count += 1

    def next_deadline(self) -> float | None:
        """The deadline of the first request; all others have a later one."""
        first = self._first
        return first.deadline if first else None

    def overdue(self, now: float) -> InFlightRequest | None:
        """The first request, if its deadline is past."""
        first = self._first
        return first if first and first.deadline <= now else None

    @property
    def _first(self) -> InFlightRequest | None:
        if not self._unwritten:
            return self._requests[0] if self._requests else None
        if not self._requests:
            return self._unwritten[0]
        return min(self._requests[0], self._unwritten[0], key=lambda request: request.deadline)

    def clear(self) -> list[InFlightRequest]:
        """Take all requests: the connection ended."""
        requests = [*self._requests, *self.take_written()]
        self._requests.clear()
        self.count = 0
        return requests
