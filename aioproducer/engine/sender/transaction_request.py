"""The network form of a request to a coordinator. No I/O.

Each request builds and reads itself (``transactions/requests.py``); here it gets its schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.transactions.requests import BuildContext, CoordinatorRequest, Response
from aioproducer.model import TransactionHandle


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A request to a coordinator, with the producer that sends it."""

    request: CoordinatorRequest
    handle: TransactionHandle
    timeout_ms: int
    """``transaction_timeout_ms``."""
    answered: bool = True

    @property
    def api(self) -> Api:
        """The request's kind."""
        return Api(self.request.api_key)

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or the highest below it that means the same.

        Raises :class:`UnsupportedVersionError` if the broker is too old for the request.
        """
        highest = self.request.highest_version(self.handle.version)
        if highest is not None:
            version = min(version, highest)
        schema = request_schema(self.api)
        context = BuildContext(schema, version, self.handle, self.timeout_ms)
        return encoded(self.api, version, self.request.build(context))

    def read(self, response: Any) -> Response:
        """The content of the response. Raises :class:`ProtocolError` if it is impossible."""
        return self.request.read(response)
