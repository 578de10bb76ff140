"""A request on its way through a broker, and the answers that it can get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.groups import GroupCoordinator
from aioproducer.testing.simulation.kafka.messages import Fields, Request
from aioproducer.testing.simulation.kafka.transaction_coordinator import TransactionCoordinator


@dataclass
class Login:
    """The user of a connection, as far as it is known."""

    required: bool = False
    mechanism: str | None = None
    """Of the login that is under way."""
    said: tuple[str, str, str] | None = None
    """Between two steps of SCRAM: the password, the nonce, and the messages so far."""
    authenticated: bool = False
    ends_at: float | None = None
    """The end of the session (KIP-368)."""


class Coordinators(NamedTuple):
    """The coordinators of all brokers."""

    transactions: TransactionCoordinator
    groups: GroupCoordinator


class Call(NamedTuple):
    """A request at a broker."""

    cluster: Cluster
    coordinators: Coordinators
    broker: int
    request: Request
    login: Login
    now: float
    injected: ErrorCode = ErrorCode.NONE
    """The error to answer with instead of doing the work."""

    @property
    def body(self) -> Any:
        """The fields of the request."""
        return self.request.body

    @property
    def version(self) -> int:
        """The version of the request."""
        return self.request.version

    def transactions_error(self, transactional_id: str) -> ErrorCode:
        """Why this broker does not answer for a transactional id."""
        return self.injected or self.coordinators.transactions.refuses(
            self.broker, transactional_id, self.now
        )

    def groups_error(self, group: str) -> ErrorCode:
        """Why this broker does not answer for a group."""
        return self.injected or self.coordinators.groups.refuses(self.broker, group, self.now)

    @property
    def now_ms(self) -> int:
        """The time in milliseconds."""
        return int(self.now * 1000)


class Parked(NamedTuple):
    """A request in purgatory. Source: ``DelayedOperation``.

    ``complete`` is tried after every change, and returns None until it can answer. At ``deadline``
    it must answer; None: other requests decide when.
    """

    complete: Callable[[float], Answer | None]
    deadline: float | None = None
    retries_at: Sequence[float] = ()
    """Times at which something changes for it, without an event of the cluster."""


class Closing(NamedTuple):
    """A response after which the broker ends the connection."""

    fields: Fields


class Silence(Enum):
    """Answers without a response."""

    UNANSWERED = "acks=0"
    CLOSED = "the broker ends the connection"


Answer: TypeAlias = Fields | Parked | Closing | Silence
Handler: TypeAlias = Callable[[Call], Answer]
