"""Observers of a producer that is not there, and the spans that they make."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import Sampler

from aioproducer.config import ProducerConfig
from aioproducer.engine.observer import Observer, RecordTrace, Untraced
from aioproducer.model import RecordMetadata
from aioproducer.observability.otel.instrumentation import OtelObserver, observer_of
from aioproducer.observability.otel.options import Options
from tests.support.otel import InMemorySdk

DELIVERED = RecordMetadata("orders", 3, 42, 1_700_000_000_000, 4, 5)
LOST = RecordMetadata("orders", 3, -1, -1, -1, -1)


class StandIn:
    """A producer with the metrics that a test gives it."""

    def __init__(self, client_id: str = "tests", **groups: Any) -> None:
        self.client_id = client_id
        self.config = ProducerConfig(bootstrap_servers="localhost:9092")
        self.groups: dict[str, Any] = groups
        self.readings = 0

    def metrics(self) -> Mapping[str, Mapping[str, object]]:
        self.readings += 1
        return self.groups

    def unobserve(self, observer: Observer) -> None:
        observer.close()


class Traced(InMemorySdk):
    """An observer with an SDK of its own."""

    def __init__(self, sampler: Sampler | None = None, seed: int = 1, **options: Any) -> None:
        super().__init__(sampler)
        self.producer = StandIn()
        self.observer: OtelObserver = observer_of(
            self.producer, Options(**options), rng=random.Random(seed), **self.providers
        )

    def send(self, topic: str = "orders", **fields: Any) -> RecordTrace | Untraced:
        """The decision about a record."""
        return self.observer.record_sent(
            topic, fields.get("key"), fields.get("partition"), fields.get("headers")
        )

    def sent(self, **fields: Any) -> RecordTrace:
        """A record that is traced."""
        trace = self.send(**fields)
        assert not isinstance(trace, Untraced)
        return trace

    def delivered(self, **fields: Any) -> ReadableSpan:
        """The span of a record that was delivered."""
        self.sent(**fields).ended(DELIVERED, None)
        return self.spans()[-1]
