"""The network of a :class:`MockProducer`: requests reach the in-memory cluster in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from aioproducer.engine.client.ad_hoc_requests import AdHocRequest
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.versions import Features
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.engine.sender.produce import ProduceRequest, ProduceResults
from aioproducer.errors import ProducerError
from aioproducer.model import NodeId, Peer
from aioproducer.testing.mock_producer.cluster import InMemoryCluster
from aioproducer.testing.mock_producer.journal import Journal

_LEVELS = {"transaction.version": 2}


class InMemoryNetwork(NetworkClient):
    """In place of connections: each request is answered in a later iteration of the event loop.

    The batches of a produce request are answered one by one, in any order. ``parts`` are the
    arguments of :class:`NetworkClient`.
    """

    def __init__(self, cluster: InMemoryCluster, journal: Journal, *parts: Any) -> None:
        super().__init__(*parts)
        self.features = Features(0, _LEVELS)
        self._cluster = cluster
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._reached: dict[NodeId, tuple[Peer, float]] = {}
        """The peers, and the times of their first requests."""
        self._unanswered: Counter[NodeId] = Counter()

    # --- state -----------------------------------------------------------------------------

    def in_flight(self, node: NodeId) -> int:
        """The number of requests that wait for a response of ``node``."""
        return self._unanswered[node]

    async def prepare(self) -> None:
        """The files of TLS are not read: there are no connections."""

    def reaches(self, nodes: Iterable[Peer]) -> bool:
        """True if the producer is open."""
        return not self._closed

    def supporting(self, api: Api, nodes: Iterable[Peer]) -> list[NodeId]:
        """None of ``nodes``: the only caller asks for the APIs of telemetry."""
        return []

    def connection_count(self) -> int:
        """The number of reached peers."""
        return len(self._reached)

    def can_send(self, node: NodeId, now: float) -> bool:
        """True as long as the producer is open: requests in flight are not limited."""
        return not self._closed

    def ready(self, node: Peer, now: float) -> bool:
        """True as long as the producer is open."""
        if self._closed:
            return False
        if node.id not in self._reached:
            self._reached[node.id] = node, now
            self.connections_opened += 1
            self.metrics.connection_opened(now)
        return True

    def connections(self) -> list[ConnectionView]:
        """The connection of each reached peer."""
        return [
            ConnectionView(
                node,
                peer,
                is_ready=not self._closed,
                is_connecting=False,
                since=since,
                failing_since=None,
                retry_at=0.0,
                is_refused=False,
                error=None,
                throttled_until=0.0,
                in_flight=self._unanswered[node],
                reachable_since=since,
            )
            for node, (peer, since) in tuple(self._reached.items())
        ]

    def versions(self) -> dict[str, tuple[int, int]]:
        """The versions of requests: all that the producer speaks."""
        return {api.name: versions for api, versions in SUPPORTED.items()}

    def close(self) -> None:
        """Answer no more requests."""
        self._closed = True
        self._unanswered.clear()
        self.total_in_flight = 0

    # --- requests --------------------------------------------------------------------------

    def send(self, node: NodeId, request: Any, now: float) -> None:
        """Take a request to the cluster."""
        if isinstance(request, ProduceRequest):
            for batch, data in request.batches:
                self.metrics.request_sent(node, len(data), now)
                self._count(node)
                ids, transaction = request.topic_ids, request.transaction
                part = ProduceRequest(
                    [(batch, data)], request.acks, request.timeout_ms, ids, transaction
                )
                self._journal.arrived(
                    batch.builder.tokens[0],
                    partial(self._answer_soon, node, part, now),
                    at_once=not request.answered,
                )
        else:
            self.metrics.request_sent(node, 0, now)
            self._count(node)
            self._loop.call_soon(self._respond, node, request, now)

    def send_to_any(self, node: NodeId, request: Any, peers: object, now: float) -> None:
        """Send to the node: no peer is slow."""
        self.send(node, request, now)

    def _count(self, node: NodeId) -> None:
        self._unanswered[node] += 1
        self.total_in_flight += 1

    def _respond(self, node: NodeId, request: Any, sent: float) -> None:
        if self._closed:
            return
        asked = request.request if isinstance(request, AdHocRequest) else request
        try:
            result, error = self._cluster.respond(asked), None
        except ProducerError as refused:
            result, error = None, refused
        self._complete_request(node, request, result, error, sent)

    def _answer_soon(
        self, node: NodeId, request: ProduceRequest, sent: float, error: ProducerError | None
    ) -> None:
        self._loop.call_soon(self._answer, node, request, sent, error)

    def _answer(
        self, node: NodeId, request: ProduceRequest, sent: float, error: ProducerError | None
    ) -> None:
        """Answer the request of one record: deliver it, or fail it for good with ``error``."""
        if self._closed:
            return
        [(batch, _)] = request.batches
        result = ProduceResults({}, {}, {})
        if error is not None:
            batch.deadline = sent  # it is past, so no error of any kind is retried
        elif not batch.done:
            number, original = self._journal.number_of(batch.builder.tokens[0])
            result = ProduceResults({batch: self._cluster.write(batch, number, original)}, {}, {})
        self._complete_request(node, request, result if request.answered else None, error, sent)

    def _complete_request(
        self, node: NodeId, request: Any, result: Any, error: ProducerError | None, sent: float
    ) -> None:
        now = self.clock()
        self._unanswered[node] -= 1
        self.total_in_flight -= 1
        produce = isinstance(request, ProduceRequest)
        times = (now - sent, now - sent) if produce else (None, None)
        if request.answered:
            self.metrics.response_received(node, 0, None, now, *times)
        self.completed.append(Completion(request, node, result, error, now - sent))
        self.responded(now)
