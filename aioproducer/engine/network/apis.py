"""The requests of the clients, the versions we speak, and what a broker answers to.

Every message is kio's, loaded by name and version when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer.errors import ProtocolError, UnsupportedVersionError

if TYPE_CHECKING:
    from kio.static.protocol import ResponsePayload


class Api(IntEnum):
    """Kafka's numbers of the requests."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    INCREMENTAL_ALTER_CONFIGS = 44
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72


SUPPORTED: Final[Mapping[Api, tuple[int, int]]] = {
    Api.PRODUCE: (7, 13),
    Api.METADATA: (4, 13),
    Api.SASL_HANDSHAKE: (1, 1),  # version 0 is for tokens without Kafka's framing
    Api.API_VERSIONS: (0, 4),
    Api.FIND_COORDINATOR: (1, 6),
    Api.INIT_PRODUCER_ID: (0, 5),
    Api.ADD_PARTITIONS_TO_TXN: (0, 3),  # later ones are for brokers
    Api.ADD_OFFSETS_TO_TXN: (0, 4),
    Api.END_TXN: (0, 5),
    Api.TXN_OFFSET_COMMIT: (0, 5),
    Api.SASL_AUTHENTICATE: (0, 2),  # from 1 on with the session's lifetime (KIP-368)
    Api.OFFSET_FETCH: (7, 8),  # from 7 on without open transactions; later ones are for members
    Api.FETCH: (4, 17),  # from 4 on with the index of aborted transactions
    Api.LIST_OFFSETS: (2, 10),  # from 2 on with the isolation level
    Api.OFFSET_FOR_LEADER_EPOCH: (3, 4),  # from 3 on for clients
    Api.CREATE_TOPICS: (2, 7),
    Api.DELETE_TOPICS: (1, 6),
    Api.DELETE_RECORDS: (0, 2),
    Api.CREATE_PARTITIONS: (0, 3),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.LIST_GROUPS: (0, 5),
    Api.DESCRIBE_GROUPS: (0, 6),
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    Api.PUSH_TELEMETRY: (0, 0),
}
"""The lowest and highest version of each request that this client can express."""


class Features(NamedTuple):
    """The features that the whole cluster supports (KIP-584)."""

    epoch: int = -1
    """Grows with each change; -1: the broker does not tell."""
    levels: Mapping[str, int] = {}
    """Such as ``transaction.version``."""

    @property
    def transaction_version(self) -> int:
        """Of the protocol between producers and coordinators (KIP-890): 1 or 2."""
        return 2 if self.levels.get("transaction.version", 0) >= 2 else 1


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
            raise UnsupportedVersionError(f"the broker does not support {api.name} requests")
        chosen = min(highest, theirs[1])
        if chosen < max(lowest, theirs[0]):
            raise UnsupportedVersionError(
                f"the broker supports {api.name} versions {theirs[0]} to {theirs[1]}, "
                f"this client {lowest} to {highest}: a newer broker (Kafka 2.1 or "
                "later) or client is needed"
            )
        self[api] = chosen
        return chosen


@cache
def request_module(api: Api, version: int) -> ModuleType:
    """kio's module with the request and its parts."""
    return import_module(f"kio.schema.{api.name.lower()}.v{version}.request")


@cache
def response_type(api: Api, version: int) -> type[ResponsePayload]:
    """kio's class of the response."""
    module = import_module(f"kio.schema.{api.name.lower()}.v{version}.response")
    name = "".join(word.capitalize() for word in api.name.split("_"))
    kind: type[ResponsePayload] = getattr(module, f"{name}Response")
    return kind
