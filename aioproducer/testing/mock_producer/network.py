"""The network of a :class:`MockProducer`: requests reach the in-memory cluster in this process.

The journal has the records without an outcome, in the order of their ``send()`` calls, and the
outcomes that a test has chosen for them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from aioproducer.engine.client.requester import AdHocRequest
from aioproducer.engine.interceptors import Interceptors
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.versions import Features
from aioproducer.engine.observer import ObservedFuture
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.engine.sender.produce import ProduceRequest, ProduceResults
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import ClientLog
from aioproducer.model import Header, NodeId, Peer, ProducerRecord, RecordMetadata
from aioproducer.testing.mock_producer.cluster import InMemoryCluster

Answer: TypeAlias = Callable[[ProducerError | None], object]
"""Answers the request of a record: None delivers it, an error fails it for good."""


@dataclass(eq=False, slots=True)
class OpenRecord:
    """A record without an outcome."""

    number: int
    """The place among all records, in the order of ``send()``."""
    original: ProducerRecord[Any, Any]
    decided: bool = False
    error: ProducerError | None = None
    """The decision, once it was made: None delivers the record."""
    armed: bool = False
    """True if ``error`` was decided before the record was sent."""
    answer: Answer | None = None
    """Set once the record is at the cluster."""


class Journal:
    """Follows each record from ``send()`` to its outcome, and takes the decisions of a test.

    ``auto_complete``: a record that no decision is about is delivered as it reaches the cluster.
    """

    def __init__(self, *, auto_complete: bool) -> None:
        self._auto_complete = auto_complete
        self._open: OrderedDict[ObservedFuture, OpenRecord] = OrderedDict()
        self._undecided: OrderedDict[ObservedFuture, OpenRecord] = OrderedDict()
        self._armed: deque[ProducerError] = deque()
        """The errors of the records that will be sent next."""
        self._sent = 0

    @property
    def pending(self) -> list[ProducerRecord[Any, Any]]:
        """The records without an outcome, as they were passed to ``send()``."""
        return [each.original for each in self._open.values()]

    def forget_errors(self) -> None:
        """Drop the errors that no record has met yet."""
        self._armed.clear()

    # --- the life of a record --------------------------------------------------------------

    def sent(self, token: ObservedFuture, original: ProducerRecord[Any, Any]) -> None:
        """A record is being sent; the call may still refuse it."""
        record = self._open[token] = OpenRecord(self._sent, original)
        self._sent += 1
        if self._armed:
            record.decided = record.armed = True
            record.error = self._armed.popleft()
        else:
            self._undecided[token] = record

    def arrived(self, token: ObservedFuture, answer: Answer, *, at_once: bool) -> None:
        """A record is at the cluster. ``at_once``: its answer is not a matter of decision."""
        record = self._open[token]
        if record.decided or self._auto_complete or at_once:
            self._undecided.pop(token, None)
            record.decided = True
            record.armed = False
            answer(None if at_once else record.error)
        else:
            record.answer = answer

    def number_of(self, token: ObservedFuture) -> tuple[int, ProducerRecord[Any, Any]]:
        """The place of a record among all, and the record as it was passed to ``send()``."""
        record = self._open[token]
        return record.number, record.original

    def ended(self, token: ObservedFuture) -> None:
        """The record has its outcome, or the call has refused it."""
        record = self._open.pop(token, None)
        self._undecided.pop(token, None)
        if record is not None and record.armed and record.error is not None:  # it was never sent
            self._armed.appendleft(record.error)

    # --- decisions -------------------------------------------------------------------------

    def decide(self, error: ProducerError | None) -> bool:
        """Decide about the oldest record without a decision; False: there is none."""
        if not self._undecided:
            return False
        _, record = self._undecided.popitem(last=False)
        record.decided, record.error = True, error
        if record.answer is not None:
            record.answer(error)
        return True

    def arm(self, error: ProducerError) -> bool:
        """Fail the oldest record without a decision, or else the next one that is sent."""
        if not self.decide(error):
            if not self._auto_complete:
                return False
            self._armed.append(error)
        return True


class JournaledInterceptors(Interceptors):
    """A producer's own interceptors, after which ``journal`` sees each record."""

    def __init__(self, journal: Journal, chain: Sequence[Any], log: ClientLog | None) -> None:
        super().__init__(chain, log)
        self._journal = journal

    def __bool__(self) -> bool:
        """True, so that no record takes the fast path."""
        return True

    def follow(
        self, future: Any, record: ProducerRecord, headers: Sequence[Header] = ()
    ) -> ObservedFuture:
        """The future of ``record``; its outcome goes to the journal, then to the interceptors."""

        def told(metadata: RecordMetadata, error: BaseException | None) -> None:
            self._journal.ended(token)
            self.on_acknowledgement(metadata, error, headers)

        token = ObservedFuture(future, record.topic, record.partition, told)
        self._journal.sent(token, record)
        return token


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
        self._producing: Counter[NodeId] = Counter()
        """The produce requests among them."""

    # --- state -----------------------------------------------------------------------------

    def is_producing(self, node: NodeId) -> bool:
        """True if a produce request waits for a response of ``node``."""
        return self._producing[node] > 0

    def is_producing_anywhere(self) -> bool:
        """True if a produce request waits for a response of any broker."""
        return self._producing.total() > 0

    async def prepare(self) -> None:
        """The files of TLS are not read: there are no connections."""

    def reaches(self, nodes: Iterable[Peer]) -> bool:
        """True if the producer is open."""
        return not self._closed

    def supporting(self, api: Api, nodes: Iterable[Peer]) -> list[Peer]:
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

    def versions(self, node: NodeId | None = None) -> dict[str, tuple[int, int]]:
        """The versions of requests: all that the producer speaks."""
        return {api.name: versions for api, versions in SUPPORTED.items()}

    def close(self) -> None:
        """Answer no more requests."""
        self._closed = True
        self._unanswered.clear()
        self._producing.clear()
        self.total_in_flight = 0

    # --- requests --------------------------------------------------------------------------

    def send(self, node: NodeId, request: Any, now: float) -> None:
        """Take a request to the cluster."""
        if isinstance(request, ProduceRequest):
            for batch, data in request.batches:
                self.metrics.request_sent(node, len(data), now)
                self._count(node)
                self._producing[node] += 1
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
        self._producing[node] -= produce
        times = (now - sent, now - sent) if produce else (None, None)
        if request.answered:
            self.metrics.response_received(node, 0, None, now, *times)
        self.completed.append(Completion(request, node, result, error, now - sent))
        self.responded(now)
