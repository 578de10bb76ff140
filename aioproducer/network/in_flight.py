"""Requests that were sent and have no answer yet, or have not left yet if they get none."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from kio.static.protocol import ResponsePayload

from aioproducer.errors import ProtocolError


@dataclass(slots=True)
class InFlightRequest:
    """One request on the wire. Times are the clock's seconds."""

    correlation_id: int
    response: type[ResponsePayload] | None
    """The type of the answer; None: there will be none (``acks=0``)."""
    context: Any
    """The sender's own; it comes back with the answer."""
    sent: float
    deadline: float
    label: str
    """Its name in messages, such as ``Produce v13``."""


class InFlightRequests:
    """The requests of one connection; Kafka answers them in order."""

    def __init__(self) -> None:
        self._requests: deque[InFlightRequest] = deque()
        self._leaving: deque[InFlightRequest] = deque()

    def __len__(self) -> int:
        return len(self._requests) + len(self._leaving)

    def add(self, request: InFlightRequest) -> None:
        """``request`` was sent."""
        (self._requests if request.response else self._leaving).append(request)

    def left(self) -> list[InFlightRequest]:
        """Everything has left for the socket: take the requests that get no answer."""
        if not self._leaving:
            return []
        left = list(self._leaving)
        self._leaving.clear()
        return left

    def answered(self, correlation_id: int) -> InFlightRequest:
        """The request that was answered. Raises :class:`ProtocolError` if it is not the next."""
        if not self._requests:
            raise ProtocolError(f"a response (correlation id {correlation_id}) to no request")
        expected = self._requests[0].correlation_id
        if correlation_id != expected:
            raise ProtocolError(
                f"a response has correlation id {correlation_id}, but {expected} was next"
            )
        return self._requests.popleft()

    def restore(self, request: InFlightRequest) -> None:
        """The answer to ``request`` can't be read, so it counts as not answered."""
        self._requests.appendleft(request)

    def next_deadline(self) -> float | None:
        """When the first request times out; the others are answered, and time out, after it."""
        first = self._first
        return first.deadline if first else None

    def overdue(self, now: float) -> InFlightRequest | None:
        """The first request, if its time is over."""
        first = self._first
        return first if first and first.deadline <= now else None

    @property
    def _first(self) -> InFlightRequest | None:
        if not self._leaving:
            return self._requests[0] if self._requests else None
        if not self._requests:
            return self._leaving[0]
        return min(self._requests[0], self._leaving[0], key=lambda request: request.deadline)

    def clear(self) -> list[InFlightRequest]:
        """Take all of them: the connection is gone."""
        requests = [*self._requests, *self.left()]
        self._requests.clear()
        return requests
