"""The counts: a number or a summary per kind of event, grouped by the place of the events.

Each number is counted once, at its topic, at its node or at the producer. The producer's number is
the sum over its topics or nodes, if they have it. There may be thousands of topics, so their counts
are numbers in one object.
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
    """A struct with numbers and summaries as its only fields."""

    def absorb(self, other: Self) -> None:
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Summary):
                mine.absorb(more)
            else:
                setattr(self, each.name, mine + more)


@dataclass(slots=True)
class TopicStats(Stats):
    """Batches and records of one topic."""

    batches_sent: int = 0
    records_sent: int = 0
    records_retried: int = 0
    records_failed: int = 0
    bytes_sent: int = 0
    compression_ratios: float = 0.0
    """the sum over the batches sent"""

    @property
    def compression_ratio(self) -> float:
        """The mean over the batches sent; NaN without batches."""
        return self.compression_ratios / self.batches_sent if self.batches_sent else math.nan


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

    batch_size: Summary = field(default_factory=Summary)
    """bytes as sent"""
    record_size: Summary = field(default_factory=Summary)
    """bytes of the largest record of a batch"""
    queue_time: Summary = field(default_factory=Summary)
    """one value per batch sent"""
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
