"""The parts of a client that send requests of their own between the requests of others.

:class:`AdHocRequests` is the part that sends the requests of callers, each of which waits for the
response in its own future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator
from typing import Any, Final, Protocol

from aioproducer.engine.network.frames import Completion, EncodedPayload
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.request import Request
from aioproducer.engine.protocol import Api
from aioproducer.errors import NetworkError, ProducerError, ProtocolError
from aioproducer.model import Peer

NEVER: Final = float("inf")
"""The time of a step that nobody needs at present."""


class Requester:
    """A part of a client: it says when it is due, and a round of the client's task does its step.

    A round does the step of each part that is due or waits, and of every part while the client is
    closing. A response to one of its requests makes a part due, and so does a connection that opens
    or ends. For any other change there is :meth:`due_now`. ``wake`` asks for a round.
    """

    requests: tuple[type, ...] = ()
    """The classes of its requests."""

    due: float = 0.0
    """The time of its next step; 0: in the next round."""

    waits: bool = False
    """True while it needs what other parts have: its step is done in each round, too."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    @property
    def idle(self) -> bool:
        """False while there is a request to send, so that the client's task can't end."""
        return True

    def due_now(self) -> None:
        """Something has changed: do the next step at once."""
        self.due = 0.0
        self._wake()

    def step(self, now: float) -> None:
        """Send the requests that are due; set :attr:`due` and :attr:`waits`."""
        raise NotImplementedError

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead. A step follows."""
        raise NotImplementedError


# --- requests of callers -------------------------------------------------------------------------

_STEPS_AT_ONCE: Final = 200
"""Brokers, partitions and topics of a response that are read before other tasks may run. Each takes
some microseconds."""


class AdHocRequest:
    """A request, and the future of the caller that waits for its response."""

    answered = True

    def __init__(
        self,
        request: Request,
        future: asyncio.Future[Any],
        node: Peer | None,
        failure: ProducerError | None,
    ) -> None:
        self.request = request
        self.future = future
        """It gets the value that was read from the response, or a :class:`ProducerError`."""
        self.node = node
        """The only node for the request; None: any."""
        self.failure = failure
        """The last failure of ``node`` before the request."""

    @property
    def api(self) -> Api:
        """The request's kind."""
        return self.request.api

    @property
    def is_awaited(self) -> bool:
        """False if the caller gave up."""
        return not self.future.done()

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        return self.request.build(version)

    def read(self, response: Any) -> Any:
        """The content of the response."""
        return self.request.read(response)

    def resolve(self, result: Any) -> None:
        """Set ``result`` on the caller's future, unless the caller gave up."""
        if not self.future.done():
            self.future.set_result(result)


class Peers(Protocol):
    """The known part of the cluster."""

    @property
    def peers(self) -> Collection[Peer]:
        """The peers for requests that any broker can serve."""


class AdHocRequests(Requester):
    """The requests that wait for a connection; the client has the sent ones."""

    requests = (AdHocRequest,)

    def __init__(self, client: NetworkClient, cluster: Peers, wake: Callable[[], None]) -> None:
        super().__init__(wake)
        self._client = client
        self._cluster = cluster
        self._waiting: list[AdHocRequest] = []
        self._reading: dict[AdHocRequest, Generator[None, None, Any]] = {}
        """The responses that are read in steps."""

    def ask(self, request: Request, future: asyncio.Future[Any], node: Peer | None) -> None:
        """Send a request to ``node``, or any, as soon as it is ready."""
        failure = None if node is None else self._client.failures().get(node.id)
        self._waiting.append(AdHocRequest(request, future, node, failure))
        self.due_now()

    def step(self, now: float) -> None:
        """Send the requests that can be sent."""
        self.due = NEVER
        self._read_on()
        for request in list(self._waiting):
            later = None if request.future.done() else self._try(request, now)
            if later is None:
                self._waiting.remove(request)
            else:
                self.due = min(self.due, later)
        self.waits = bool(self._waiting)

    def _try(self, request: AdHocRequest, now: float) -> float | None:
        """Send the request if possible. Returns the time of the next attempt.

        None: it was sent, or has a result. Infinite: try again when woken.
        """
        peers = self._cluster.peers if request.node is None else [request.node]
        node = request.node or self._client.least_loaded(peers, now)
        if node is not None and self._client.ready(node, now):
            if request.node is None:
                self._client.send_to_any(node.id, request, peers, now)
            else:
                self._client.send(node.id, request, now)
            return None
        error: ProducerError | None = self._client.refusal(peers)
        if request.node is not None:
            error = self._client.failures().get(request.node.id)
        if error is not None and error is not request.failure:
            request.resolve(error)
            return None
        return self._client.next_chance(peers, now) or NEVER

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead."""
        request: AdHocRequest = completion.request
        if isinstance(completion.error, NetworkError) and request.node is None:
            self._waiting.append(request)  # another broker may respond
        elif isinstance(completion.result, Generator):
            self._reading[request] = completion.result
            self._read_on()
        else:
            request.resolve(completion.result if completion.error is None else completion.error)

    def _read_on(self) -> None:
        """Read some more of the first response that is read in steps."""
        if not self._reading:
            return
        request, steps = next(iter(self._reading.items()))
        self.due = 0.0
        try:
            for _ in range(0 if request.future.done() else _STEPS_AT_ONCE):
                next(steps)
        except StopIteration as end:
            request.resolve(end.value)
        except ProtocolError as error:
            if request.node is None:
                self._waiting.append(request)  # another broker may respond
            else:
                request.resolve(error)
        else:
            if not request.future.done():
                return
        del self._reading[request]

    def close(self, error: ProducerError) -> None:
        """Fail all waiting callers with ``error``; no more requests are sent."""
        for request in (*self._waiting, *self._reading):
            request.resolve(error)
        self._waiting.clear()
        self._reading.clear()
