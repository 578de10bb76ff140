"""The first exchange on a connection: which versions does the broker speak? No I/O.

A broker that does not know our version of ApiVersions answers with UNSUPPORTED_VERSION in the
layout of version 0, and names the versions it knows (KIP-511); some answer with the error alone.
"""

from __future__ import annotations

from typing import Any, Final

from kio.static.protocol import RequestPayload, ResponsePayload

from aioproducer.engine.network import frames
from aioproducer.engine.network.apis import (
    SUPPORTED,
    Api,
    BrokerVersions,
    Features,
    request_module,
    response_type,
)
from aioproducer.errors import Disposition, ProtocolError, explain, kafka_error

_CORRELATION_ID_BYTES: Final = 4
_ERROR_CODE_BYTES: Final = 2


class ApiVersionsHandshake:
    """Ask with :attr:`next_version`, :meth:`receive` the answer, until there is none to ask."""

    def __init__(self) -> None:
        self.next_version: int | None = SUPPORTED[Api.API_VERSIONS][1]
        self.versions = BrokerVersions(())

    def receive(self, kind: type[ResponsePayload], body: bytes) -> None:
        """Take the answer in ``body``. Raises :class:`ProtocolError`."""
        asked = self.next_version
        self.next_version = None
        first = body[_CORRELATION_ID_BYTES : _CORRELATION_ID_BYTES + _ERROR_CODE_BYTES]
        code = int.from_bytes(first, "big", signed=True)
        if asked and kafka_error(code, "").disposition is Disposition.UNSUPPORTED:
            self.next_version = self._fallback(asked, body)
            return
        response = frames.decode_response(kind, body).response
        self.versions = frames.read_response(response, _accepted)

    def _fallback(self, asked: int, body: bytes) -> int:
        try:
            response = frames.decode_response(response_type(Api.API_VERSIONS, 0), body).response
            versions = frames.read_response(response, _versions)
        except ProtocolError:
            return 0
        highest = versions.highest(Api.API_VERSIONS)
        return max(0, min(highest, asked - 1)) if highest is not None else 0


def api_versions_request(version: int, software_version: str) -> RequestPayload:
    """The request in ``version``, which names this client since version 3."""
    named = {
        "client_software_name": "aioproducer",
        "client_software_version": software_version,
    }
    module = request_module(Api.API_VERSIONS, version)
    request: RequestPayload = module.ApiVersionsRequest(**named if version >= 3 else {})
    return request


def _accepted(response: Any) -> BrokerVersions:
    """The versions of a broker that can be talked to."""
    if response.error_code:
        raise ProtocolError(
            f"answered an ApiVersions request with {explain(int(response.error_code))}"
        )
    versions = _versions(response)
    for api in SUPPORTED.keys() - {Api.API_VERSIONS}:  # that one has been spoken already
        versions.check(api)
    return versions


def _versions(response: Any) -> BrokerVersions:
    levels = {
        str(each.name): int(each.max_version_level)
        for each in getattr(response, "finalized_features", None) or ()
    }
    return BrokerVersions(
        (
            (int(each.api_key), int(each.min_version), int(each.max_version))
            for each in response.api_keys
        ),
        Features(int(getattr(response, "finalized_features_epoch", -1)), levels),
    )
