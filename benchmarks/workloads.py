"""What is sent, and in what way. Every workload stands here, once."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from benchmarks.values import json_values, keys, random_values


class Shape(StrEnum):
    """How records are handed to a client; the drivers have a method of the same name."""

    BULK = "bulk"
    """A future or callback per record, to one topic, none awaited singly."""
    ROUTED = "routed"
    """As bulk; each record has a topic of its own, and a key if there are keys."""
    FLOW = "flow"
    """As bulk; only the client's own flow control holds the sender up, which lets others run."""
    EACH_TOPIC = "each_topic"
    """One record awaited after another, each to a topic of its own."""
    TASKS = "tasks"
    """Tasks that each await one record after another."""
    SPAWN = "spawn"
    """A task for each record, so many at once."""
    SEND_MANY = "send_many"
    """The client's own way to take many values in one call."""
    SEND_COLUMNS = "send_columns"
    """The same; the values are an Arrow array already, for a client that takes one."""


class Watch(StrEnum):
    """What is measured besides costs."""

    STALLS = "stalls"
    """How late the event loop is, and how long a call of the client holds it."""
    MEMORY = "memory"
    """The memory of the process over time."""


@dataclass(frozen=True, slots=True)
class Load:
    """The records of one run."""

    topics: Sequence[str]
    """In turn, a record each."""
    values: Sequence[bytes]
    keys: Sequence[bytes] = ()
    """As many as values, or none."""
    tasks: int = 1
    """How many tasks send at the same time."""
    columns: Any = None
    """A ``pyarrow.RecordBatch`` of the values and keys, where the shape needs it."""

    @property
    def window(self) -> int:
        """How many futures a sender holds before it awaits them: nobody keeps all of them."""
        return max(_WINDOW, _WINDOW_PER_TOPIC * len(self.topics))


