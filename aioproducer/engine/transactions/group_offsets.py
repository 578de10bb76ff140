"""The committed offsets of consumer groups, for a transactional producer. No I/O, no clock.

The fetches of offsets are separate from the transaction: a slow or refused fetch does not concern
the :class:`TransactionManager`, and neither waits for the other. Offsets that an open transaction
would change are waited for, so the transaction may have to end before they are known.

Source: the ``OffsetFetchResponseHandler`` of Kafka's consumer (KIP-447).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aioproducer.engine.transactions.requests import (
    CoordinatorRequest,
    FindCoordinator,
    OffsetFetch,
    Reaction,
    RequestSource,
    Response,
)
from aioproducer.errors import KafkaError, ProducerError
from aioproducer.model import OffsetAndMetadata, TopicPartition


@dataclass(slots=True, eq=False)
class PendingFetch:
    """Offsets that a caller waits for."""

    request: OffsetFetch
    offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    """None: they are not known yet."""
    error: ProducerError | None = None
    """The reason that they will not be known."""


class GroupOffsets(RequestSource):
    """The offsets that callers wait for."""

    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self._pending: list[PendingFetch] = []

    def fetch(self, group_id: str, partitions: frozenset[TopicPartition]) -> PendingFetch:
        """Fetch a group's offsets until they are known, or :meth:`give_up`."""
        pending = PendingFetch(OffsetFetch(group_id, partitions))
        self._pending.append(pending)
        return pending

    def give_up(self, pending: PendingFetch) -> None:
        """Nobody waits for ``pending`` any more; a fetch that is over stays as it is."""
        if pending in self._pending:
            self._pending.remove(pending)

    # --- requests --------------------------------------------------------------------------

    def next_request(self) -> CoordinatorRequest | None:
        """The request to send now, if any."""
        return self._with_coordinator(self._pending[0].request) if self._pending else None

    def sent(self, request: CoordinatorRequest) -> None:
        """``request`` is on its way: the next one is another caller's, as some take long."""
        served = self._served_by(request)
        self._pending.sort(key=lambda each: each in served)

    def request_failed(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """``request`` can't be sent, or was refused with ``error``."""
        for pending in self._served_by(request):
            pending.error = error
            self.give_up(pending)

    def _succeeded(self, request: CoordinatorRequest, response: Response) -> None:
        for pending in self._served_by(request):
            pending.offsets = response.offsets
            self.give_up(pending)

    def _refused(self, request: CoordinatorRequest, error: KafkaError, reaction: Reaction) -> None:
        self.request_failed(request, error)

    def _served_by(self, request: CoordinatorRequest) -> list[PendingFetch]:
        """The fetches that ``request`` was sent for."""
        if isinstance(request, FindCoordinator):
            group_id = request.coordinator.key
            return [each for each in self._pending if each.request.group_id == group_id]
        return [each for each in self._pending if each.request is request]
