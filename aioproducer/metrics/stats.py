"""The counts: one summary per kind of event, grouped by the place of the events.

Each number is counted once, at its topic or node. The producer's own number is the sum over its
topics or nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Self

__all__ = ["ClientStats", "NodeStats", "Stats", "Summary", "TopicStats"]


class Summary:
    """The number of values, their sum and the greatest of them."""

    __slots__ = ("_greatest", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total: float = 0
        self._greatest = -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        if value > self._greatest:
            self._greatest = value

    def absorb(self, other: Summary) -> None:
        self.count += other.count
        self.total += other.total
        if other._greatest > self._greatest:
            self._greatest = other._greatest

    @property
    def mean(self) -> float:
        """NaN without values, as Kafka's ``Avg``."""
        return self.total / self.count if self.count else math.nan

    @property
    def max(self) -> float:
        """NaN without values, as Kafka's ``Max``."""
        return self._greatest if self.count else math.nan


@dataclass(slots=True)
class Stats:
    """A struct with summaries as its only fields."""

    def absorb(self, other: Self) -> None:
        for each in fields(self):
            mine: Summary = getattr(self, each.name)
            mine.absorb(getattr(other, each.name))


@dataclass(slots=True)
class TopicStats(Stats):
    """Batches and records of one topic. One value per batch unless said otherwise."""

    records_sent: Summary = field(default_factory=Summary)
    records_retried: Summary = field(default_factory=Summary)
    """one value per retried batch"""
    records_failed: Summary = field(default_factory=Summary)
    """one value per failed batch or refused send"""
    batch_size: Summary = field(default_factory=Summary)
    """bytes as sent"""
    compression_ratio: Summary = field(default_factory=Summary)
    record_size: Summary = field(default_factory=Summary)
    """bytes of the largest record"""
    queue_time: Summary = field(default_factory=Summary)
    """seconds"""


@dataclass(slots=True)
class NodeStats(Stats):
    """Traffic with one broker, in frames of Kafka's protocol. One value per frame."""

    request_size: Summary = field(default_factory=Summary)
    """bytes"""
    response_size: Summary = field(default_factory=Summary)
    """bytes"""
    latency: Summary = field(default_factory=Summary)
    """seconds; produce requests only"""
    throttle_time: Summary = field(default_factory=Summary)
    """seconds; zeros count"""


@dataclass(slots=True)
class ClientStats(Stats):
    """Events of the producer as a whole. One value per event; times in seconds."""

    records_per_request: Summary = field(default_factory=Summary)
    batches_split: Summary = field(default_factory=Summary)
    records_dropped: Summary = field(default_factory=Summary)
    buffer_wait: Summary = field(default_factory=Summary)
    metadata_wait: Summary = field(default_factory=Summary)
    flush: Summary = field(default_factory=Summary)
    txn_init: Summary = field(default_factory=Summary)
    txn_begin: Summary = field(default_factory=Summary)
    txn_send_offsets: Summary = field(default_factory=Summary)
    txn_commit: Summary = field(default_factory=Summary)
    txn_abort: Summary = field(default_factory=Summary)
    connections_opened: Summary = field(default_factory=Summary)
    connections_closed: Summary = field(default_factory=Summary)
    logins: Summary = field(default_factory=Summary)
    logins_refused: Summary = field(default_factory=Summary)
    logins_renewed: Summary = field(default_factory=Summary)
    renewals_refused: Summary = field(default_factory=Summary)