@dataclass(frozen=True, slots=True)
class Workload:
    """One way to send records."""

    name: str
    meaning: str
    records: int
    """How many are sent in a round, unless the command line says otherwise."""
    shape: Shape = Shape.BULK
    value_bytes: int = 100
    json: bool = False
    """Whether values are JSON, which compresses; else letters and digits by lot."""
    key_bytes: int = 0
    compression: str = "none"
    topics: int = 1
    partitions: int = 6
    """Of each topic."""
    tasks: int = 1
    watch: Watch | None = None
    rtt_ms: int = 0
    """By how much the brokers delay each answer."""
    tls: bool = False
    """Whether clients speak TLS with the brokers, which must be real ones."""
    fresh: bool = False
    """Whether the producer has sent nothing before, so that what a first record costs counts."""
    standard: bool = True
    """Whether it is measured when no workload is named."""

    def topic_names(self) -> Sequence[str]:
        """Those of this workload alone: its topics have their own number of partitions."""
        return [f"{self.name}-{number}" for number in range(self.topics)]

    def warm_up(self, records: int) -> int:
        """How many records are sent before the measured ones: metadata, connections, caches."""
        if self.fresh:
            return 0
        share = min(records, self.records // 10, _LONGEST_WARM_UP)
        return max(self.tasks, self.topics, share)

    def load(self, records: int) -> Load:
        """The same in every process: a few thousand distinct values and keys, over and over."""
        make = json_values if self.json else random_values
        values = _repeat(make(self.name, self.value_bytes), records)
        of_keys = _repeat(keys(self.name, self.key_bytes), records) if self.key_bytes else []
        columns = _columns(values, of_keys) if self.shape is Shape.SEND_COLUMNS else None
        return Load(self.topic_names(), values, of_keys, self.tasks, columns)


def _columns(values: list[bytes], of_keys: list[bytes]) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    return pyarrow.record_batch({"value": values} | ({"key": of_keys} if of_keys else {}))


_LONGEST_WARM_UP = 100_000
_WINDOW = 10_000
_WINDOW_PER_TOPIC = 20


def _repeat(distinct: Sequence[bytes], number: int) -> list[bytes]:
    repeated = [*distinct] * (number // len(distinct))
    repeated.extend(islice(distinct, number - len(repeated)))
    return repeated


_STALL = "with a heartbeat task every millisecond"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("bulk", "a future or callback per record, none awaited singly", 400_000),
        Workload("bulk_1k", "bulk, 1 KB values", 200_000, value_bytes=1_000),
        Workload("bulk_tls", "bulk, by TLS", 400_000, tls=True, standard=False),
        Workload(
            "bulk_1k_tls",
            "bulk, 1 KB values, by TLS",
            200_000,
            value_bytes=1_000,
            tls=True,
            standard=False,
        ),
        Workload(
            "tasks",
            "1,000 tasks, each awaits one record after another",
            200_000,
            Shape.TASKS,
            tasks=1_000,
        ),
        Workload("single", "one task awaits one record after another", 3_000, Shape.TASKS),
        Workload(
            "topics",
            "bulk, 5,000 topics in turn",
            200_000,
            Shape.ROUTED,
            topics=5_000,
            partitions=1,
        ),
        Workload(
            "topics_10", "bulk, 10 topics in turn", 200_000, Shape.ROUTED, topics=10, partitions=1
        ),
        Workload(
            "ten_each",
            "10 records to each of 5,000 topics, from a fresh producer",
            50_000,
            Shape.ROUTED,
            topics=5_000,
            partitions=1,
            fresh=True,
        ),
        Workload(
            "cold_topics_at_once",
            "the first record to each of 2,000 topics, all at once",
            2_000,
            Shape.ROUTED,
            topics=2_000,
            partitions=1,
            fresh=True,
        ),
        Workload(
            "cold_topics",
            "the first record to each of 2,000 topics, awaited one after the other",
            2_000,
            Shape.EACH_TOPIC,
            topics=2_000,
            partitions=1,
            fresh=True,
            standard=False,
        ),
        Workload(
            "lz4", "bulk, JSON in lz4", 300_000, value_bytes=300, json=True, compression="lz4"
        ),
        Workload(
            "zstd", "bulk, JSON in zstd", 300_000, value_bytes=300, json=True, compression="zstd"
        ),
        Workload("keyed", "bulk, 16-byte keys", 200_000, Shape.ROUTED, key_bytes=16, partitions=12),
        Workload(
            "spawn",
            "16,000 tasks at once, each awaits one record",
            160_000,
            Shape.SPAWN,
            tasks=16_000,
        ),
        Workload(
            "send_many",
            "one call for many values, the client's own batch API",
            1_000_000,
            Shape.SEND_MANY,
        ),
        Workload(
            "arrow",
            "send_many, the values in an Arrow array where the client takes one",
            1_000_000,
            Shape.SEND_COLUMNS,
        ),
        Workload("stall", f"bulk {_STALL}", 400_000, Shape.FLOW, watch=Watch.STALLS),
        Workload(
            "stall_lz4",
            f"JSON in lz4 {_STALL}",
            300_000,
            Shape.FLOW,
            value_bytes=300,
            json=True,
            compression="lz4",
            watch=Watch.STALLS,
        ),
        Workload(
            "stall_zstd",
            f"JSON in zstd {_STALL}",
            300_000,
            Shape.FLOW,
            value_bytes=300,
            json=True,
            compression="zstd",
            watch=Watch.STALLS,
        ),
        Workload(
            "memory",
            "bulk to brokers that answer 200 ms late",
            10_000_000,
            Shape.FLOW,
            watch=Watch.MEMORY,
            rtt_ms=200,
            standard=False,
        ),
        Workload(
            "bound_1k",
            "bulk_1k without a window: the client's memory is full",
            400_000,
            Shape.FLOW,
            value_bytes=1_000,
            standard=False,
        ),
        Workload(
            "far",
            "bulk without a window to brokers that answer 250 ms late",
            2_000_000,
            Shape.FLOW,
            rtt_ms=250,
            standard=False,
        ),
        Workload(
            "far_1k",
            "the same with 1 KB values",
            400_000,
            Shape.FLOW,
            value_bytes=1_000,
            rtt_ms=250,
            standard=False,
        ),
        Workload(
            "many_partitions",
            "one task awaits one record of 10 KB after another, 10,000 partitions",
            3_000,
            Shape.TASKS,
            value_bytes=10_000,
            partitions=10_000,
            standard=False,
        ),
    )
}
