"""A request in no particular version yet. No I/O."""

from __future__ import annotations

from typing import Any, Protocol

from aioproducer.engine.network.frames import EncodedPayload
from aioproducer.engine.protocol import Api


class Request(Protocol):
    """A request before its version is chosen for a broker."""

    @property
    def api(self) -> Api:
        """The API of the request."""

    @property
    def answered(self) -> bool:
        """True if the broker responds; else (``acks=0``) the request is complete once written."""

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``. Raises :class:`ProducerError` if ``version`` lacks it."""

    def read(self, response: Any) -> Any:
        """The value of a response. Pure.

        An exception for an impossible response ends its connection, and has no other effect.
        A :class:`LazyResponse` is read in steps, which end the same way.
        """
