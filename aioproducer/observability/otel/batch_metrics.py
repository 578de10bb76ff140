"""The client metrics of the semantic conventions: one value for each batch."""

from __future__ import annotations

from typing import Final, NamedTuple

from opentelemetry.metrics import Counter, Histogram, Meter

from aioproducer.engine.observer import BatchOutcome
from aioproducer.model import Node
from aioproducer.observability.otel.conventions import (
    DESTINATION,
    ERROR_TYPE,
    OPERATION,
    PARTITION,
    Attributes,
    add_server,
    error_type,
)

__all__ = ["BatchInstruments", "BatchMetrics"]

_BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_MOST_CACHED: Final = 10_000


class BatchInstruments(NamedTuple):
    """The instruments that all producers of a meter share."""

    durations: tuple[Histogram, ...]
    messages: tuple[Counter, ...]

    @classmethod
    def of(cls, meter: Meter, *, old: bool) -> BatchInstruments:
        """Make the instruments; ``old``: those of version 1.24 as well."""
        durations = ["messaging.client.operation.duration"]
        messages = ["messaging.client.sent.messages"]
        if old:
            durations.append("messaging.publish.duration")
            messages.append("messaging.publish.messages")
        return cls(
            tuple(
                meter.create_histogram(
                    name,
                    unit="s",
                    description="Time from the first record of a batch to its outcome.",
                    explicit_bucket_boundaries_advisory=_BOUNDARIES,
                )
                for name in durations
            ),
            tuple(
                meter.create_counter(
                    name,
                    unit="{message}",
                    description="Number of messages producer attempted to send to the broker.",
                )
                for name in messages
            ),
        )


class BatchMetrics:
    """Counts the batches of one producer, with names for ``max_topics`` topics at most."""

    def __init__(self, instruments: BatchInstruments, max_topics: int) -> None:
        self._instruments = instruments
        self._max_topics = max_topics
        self._topics: set[str] = set()
        self._cache: dict[tuple[object, ...], Attributes] = {}

    def count(self, outcome: BatchOutcome, node: Node | None) -> None:
        """Count a batch; ``node``: the broker of its last attempt, if its address is known."""
        error = None if outcome.error is None else error_type(outcome.error)
        key = (*outcome.topic_partition, node, error)
        attributes = self._cache.get(key)
        if attributes is None:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            attributes = self._cache[key] = self._attributes(outcome, node, error)
        for duration in self._instruments.durations:
            duration.record(outcome.seconds, attributes)
        if outcome.node == -1:
            return  # never sent: not a message that the producer attempted to send
        for messages in self._instruments.messages:
            messages.add(outcome.records, attributes)

    def _attributes(
        self, outcome: BatchOutcome, node: Node | None, error: str | None
    ) -> Attributes:
        attributes = dict(OPERATION)
        topic, partition = outcome.topic_partition
        if topic in self._topics or len(self._topics) < self._max_topics:
            self._topics.add(topic)
            attributes[DESTINATION] = topic
            attributes[PARTITION] = str(partition)
        add_server(attributes, node)
        if error is not None:
            attributes[ERROR_TYPE] = error
        return attributes
