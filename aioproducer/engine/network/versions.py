"""The abilities of a broker: the versions of its requests, and the cluster's features. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from aioproducer.engine.protocol.apis import SUPPORTED, Api
from aioproducer.errors import ProtocolError, UnsupportedVersionError


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
