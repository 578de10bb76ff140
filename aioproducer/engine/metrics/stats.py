"""The counts: a number or a summary per kind of event, grouped by the place of the events.

Each number is counted once, at its topic, at its node or at the producer. The producer's number is
the sum over its topics or nodes, if they have it. There may be thousands of topics, so their counts
are numbers in one object.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Self

from aioproducer.engine.metrics.latency_histogram import LatencyHistogram
from aioproducer.engine.metrics.summary import Summary

__all__ = ["ClientStats", "NodeStats", "Stats", "Summary", "TopicStats"]


@dataclass(slots=True, eq=False, repr=False)
class Stats:
    """A struct with numbers and summaries as its only fields."""

    def absorb(self, other: Self) -> None:
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Summary):
                mine.absorb(more)
            else:
                setattr(self, each.name, mine + more)


@dataclass(slots=True, eq=False, repr=False)
class TopicStats(Stats):
    """Batches and records of one topic."""

    batches_sent: int = 0
    records_sent: int = 0
    records_retried: int = 0
    records_failed: int = 0
    bytes_sent: int = 0
    compression_ratios: float = 0.0
    """the sum over the batches sent"""

    def absorb(self, other: Self) -> None:
        # Without a call in between, so that no other thread counts while these are read.
        self.batches_sent += other.batches_sent
        self.records_sent += other.records_sent
        self.records_retried += other.records_retried
        self.records_failed += other.records_failed
        self.bytes_sent += other.bytes_sent
        self.compression_ratios += other.compression_ratios

    @property
    def compression_ratio(self) -> float:
        """The mean over the batches sent; NaN without batches."""
        return self.compression_ratios / self.batches_sent if self.batches_sent else math.nan


@dataclass(slots=True, eq=False, repr=False)
class NodeStats(Stats):
    """Traffic with one broker, in frames of Kafka's protocol. One value per frame."""

    records_retried: int = 0
    records_failed: int = 0

    request_size: Summary = field(default_factory=Summary)
    """bytes"""
    response_size: Summary = field(default_factory=Summary)
    """bytes"""
    latency: Summary = field(default_factory=Summary)
    """seconds; requests with records only: produce, or fetch"""
    throttle_time: Summary = field(default_factory=Summary)
    """seconds; zeros count"""


@dataclass(slots=True, eq=False, repr=False)
class ClientStats(Stats):
    """Events of the producer as a whole. One value per event; times in seconds."""

    batch_size: Summary = field(default_factory=Summary)
    """bytes as sent"""
    record_size: Summary = field(default_factory=Summary)
    """bytes of the largest record of a batch"""
    record_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    """one value per record delivered"""
    record_wait: LatencyHistogram = field(default_factory=LatencyHistogram)
    """one value per record that waited"""
    queue_time: LatencyHistogram = field(default_factory=LatencyHistogram)
    """one value per batch sent"""
    request_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    """one value per response to a request with records: produce, or fetch"""
    broker_time: LatencyHistogram = field(default_factory=LatencyHistogram)
    """one value per produce response, if the round-trip time is known"""
    records_per_request: Summary = field(default_factory=Summary)
    batches_split: Summary = field(default_factory=Summary)
    records_dropped: Summary = field(default_factory=Summary)
    buffer_wait: Summary = field(default_factory=Summary)
    read_wait: Summary = field(default_factory=Summary)
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
