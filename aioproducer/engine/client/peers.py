"""The brokers that a client knows. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from aioproducer.model import BootstrapServer, Node, Peer


class KnownPeers:
    """The bootstrap servers, and the brokers of the cluster's newest description."""

    def __init__(self, bootstrap: Sequence[BootstrapServer]) -> None:
        self.bootstrap = tuple(bootstrap)
        self.brokers: Mapping[int, Node] = {}
        """The brokers by id; none before the first description."""

    @property
    def peers(self) -> Collection[Peer]:
        """The peers for requests that any broker can serve."""
        return self.brokers.values() or self.bootstrap

    def rebootstrap(self) -> None:
        """Begin again from the bootstrap servers: no known broker answers (KIP-899)."""
        self.brokers = {}
