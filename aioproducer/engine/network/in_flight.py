# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""Requests without their response yet, or not yet written if they get none (``acks=0``).

``Exchange.takes`` keeps their number within the limit, and :mod:`timeouts` ends those that are
overdue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aioproducer.errors import ProtocolError

if TYPE_CHECKING:
    from aioproducer.engine.network.frames import RequestForm, UsualResponse
    from aioproducer.engine.protocol import Api
    from aioproducer.errors import ProducerError
    from aioproducer.model import NodeId


class Completion:
    """The end of a request: a result or an error.

    ``result``: the value of the response by :meth:`Request.read`; None: there is no response.
    ``latency``: seconds from sending to the response.
    """

    __slots__ = ("error", "latency", "node", "request", "result")

    def __init__(
        self,
        request: Any,
        node: NodeId,
        result: Any,
        error: ProducerError | None,
        latency: float,
    ) -> None:
        self.request = request
        self.node = node
        self.result = result
        self.error = error
        self.latency = latency


class InFlightRequest(Completion):
    """One request on the wire, until it is the completion of itself. Times are clock seconds.

    ``read_usual``: see :class:`~aioproducer.engine.network.frames.EncodedPayload`.
    """

    __slots__ = ("answered", "correlation_id", "deadline", "form", "read_usual", "sent")

    def __init__(
        self,
        request: Any,
        node: NodeId,
        correlation_id: int,
        form: RequestForm,
        sent: float,
        deadline: float,
        read_usual: Callable[[bytes], UsualResponse | None] | None = None,
        answered: bool = True,
    ) -> None:
        Completion.__init__(self, request, node, None, None, 0.0)
        self.correlation_id = correlation_id
        self.form = form
        self.sent = sent
        self.deadline = deadline
        self.read_usual = read_usual
        self.answered = answered
        """False: there is no response (``acks=0``)."""


class InFlightRequests(deque[InFlightRequest]):
    """The requests of one connection, in the order in which they were sent.

    Kafka answers them in order, so the next response belongs to the first one; any thread may ask
    for their number, which :meth:`NetworkClient.can_send` limits.
    """

    def take_written(self) -> list[InFlightRequest]:
        """All bytes are written to the socket: take the requests that get no response."""
        written = [each for each in self if not each.answered]
        if written:
            waiting = [each for each in self if each.answered]
            self.clear()
            self.extend(waiting)
        return written

    def take(self, correlation_id: int) -> InFlightRequest:
        """Take the next request. Raises :class:`ProtocolError` if another one was answered."""
        waiting = ((at, each) for at, each in enumerate(self) if each.answered)
        at, expected = next(waiting, (0, None))
        if expected is None:
            raise ProtocolError(
                f"a response has correlation id {correlation_id}, but no request waits"
            )
        if correlation_id != expected.correlation_id:
            raise ProtocolError(
                f"a response has correlation id {correlation_id}, "
                f"but {expected.correlation_id} was next"
            )
        del self[at]
        return expected

    def awaited(self) -> tuple[Api | None, bool]:
        """The API of the next response, None if there is none; True: no caller waits for it."""
        for each in self:
            if each.answered:
                return each.form.api, each.request is None
        return None, True

    def take_all(self) -> list[InFlightRequest]:
        """Take all requests: the connection ended."""
        requests = list(self)
        self.clear()
        return requests

    def next_deadline(self) -> float | None:
        """The deadline of the first request; all others have a later one."""
        return self[0].deadline if self else None

    def overdue(self, now: float) -> InFlightRequest | None:
        """The first request, if its deadline is past."""
        return self[0] if self and self[0].deadline <= now else None
