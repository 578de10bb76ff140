"""The requester of a producer id for an idempotent producer without transactions."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aioproducer.engine.accumulator import RecordAccumulator
from aioproducer.engine.client.requester import NEVER, Requester
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.engine.sender.completer import BatchCompleter
from aioproducer.engine.transactions.sequence_numbers import ProducerIdState, SequenceNumbers
from aioproducer.errors import ProducerError, ProtocolError, explain, kafka_error
from aioproducer.foundation.logs import RoomLogger

logger = RoomLogger(__name__)

_NO_OWN_TIMEOUT: Final = 2**31 - 1


class AssignedIdentity(NamedTuple):
    """The response to a request for a producer id."""

    error_code: int
    producer_id: int
    epoch: int


class InitProducerIdRequest(SchemaRequest):
    """Request a producer id and epoch (KIP-98)."""

    api = Api.INIT_PRODUCER_ID

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_OWN_TIMEOUT
        )

    def read(self, response: Any) -> AssignedIdentity:
        """The content of the response. Raises :class:`ProtocolError` for an impossible id."""
        code = response.error_code
        if code:
            return AssignedIdentity(code, -1, -1)
        identity = AssignedIdentity(code, response.producer_id, response.producer_epoch)
        if min(identity) < 0:
            raise ProtocolError(
                f"producer id {identity.producer_id}, epoch {identity.epoch} can't be assigned"
            )
        return identity


class ProducerIdRequester(Requester):
    """One request at a time, to the least loaded broker. ``retry_backoff``: seconds."""

    requests = (InitProducerIdRequest,)

    def __init__(
        self,
        sequence_numbers: SequenceNumbers,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        completer: BatchCompleter,
        retry_backoff: float,
        wake: Callable[[], None],
    ) -> None:
        super().__init__(wake)
        sequence_numbers.on_need = self.due_now
        self._sequence_numbers = sequence_numbers
        self._batches = accumulator.batches
        self._client = client
        self._metadata = metadata
        self._completer = completer
        self._retry_backoff = retry_backoff
        self._not_before = 0.0
        self._failures_seen: list[ProducerError] = []

    def step(self, now: float) -> None:
        """Send a request if one is needed: the next batch needs it, at the latest."""
        numbers = self._sequence_numbers
        self.due = NEVER
        self.waits = numbers.state is ProducerIdState.NEEDED
        if not self.waits or not self._batches:
            return
        if self._not_before > now:
            self.due = self._not_before
            return
        peers = self._metadata.peers
        brokers = self._metadata.snapshot.brokers
        for number in self._batches.backlogs.nodes():
            if number in brokers:  # its connection is for the batches as well
                self._client.ready(brokers[number], now)
        node = self._client.least_loaded(peers, now)
        self._doubt_addresses()
        if node is None:
            self.due = self._client.next_chance(peers, now) or NEVER
        elif self._client.ready(node, now):
            numbers.requested()
            self.waits = False
            self._client.send_to_any(node.id, InitProducerIdRequest(), peers, now)

    def _doubt_addresses(self) -> None:
        """Request metadata if a broker can't be reached: its address may be out of date."""
        brokers, failures = self._metadata.snapshot.brokers, self._client.failures()
        found = [failures[number] for number in brokers if number in failures]
        if found and found != self._failures_seen:
            self._metadata.request_update()
        self._failures_seen = found

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead."""
        error = completion.error
        assigned: AssignedIdentity | None = completion.result
        if assigned is not None:
            code = assigned.error_code
            if not code and assigned.producer_id in self._sequence_numbers.former:
                # This cluster may have written batches with this id, as those of the former one.
                self._sequence_numbers.refused()
                self._not_before = now + self._retry_backoff
                return
            if not code:
                self._sequence_numbers.assigned(assigned.producer_id, assigned.epoch)
                logger.info(
                    "Producer id %d with epoch %d was assigned",
                    assigned.producer_id,
                    assigned.epoch,
                    producer_id=assigned.producer_id,
                    epoch=assigned.epoch,
                )
                return
            error = kafka_error(code, f"no producer id: {explain(code)}")
        self._sequence_numbers.refused()
        self._not_before = now + self._retry_backoff
        if error is not None and not error.retriable:
            logger.error("No producer id was assigned: %s", error, error=error)
            self._completer.abort(error, now)
