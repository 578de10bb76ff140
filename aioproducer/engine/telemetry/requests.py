"""The two requests of telemetry (KIP-714). No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.telemetry.metric_names import MetricGroups, producer_groups, selected
from aioproducer.engine.telemetry.subscription import (
    DEFAULT_INTERVAL,
    Subscription,
    SubscriptionResponse,
)

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["GetTelemetrySubscriptionsRequest", "PushTelemetryRequest"]

_SHORTEST_INTERVAL: Final = 0.1
"""Seconds; Kafka's brokers accept no less in their configuration."""
_DEFAULT_MAX_BYTES: Final = 1024 * 1024
"""Kafka's default of ``telemetry.max.bytes``."""
_MOST_PREFIXES: Final = 10_000
_MOST_CODECS: Final = 16
"""More is damage; the rest is not looked at."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GetTelemetrySubscriptionsRequest:
    """Ask for the subscription of this client."""

    client_instance_id: UUID | None
    """None: the broker assigns one."""
    groups: Callable[[], MetricGroups] = producer_groups
    """The metrics that the client has."""
    api: Api = Api.GET_TELEMETRY_SUBSCRIPTIONS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.GET_TELEMETRY_SUBSCRIPTIONS)
        request = schema.GetTelemetrySubscriptionsRequest(
            client_instance_id=self.client_instance_id
        )
        return encoded(Api.GET_TELEMETRY_SUBSCRIPTIONS, version, request)

    def read(self, response: Any) -> SubscriptionResponse:
        """The content of the response. Impossible values have no effect but on telemetry."""
        interval = response.push_interval_ms / 1000
        max_bytes = response.telemetry_max_bytes
        return SubscriptionResponse(
            response.error_code,
            response.client_instance_id,
            Subscription(
                response.subscription_id,
                max(interval, _SHORTEST_INTERVAL) if interval > 0 else DEFAULT_INTERVAL,
                response.accepted_compression_types[:_MOST_CODECS],
                max_bytes if max_bytes > 0 else _DEFAULT_MAX_BYTES,
                response.delta_temporality,
                selected(response.requested_metrics[:_MOST_PREFIXES], self.groups()),
            ),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PushTelemetryRequest:
    """Push metrics. The response is an error code."""

    client_instance_id: UUID
    subscription_id: int
    terminating: bool
    """True: this is the last push of the client."""
    compression_id: int
    metrics: bytes
    """OTLP's ``MetricsData``, compressed."""
    api: Api = Api.PUSH_TELEMETRY
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.PUSH_TELEMETRY)
        request = schema.PushTelemetryRequest(
            client_instance_id=self.client_instance_id,
            subscription_id=self.subscription_id,
            terminating=self.terminating,
            compression_type=self.compression_id,
            metrics=self.metrics,
        )
        return encoded(Api.PUSH_TELEMETRY, version, request)

    def read(self, response: Any) -> int:
        """The error code of the response; 0: the broker has taken the metrics."""
        return int(response.error_code)
