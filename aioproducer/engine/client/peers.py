"""The brokers that a client knows. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from aioproducer.errors import ProducerError
from aioproducer.model import BootstrapServer, Node, NodeId, Peer


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


def why_no_answer(peers: Iterable[Peer], failures: Mapping[NodeId, ProducerError]) -> str:
    """The last error of each of ``peers``. Those with an equal reason are named together."""
    alike: dict[str, list[Peer]] = {}
    for peer in peers:
        said = str(failures.get(peer.id) or f"{peer}: no response yet")
        alike.setdefault(said.removeprefix(str(peer)), []).append(peer)
    return "; ".join(
        f"{_names(found)}{reason}" if reason.startswith((":", " ")) else reason
        for reason, found in alike.items()
    )


def _names(peers: Sequence[Peer]) -> str:
    *others, last = peers
    if not others:
        return str(last)
    noun = "bootstrap server" if isinstance(last, BootstrapServer) else "broker"
    *names, last_name = (str(each).removeprefix(f"{noun} ") for each in peers)
    return f"{noun}s {', '.join(names)} and {last_name}"
