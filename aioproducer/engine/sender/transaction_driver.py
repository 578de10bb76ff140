"""The driver of a producer's transactions: it sends their requests and hands the responses back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from aioproducer.engine.accumulator import RecordAccumulator
from aioproducer.engine.client.requester import NEVER, Requester
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.sender.completer import BatchCompleter
from aioproducer.engine.transactions.group_offsets import GroupOffsets
from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    OffsetFetch,
    Reaction,
    RequestSource,
    TxnOffsetCommit,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import ProducerError, TopicRecreatedError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.backoff import ExponentialBackoff, Pace
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.model import Peer

logger = ModuleLogger(__name__)


@dataclass(slots=True, eq=False)
class _Channel:
    """The requests of one source: one in flight, and a backoff before each retry."""

    source: RequestSource
    in_flight: CoordinatorRequest | None = None
    attempts: int = 0
    """The failed attempts since the last success."""
    not_before: float = 0.0
    failure: ProducerError | None = None
    """The last failed connection to a coordinator that was reported to the source."""


class TransactionDriver(Requester):
    """Sends the requests of a producer's transactions, and the requests of group offsets.

    ``on_change`` is called when state or offsets may have changed.
    """

    requests = (
        FindCoordinator,
        InitProducerId,
        AddPartitionsToTxn,
        AddOffsetsToTxn,
        TxnOffsetCommit,
        EndTxn,
        OffsetFetch,
    )
    waits = True
    """Callers and the outcomes of batches change the states that decide about requests."""

    def __init__(
        self,
        manager: TransactionManager,
        offsets: GroupOffsets,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        completer: BatchCompleter,
        backoff: ExponentialBackoff,
        on_change: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        super().__init__(wake)
        self._manager = manager
        self._offsets = offsets
        self._accumulator = accumulator
        self._batches = accumulator.batches
        self._client = client
        self._metadata = metadata
        self._completer = completer
        self._backoff = backoff
        self._on_change = on_change
        self._transaction_channel = _Channel(manager)
        self._offsets_channel = _Channel(offsets)
        self._state_changes_seen = manager.state_changes
        manager.on_request = self._batch_waits

    @property
    def idle(self) -> bool:
        """True if no transaction is being ended."""
        ending = (TransactionState.COMMITTING, TransactionState.ABORTING)
        return self._manager.state not in ending

    def step(self, now: float) -> None:
        """Send the next requests, discard records of aborts."""
        manager = self._manager
        manager.offer(self._client.features.levels)
        discard_error = manager.discard_error
        if discard_error is not None:
            self._completer.abort(discard_error, now, manager.must_complete)
        self._report_changes()
        self.due = min(self._step_transaction(now), self._step_offsets(now))

    def _step_transaction(self, now: float) -> float:
        if self._transaction_channel.in_flight is not None:
            return NEVER
        flushed = self._accumulator.is_empty
        self._manager.complete_unknown(flushed=flushed)
        self._report_changes()
        request = self._manager.next_request(flushed=flushed)
        return NEVER if request is None else self._send(self._transaction_channel, request, now)

    def _step_offsets(self, now: float) -> float:
        request = self._offsets.next_request()
        if self._offsets_channel.in_flight is not None or request is None:
            return NEVER
        return self._send(self._offsets_channel, request, now)

    def _report_changes(self) -> None:
        if self._manager.state_changes != self._state_changes_seen:
            self._state_changes_seen = self._manager.state_changes
            self._on_change()

    def _batch_waits(self) -> None:
        """A batch may leave after the next request; a later step of the present round asks, too."""
        if self._transaction_channel.in_flight is None:
            self.due_now()

    # --- requests --------------------------------------------------------------------------

    def _send(self, channel: _Channel, request: CoordinatorRequest, now: float) -> float:
        """Send ``request`` if possible. Returns the time of the next attempt."""
        if channel.not_before > now:
            return channel.not_before
        node: Peer | None = channel.source.node_for(request)
        peers: Collection[Peer] = ()
        if node is None:
            peers = self._metadata.peers
            node = self._client.least_loaded(peers, now)
            if node is None:
                return self._client.next_chance(peers, now) or NEVER
        if not self._client.ready(node, now):
            if self._failed_anew(channel, request, node):
                channel.not_before = now + self._backoff.delay(1)
                return channel.not_before
            return self._client.not_before(node.id, now) or NEVER
        channel.in_flight = request
        channel.source.sent(request)
        self._client.send_to_any(node.id, request, peers, now)
        return NEVER

    def _failed_anew(self, channel: _Channel, request: CoordinatorRequest, node: Peer) -> bool:
        """Report a failed connection to the source. Returns True if the failure is new."""
        failure = self._client.failures().get(node.id)
        if failure is None or failure is channel.failure:
            return False
        channel.failure = failure
        channel.source.unreachable(request, failure)
        return True

    # --- responses -------------------------------------------------------------------------

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead."""
        if completion.request is self._offsets_channel.in_flight:
            self._complete(self._offsets_channel, completion, now)
            self._on_change()
            return
        request = completion.request
        producer_id = self._manager.handle.producer_id
        if self._complete(self._transaction_channel, completion, now) is Reaction.DONE:
            if isinstance(request, AddPartitionsToTxn):
                self._batches.line_up(sorted(request.partitions), now)
            if self._manager.handle.producer_id != producer_id:
                self._batches.forget_acknowledged()
            self._state_changes_seen = self._manager.state_changes
            self._on_change()
        else:
            self._report_changes()

    def _complete(self, channel: _Channel, completion: Completion, now: float) -> Reaction:
        """Hand the result of the request in flight to its source, and set the backoff."""
        assert channel.in_flight is not None
        request, channel.in_flight = channel.in_flight, None
        reaction = self._hand_over(channel.source, request, completion)
        if reaction is Reaction.DONE:
            channel.attempts = 0
        else:
            channel.attempts += 1
            pace = Pace.SOON if reaction is Reaction.RETRY_SOON else Pace.USUAL
            channel.not_before = now + self._backoff.delay(channel.attempts, pace)
        return reaction

    def _check_topic_ids(self, request: CoordinatorRequest) -> None:
        """A coordinator does not know a topic's id: it is new there, or the topic was replaced."""
        if isinstance(request, TxnOffsetCommit):
            known = self._metadata.snapshot.topics
            for topic, topic_id in request.topic_ids.items():
                if topic in known and known[topic].topic_id not in (None, topic_id):
                    self._manager.delivery_failed(
                        TopicRecreatedError(
                            f"topic {topic!r} was deleted and created again: the consumed offsets "
                            "may be those of its earlier records. Consume again from the "
                            "group's offsets"
                        )
                    )
        self._metadata.request_update()

    def _hand_over(
        self, source: RequestSource, request: CoordinatorRequest, completion: Completion
    ) -> Reaction:
        if completion.error is not None:
            return source.failed(request, completion.error)
        broker = self._metadata.describe(completion.node)
        reaction = source.handle_response(request, completion.result, broker)
        if completion.result.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
            self._check_topic_ids(request)
        if reaction is not Reaction.DONE:
            logger.debug("%s: %s: %s", source, request, completion.result)
        return reaction
