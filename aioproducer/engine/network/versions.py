"""The versions that a broker speaks, and the exchange that asks for them. No I/O.

:class:`BrokerVersions` chooses the version of each request, and has the features of the cluster.
:class:`ApiVersionsHandshake` is the first exchange on a connection. A broker that does not know our
version of ApiVersions answers with UNSUPPORTED_VERSION in the layout of version 0, and names the
versions it knows (KIP-511); some only answer with the error. :class:`HangUps` is for proxies that
end the connection instead.

From version 5 on the request names the broker that the client looks for, and a broker that is
another one says so (KIP-1242). An older broker can only be asked for its cluster, by a Metadata
request without topics.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from aioproducer.engine.network import frames
from aioproducer.engine.network.frames import EncodedPayload
from aioproducer.engine.protocol import request_schema
from aioproducer.engine.protocol.apis import SUPPORTED, Api
from aioproducer.errors import (
    Disposition,
    ProtocolError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
    kafka_error,
)
from aioproducer.errors.broker import ErrorCode, explain


class Features(NamedTuple):
    """The features that the whole cluster supports (KIP-584)."""

    epoch: int = -1
    """Grows with each change; -1: the broker does not tell."""
    levels: Mapping[str, int] = {}
    """Such as ``transaction.version``."""


NO_FEATURES: Final = Features()


class BrokerVersions(dict[Api, int]):
    """The versions to speak with one broker. Source: Kafka's ``NodeApiVersions``.

    The version of a request is the highest that both sides speak. A request that they have no
    version of in common raises :class:`UnsupportedVersionError`.
    """

    def __init__(
        self, ranges: Iterable[tuple[int, int, int]], features: Features = NO_FEATURES
    ) -> None:
        super().__init__()
        self.features = features
        self._ranges = {key: (lowest, highest) for key, lowest, highest in ranges}

    @property
    def known(self) -> bool:
        """True once the broker has named its versions."""
        return bool(self._ranges)

    @property
    def by_name(self) -> dict[str, tuple[int, int]]:
        """The lowest and highest version of each request that this client makes, by its name."""
        return {api.name: self._ranges[api] for api in Api if api in self._ranges}

    def highest(self, api: Api) -> int | None:
        """The highest version that the broker supports."""
        versions = self._ranges.get(api)
        return None if versions is None else versions[1]

    @property
    def to_ask_again(self) -> int:
        """The version of ApiVersions; brokers may leave it out of their answer to it."""
        return self[Api.API_VERSIONS] if self.supports(Api.API_VERSIONS) else 0

    def supports(self, api: Api) -> bool:
        """True if there is a version that both sides speak."""
        lowest, highest = SUPPORTED[api]
        theirs = self._ranges.get(api)
        return theirs is not None and max(lowest, theirs[0]) <= min(highest, theirs[1])

    def check(self, api: Api) -> None:
        """Raise :class:`ProtocolError` if the broker names versions that no broker can have."""
        lowest, highest = self._ranges.get(api, (0, 0))
        if lowest > highest:
            raise ProtocolError(f"the broker supports {api.name} versions {lowest} to {highest}")

    def __missing__(self, api: Api) -> int:
        lowest, highest = SUPPORTED[api]
        theirs = self._ranges.get(api)
        if theirs is None:
            raise UnsupportedVersionError(
                f"the broker does not support {api.name} requests: it is too old for them, or it "
                "is of a mock cluster, which only stores and returns records"
            )
        chosen = min(highest, theirs[1])
        if chosen < max(lowest, theirs[0]):
            raise UnsupportedVersionError(
                f"the broker supports {api.name} versions {theirs[0]} to {theirs[1]}, "
                f"this client {lowest} to {highest}: a newer broker (Kafka 2.1 or "
                "later) or client is needed"
            )
        self[api] = chosen
        return chosen


_CORRELATION_ID_BYTES: Final = 4
_ERROR_CODE_BYTES: Final = 2

CHECKED: Final = 5
"""The first version in which a broker checks that it is the one that the client looks for."""
WITH_FEATURES: Final = 3
"""The first version in which a broker names the features of its cluster."""
UNCHECKED: Final = CHECKED - 1
"""The version for a broker that may be older than Kafka 4.4, which saves it a round trip."""


_Address: TypeAlias = tuple[str, int]
_LOWER: Final = (4, 3, 0)
"""The versions to try after a newer one at which the peer hung up."""
_REMEMBERED: Final = 600.0
"""Seconds; then a peer is asked with the newest version again, for it may be a newer one."""

_ANOTHER: Final = (
    "another broker now has its address, and gets nothing from this client, which asks "
    "bootstrap_servers for its brokers (metadata_cluster_check_enable)"
)
_AGAIN: Final = "it asks the client to start again from bootstrap_servers"


class BrokerIdentity(NamedTuple):
    """The broker that a connection is meant for."""

    cluster_id: str
    node_id: int

    def __str__(self) -> str:
        return f"broker {self.node_id} of cluster {self.cluster_id!r}"


class ApiVersionsHandshake:
    """Ask with :attr:`next_version`, :meth:`receive` the answer, until there is none to ask."""

    def __init__(self, first_version: int = UNCHECKED) -> None:
        self.next_version: int | None = first_version
        self.versions = BrokerVersions(())

    def receive(self, version: int, body: bytes) -> None:
        """Take the answer to a request in ``version``.

        Raises:
            RebootstrapRequiredError: the broker is not the one that the request names.
            ProtocolError: the answer can't be understood.
        """
        asked = self.next_version
        self.next_version = None
        first = body[_CORRELATION_ID_BYTES : _CORRELATION_ID_BYTES + _ERROR_CODE_BYTES]
        code = int.from_bytes(first, "big", signed=True)
        if asked and kafka_error(code, "").disposition is Disposition.UNSUPPORTED:
            self.next_version = self._fallback(asked, body)
            return
        if code == ErrorCode.REBOOTSTRAP_REQUIRED:
            raise RebootstrapRequiredError(_ANOTHER if version >= CHECKED else _AGAIN)
        response = frames.decode_response(Api.API_VERSIONS, version, body).response
        self.versions = frames.read_response(response, _accepted)

    def _fallback(self, asked: int, body: bytes) -> int:
        try:
            response = frames.decode_response(Api.API_VERSIONS, 0, body).response
            versions = frames.read_response(response, _versions)
        except ProtocolError:
            return 0
        highest = versions.highest(Api.API_VERSIONS)
        return max(0, min(highest, asked - 1)) if highest is not None else 0


class HangUps:
    """The addresses at which a peer has hung up when it was asked for its versions.

    Older proxies end the connection instead of an answer that names the versions they know. The
    next connection to the address begins with a lower version. Without version 5 the broker does
    not check that it is the one that the client looks for. Times are the clock's seconds.
    """

    def __init__(self) -> None:
        self._seen: dict[_Address, tuple[int, float, bool]] = {}
        """The version to try, the time to forget it, and True if a peer refused all of them."""

    def highest(self, address: _Address, now: float) -> int:
        """The highest version to ask the peer at ``address`` with."""
        version, until, _ = self._seen.get(address, (CHECKED, math.inf, False))
        if now < until:
            return version
        del self._seen[address]
        return CHECKED

    def hung_up(self, address: _Address, version: int, now: float) -> bool:
        """The peer hung up at ``version``. Returns True if the next one is due at once.

        If it hung up at every version, the next attempts try them in turn, one for each backoff.
        """
        *_, refused_all = self._seen.get(address, (0, 0.0, False))
        lower = next((each for each in _LOWER if each < version), CHECKED)
        self._seen[address] = lower, now + _REMEMBERED, refused_all or lower == CHECKED
        return not refused_all and lower != CHECKED

    def answered(self, address: _Address, newest: int) -> None:
        """The peer has answered: it refuses some versions at most.

        ``newest``: the newest version that it says it knows. If that is one in which brokers check
        connections, the end may have been an accident, and the next connection asks with it again.
        """
        if newest >= CHECKED:
            self._seen.pop(address, None)
        elif address in self._seen:
            version, until, _ = self._seen[address]
            self._seen[address] = version, until, False


def api_versions_request(
    version: int, software_version: str, identity: BrokerIdentity | None = None
) -> EncodedPayload:
    """The request in ``version``, which names this client since version 3.

    ``identity``: the broker that should answer; None: any.
    """
    schema = request_schema(Api.API_VERSIONS)
    cluster_id, node_id = (None, -1) if identity is None else identity
    request = schema.ApiVersionsRequest("aioproducer", software_version, cluster_id, node_id)
    return frames.encoded(Api.API_VERSIONS, version, request)


def cluster_request(version: int) -> EncodedPayload:
    """The Metadata request in ``version`` that asks for the brokers and for no topic."""
    request = request_schema(Api.METADATA).MetadataRequest(topics=[])
    return frames.encoded(Api.METADATA, version, request)


def check_cluster(cluster_id: str | None, identity: BrokerIdentity) -> None:
    """Raise :class:`RebootstrapRequiredError` if a broker of another cluster has answered."""
    if cluster_id not in (None, identity.cluster_id):
        raise RebootstrapRequiredError(_ANOTHER)


def _accepted(response: Any) -> BrokerVersions:
    """The versions of a broker that can be talked to."""
    if response.error_code:
        raise ProtocolError(f"answered an ApiVersions request with {explain(response.error_code)}")
    if not response.api_keys:
        raise ProtocolError("an ApiVersions response names no versions")
    versions = _versions(response)
    for api in SUPPORTED.keys() - {Api.API_VERSIONS}:  # that one has been spoken already
        versions.check(api)
    return versions


def _versions(response: Any) -> BrokerVersions:
    levels = {each.name: each.max_version_level for each in response.finalized_features or ()}
    return BrokerVersions(
        ((each.api_key, each.min_version, each.max_version) for each in response.api_keys),
        Features(response.finalized_features_epoch, levels),
    )
