"""The exchange with coordinators that transactions and group offsets have in common. No I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod

from aioproducer.engine.transactions.requests import (
    Coordinator,
    CoordinatorRequest,
    FindCoordinator,
    Reaction,
    Response,
)
from aioproducer.errors import KafkaError, ProducerError
from aioproducer.model import Node


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
