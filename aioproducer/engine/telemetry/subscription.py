"""The metrics that a broker asks for. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer.engine.telemetry.metric_names import Selection

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["DEFAULT_INTERVAL", "Subscription", "SubscriptionResponse"]

DEFAULT_INTERVAL: Final = 300.0
"""Seconds between requests if the broker names no time; Kafka's default."""


class Subscription(NamedTuple):
    """The metrics that a broker asks for, and the way that it wants them."""

    subscription_id: int
    interval: float
    """Seconds from push to push."""
    codecs: tuple[int, ...]
    """Kafka's numbers of the codecs that the broker accepts, the preferred one first."""
    max_bytes: int
    delta: bool
    """True: counts as their growth since the last push."""
    selection: Selection


class SubscriptionResponse(NamedTuple):
    """The response to the request for the subscription."""

    error_code: int
    client_instance_id: UUID | None
    """The id that the broker has assigned; None if it names none."""
    subscription: Subscription
