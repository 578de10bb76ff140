"""The exchange with coordinators, and the committed offsets of consumer groups. No I/O, no clock.

Transactions and offsets share :class:`RequestSource`. The fetches of offsets are separate from the
transaction: a slow or refused fetch does not concern the :class:`TransactionManager`, and neither
waits for the other. Offsets that an open transaction would change are waited for, so the
transaction may have to end before they are known.

Source: the ``OffsetFetchResponseHandler`` of Kafka's consumer (KIP-447).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from aioproducer.engine.transactions.requests import (
    Coordinator,
    CoordinatorRequest,
    FindCoordinator,
    OffsetFetch,
    Reaction,
    Response,
)
from aioproducer.errors import KafkaError, ProducerError
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition


class RequestSource(ABC):
    """A source of requests to coordinators, which takes their responses. ``subject``: its name.

    A source names one request at a time; the ``TransactionDriver`` sends it and reports its end by
    one of :meth:`handle_response`, :meth:`response_lost` and :meth:`request_failed`.
    """

    def __init__(self, subject: str, transactional_id: str = "") -> None:
        self.last_error: ProducerError | None = None
        """The last error of a request, in its response or in place of one; None: it succeeded."""
        self.last_response_error: KafkaError | None = None
        """The error of the last response; None: it had none."""
        self._subject = subject
        self._transactional_id = transactional_id
        self._coordinators: dict[Coordinator, Node] = {}

    def __str__(self) -> str:
        return self._subject

    def node_for(self, request: CoordinatorRequest) -> Node | None:
        """The broker to send ``request`` to; None: any."""
        coordinator = request.coordinator_for(self._transactional_id)
        return None if coordinator is None else self._coordinators.get(coordinator)

    def sent(self, request: CoordinatorRequest) -> None:  # noqa: B027 (nothing to do by default)
        """``request`` is on its way."""

    def unreachable(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """The coordinator can't be reached because of ``error``: maybe there is another one."""
        self.last_error = error
        self._forget_coordinator(request)

    def response_lost(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """``request`` was sent, and ``error`` leaves open whether it was read, or will be."""
        self.unreachable(request, error)

    @abstractmethod
    def request_failed(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """``request`` can't be sent, or was refused with ``error``."""

    def handle_response(
        self, request: CoordinatorRequest, response: Response, broker: str
    ) -> Reaction:
        """Take the response of ``broker``. Returns the reaction to it."""
        error = request.error_in(response, f"{self}: ", broker)
        reaction = request.reaction_to(error)
        self.last_error = self.last_response_error = error
        if error is None:
            if isinstance(request, FindCoordinator):
                assert response.node is not None
                self._coordinators[request.coordinator] = response.node
            else:
                self._succeeded(request, response)
        elif reaction is Reaction.FIND_COORDINATOR:
            self._forget_coordinator(request)
        elif reaction not in (Reaction.RETRY, Reaction.RETRY_SOON):
            self._refused(request, error, reaction)
        return reaction

    @abstractmethod
    def _succeeded(self, request: CoordinatorRequest, response: Response) -> None:
        """A coordinator has done ``request``."""

    @abstractmethod
    def _refused(self, request: CoordinatorRequest, error: KafkaError, reaction: Reaction) -> None:
        """A coordinator has refused ``request``; ``reaction`` is ABORT, FENCED or FATAL."""

    def _with_coordinator(self, request: CoordinatorRequest) -> CoordinatorRequest:
        """``request``, or the request that has to find its coordinator first."""
        coordinator = request.coordinator_for(self._transactional_id)
        if coordinator is None or coordinator in self._coordinators:
            return request
        return FindCoordinator(coordinator)

    def _forget_coordinator(self, request: CoordinatorRequest) -> None:
        coordinator = request.coordinator_for(self._transactional_id)
        if coordinator is not None:
            self._coordinators.pop(coordinator, None)


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
