"""A network without sockets: requests are kept, and the test completes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from types import SimpleNamespace
from typing import Any

from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.versions import NO_FEATURES, Features
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProducerError
from aioproducer.model import NodeId, Peer


class FakeNetwork:
    """In place of a ``NetworkClient``: every broker takes requests unless the test says no."""

    def __init__(self, metrics: ProducerMetrics, wake: Callable[[], None] = lambda: None) -> None:
        self.metrics = metrics
        self.wake = wake
        self.sent: list[tuple[NodeId, Any]] = []
        self.completed: list[Completion] = []
        self.waiting: dict[NodeId, list[Any]] = {}
        """By node, the requests without a response."""
        self.limit = 5
        """The most requests in flight to one node."""
        self.unreachable: set[NodeId] = set()
        self.reasons: dict[NodeId, ProducerError] = {}
        """The errors that :meth:`failures` returns."""
        self.asks_nobody = False
        """No broker is free for a request that any of them may answer."""
        self.connections_opened = 1
        self.supported: set[Api] = set()
        """The APIs that :meth:`supporting` finds at every node."""
        self.due: float | None = None
        """The time of the next request timeout."""
        self.features: Features = NO_FEATURES
        self.has_refused_logins = False
        self.refused: ProducerError | None = None
        self.responded: Callable[[float], None] = lambda _: None
        self.misrouted: Callable[[float], None] = lambda _: None
        self.failed: Callable[[], None] = lambda: None
        self.throttled: Callable[[Peer, float], None] = lambda _, __: None
        self.cluster_id: str | None = None
        self.ended: list[tuple[NodeId, ProducerError]] = []
        """The connections that were ended, and why."""

    def fail(self, node: NodeId, error: ProducerError) -> None:
        """Lose the connection to ``node``, which can't be reached from now on."""
        self.unreachable.add(node)
        self.reasons[node] = error
        self.failed()

    def in_flight_count(self, node: NodeId) -> int:
        return len(self.waiting.get(node, ()))

    @property
    def total_in_flight(self) -> int:
        return sum(map(len, self.waiting.values()))

    def is_producing(self, node: NodeId) -> bool:
        return any(each.api is Api.PRODUCE for each in self.waiting.get(node, ()))

    def is_producing_anywhere(self) -> bool:
        return any(map(self.is_producing, self.waiting))

    async def prepare(self) -> None:
        """There are no files."""

    def reaches(self, nodes: Iterable[Peer]) -> bool:
        return True

    def supporting(self, api: Api, nodes: Iterable[Peer]) -> list[Peer]:
        if api not in self.supported:
            return []
        return [node for node in nodes if node.id not in self.unreachable]

    def can_send(self, node: NodeId, now: float) -> bool:
        return node not in self.unreachable and self.in_flight_count(node) < self.limit

    def ready(self, node: Peer, now: float) -> bool:
        return self.can_send(node.id, now)

    def not_before(self, node: NodeId, now: float) -> float | None:
        return None

    def next_chance(self, nodes: Iterable[Peer], now: float) -> float | None:
        return None

    def least_loaded(self, nodes: Iterable[Peer], now: float) -> Peer | None:
        if self.asks_nobody:
            return None
        return next((node for node in nodes if self.can_send(node.id, now)), None)

    def refusal(self, nodes: Iterable[Peer]) -> ProducerError | None:
        return self.refused

    def failures(self) -> dict[NodeId, ProducerError]:
        return self.reasons

    def end(self, node: NodeId, reason: ProducerError) -> None:
        self.ended.append((node, reason))

    def connections(self) -> list[Any]:
        return [SimpleNamespace(node=node) for node in sorted(self.waiting, key=str)]

    def forget_except(self, nodes: Iterable[NodeId]) -> None:
        pass

    def send(self, node: NodeId, request: Any, now: float) -> None:
        self.sent.append((node, request))
        if request.answered:
            self.waiting.setdefault(node, []).append(request)
        else:
            self.completed.append(Completion(request, node, None, None, 0.0))
            self.wake()

    def send_to_any(self, node: NodeId, request: Any, peers: Collection[Peer], now: float) -> None:
        self.send(node, request, now)

    def take_completed(self) -> list[Completion]:
        completed, self.completed = self.completed, []
        return completed

    def poll(self, now: float) -> float | None:
        return self.due

    def next_timeout(self) -> float | None:
        return self.due

    def received(self) -> object:
        return 0

    def barriers(self) -> list[Any]:
        return []

    def close(self) -> None:
        pass

    # --- what the test does ----------------------------------------------------------------

    def take_sent(self, kind: type[Any] = object) -> list[tuple[NodeId, Any]]:
        """The requests of this kind that were sent since the last call."""
        found = [each for each in self.sent if isinstance(each[1], kind)]
        self.sent = [each for each in self.sent if each not in found]
        return found

    def complete(
        self, sent: tuple[NodeId, Any], result: Any = None, error: ProducerError | None = None
    ) -> None:
        """End a request with what was read from its response, or with an error."""
        node, request = sent
        if request.answered:
            self.waiting[node].remove(request)
        self.completed.append(Completion(request, node, result, error, 0.1))
