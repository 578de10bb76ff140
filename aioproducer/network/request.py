"""A request before it is known which version the broker speaks, and what came of it. No I/O."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from kio.static.protocol import RequestPayload

from aioproducer.errors import ProducerError
from aioproducer.model import NodeId
from aioproducer.network.apis import Api
from aioproducer.network.frames import EncodedPayload


class Request(Protocol):
    """A request before it is known which version the broker speaks."""

    @property
    def api(self) -> Api:
        """The API of the request."""

    @property
    def answered(self) -> bool:
        """True if the broker responds; else (``acks=0``) it is complete when it has left."""

    def build(self, version: int) -> RequestPayload | EncodedPayload:
        """The request in ``version``; raises a :class:`ProducerError` if that can't be."""

    def read(self, response: Any) -> Any:
        """The response as a value that can be acted on. Pure.

        Raises for a response that no broker can mean: its connection ends, and nothing else has
        happened. Metadata is read in steps (:meth:`MetadataAnswer.read`), which end the same way.
        """


class Completion(NamedTuple):
    """The end of a request: an answer, or an error."""

    request: Any
    node: NodeId
    said: Any
    """The value that the request has :meth:`~Request.read`; None: there is no response."""
    error: ProducerError | None
    latency: float
    """Seconds from sending to the answer."""
