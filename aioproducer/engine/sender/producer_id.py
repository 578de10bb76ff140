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
from aioproducer.errors import ProtocolError, kafka_error
from aioproducer.errors.broker import explain
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import ModuleLogger

logger = ModuleLogger(__name__)

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
    """One request at a time, to the least loaded broker."""

    requests = (InitProducerIdRequest,)

    def __init__(
        self,
        sequence_numbers: SequenceNumbers,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        completer: BatchCompleter,
        backoff: ExponentialBackoff,
        wake: Callable[[], None],
    ) -> None:
        super().__init__(wake)
        sequence_numbers.on_need = self.due_now
        self._sequence_numbers = sequence_numbers
        self._batches = accumulator.batches
        self._client = client
        self._metadata = metadata
        self._completer = completer
        self._backoff = backoff
        self._failures = 0
        """The failed attempts since the last success."""
        self._not_before = 0.0

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
        if node is None:
            self.due = self._client.next_chance(peers, now) or NEVER
        elif self._client.ready(node, now):
            numbers.requested()
            self.waits = False
            self._client.send_to_any(node.id, InitProducerIdRequest(), peers, now)

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead."""
        error = completion.error
        assigned: AssignedIdentity | None = completion.result
        if assigned is not None:
            code = assigned.error_code
            if not code and assigned.producer_id in self._sequence_numbers.former:
                # This cluster may have written batches with this id, as those of the former one.
                self._refused(now)
                return
            if not code:
                self._failures = 0
                self._sequence_numbers.assigned(assigned.producer_id, assigned.epoch)
                logger.info(
                    "Producer id %d with epoch %d was assigned",
                    assigned.producer_id,
                    assigned.epoch,
                    producer_id=assigned.producer_id,
                    epoch=assigned.epoch,
                )
                return
            error = kafka_error(
                code, f"no producer id: {explain(code, request=Api.INIT_PRODUCER_ID)}"
            )
        self._refused(now)
        if error is not None and not error.retriable:
            logger.error("No producer id was assigned: %s", error, error=error)
            self._completer.abort(error, now)

    def _refused(self, now: float) -> None:
        self._sequence_numbers.refused()
        self._failures += 1
        self._not_before = now + self._backoff.delay(self._failures)
