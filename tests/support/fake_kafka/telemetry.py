"""Telemetry at the scripted Kafka: a subscription of any kind, and what was pushed."""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from aioproducer.engine.records.encoded_batch import decompress

GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 71, 72
TELEMETRY_VERSIONS = {GET_TELEMETRY_SUBSCRIPTIONS: (0, 0), PUSH_TELEMETRY: (0, 0)}
SUBSCRIPTION_ID = 77
_MOST_BYTES = 1 << 30


@dataclass
class FakeTelemetry:
    """The subscription of all clients, the codes of the next pushes, and the accepted ones."""

    prefixes: tuple[str, ...] = ("",)
    interval_ms: int = 100
    codecs: tuple[int, ...] = (4, 3, 1, 2)
    max_bytes: int = 1_000_000
    delta: bool = True
    instance_id: uuid.UUID | None = field(default_factory=uuid.uuid4)
    codes: deque[int] = field(default_factory=deque)
    """The error codes of the next pushes."""
    pushes: list[Any] = field(default_factory=list)
    """The requests that were accepted."""

    def answer(self, api: int, body: Any) -> Any:
        """The fields of the response to a request of telemetry."""
        if api == PUSH_TELEMETRY:
            assert body.client_instance_id == self.instance_id
            code = self.codes.popleft() if self.codes else 0
            if not code:
                self.pushes.append(body)
            return {"error_code": code}
        return {
            "error_code": 0,
            "client_instance_id": self.instance_id,
            "subscription_id": SUBSCRIPTION_ID,
            "accepted_compression_types": self.codecs,
            "push_interval_ms": self.interval_ms,
            "telemetry_max_bytes": self.max_bytes,
            "delta_temporality": self.delta,
            "requested_metrics": self.prefixes,
        }

    def metrics(self) -> list[bytes]:
        """The decompressed content of the pushes."""
        return [
            bytes(decompress(push.compression_type, memoryview(push.metrics), _MOST_BYTES))
            for push in self.pushes
        ]
