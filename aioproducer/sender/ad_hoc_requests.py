"""Requests on behalf of a caller that waits for the answer in a future of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from kio.static.protocol import RequestPayload

from aioproducer.cluster.metadata import Metadata
from aioproducer.errors import NetworkError, ProducerError
from aioproducer.model import Peer
from aioproducer.network.apis import Api
from aioproducer.network.client import NetworkClient
from aioproducer.network.frames import EncodedPayload
from aioproducer.network.request import Completion, Request
from aioproducer.sender.requester import Requester


class ResponseFuture(Protocol):
    """The caller's future, as far as it is used here."""

    def done(self) -> bool:
        """True if the caller gave up."""

    def set_result(self, result: Any, /) -> None:
        """Hand over the value that was read in the answer, or a :class:`ProducerError`."""


@dataclass(frozen=True, slots=True, eq=False)
class AdHocRequest:
    """A request, and the future of the caller that waits for its answer."""

    request: Request
    future: ResponseFuture
    node: Peer | None
    """The only node to ask; None: any."""
    failure: ProducerError | None
    """The last failure of ``node`` before it was asked."""
    answered: bool = True

    @property
    def api(self) -> Api:
        """The request's kind."""
        return self.request.api

    def build(self, version: int) -> RequestPayload | EncodedPayload:
        """The request in ``version``."""
        return self.request.build(version)

    def read(self, response: Any) -> Any:
        """The content of the response."""
        return self.request.read(response)

    def tell(self, answer: Any) -> None:
        """Give ``answer`` to the caller, unless it gave up."""
        if not self.future.done():
            self.future.set_result(answer)


class AdHocRequests(Requester):
    """The requests that wait for a connection; the client has the others."""

    requests = (AdHocRequest,)

    def __init__(self, client: NetworkClient, metadata: Metadata) -> None:
        self._client = client
        self._metadata = metadata
        self._waiting: list[AdHocRequest] = []

    def ask(self, request: Request, future: ResponseFuture, node: Peer | None) -> None:
        """Ask ``node``, or any, as soon as it is ready."""
        failure = None if node is None else self._client.failures().get(node.id)
        self._waiting.append(AdHocRequest(request, future, node, failure))

    def step(self, now: float) -> float | None:
        """Send the requests that can be sent. Returns when to look again by the clock alone."""
        deadline: float | None = None
        for inquiry in list(self._waiting):
            later = None if inquiry.future.done() else self._try(inquiry, now)
            if later is None:
                self._waiting.remove(inquiry)
            elif deadline is None or later < deadline:
                deadline = later
        return None if deadline == float("inf") else deadline

    def _try(self, inquiry: AdHocRequest, now: float) -> float | None:
        """Send it if that is possible. Returns when to try again.

        None: it was sent, or has an answer. Infinite: try again when woken.
        """
        peers = self._metadata.peers if inquiry.node is None else [inquiry.node]
        node = inquiry.node or self._client.least_loaded(peers, now)
        if node is not None and self._client.ready(node, now):
            self._client.send(node.id, inquiry)
            return None
        error: ProducerError | None = self._client.refusal(peers)
        if inquiry.node is not None:
            error = self._client.failures().get(inquiry.node.id)
        if error is not None and error is not inquiry.failure:
            inquiry.tell(error)
            return None
        return self._client.next_chance(peers, now) or float("inf")

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the reason that there is none."""
        inquiry: AdHocRequest = completion.request
        if isinstance(completion.error, NetworkError) and inquiry.node is None:
            self._waiting.append(inquiry)  # another broker may answer
        else:
            inquiry.tell(completion.result if completion.error is None else completion.error)

    def close(self, error: ProducerError) -> None:
        """Callers that wait get ``error``; no request is sent any more."""
        for inquiry in self._waiting:
            inquiry.tell(error)
        self._waiting.clear()
