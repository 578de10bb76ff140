"""What is read, and by whom. Every load and every client stands here, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.clients import Settings
from benchmarks.values import json_values
from benchmarks.workloads import Workload

BATCH_BYTES: Final = 65_536
"""The largest batch that the filling producer makes, before compression."""
PARTITIONS: Final = 36
"""So many that the mock cluster, which keeps 5 MiB of each, keeps every record."""
WARM_UP_PARTITIONS: Final = 2
"""Partitions that a run reads before the measured ones: metadata, connections, caches."""


@dataclass(frozen=True, slots=True)
class Load:
    """The records of one topic, all of which are read."""

    name: str
    compression: str
    value_bytes: int
    records: int
    """In the topic, unless the command line says otherwise."""
    keys: bool = False
    """Whether records have a key and two headers."""

    def workload(self) -> Workload:
        """The topic for the brokers."""
        return Workload(
            self.name,
            self.meaning,
            self.records,
            value_bytes=self.value_bytes,
            compression=self.compression,
            partitions=PARTITIONS,
        )

    @property
    def meaning(self) -> str:
        """In a few words."""
        fields = ", keys and headers" if self.keys else ""
        return f"values of {self.value_bytes:,} bytes{fields}, {self.compression}"

    def values(self) -> Sequence[bytes]:
        """Pieces of JSON, ten thousand different ones, which the records have in turn."""
        events = json_values(self.name, 300)
        if self.value_bytes <= 300:
            return [event[: self.value_bytes] for event in events]
        copies = -(-self.value_bytes // 300)
        return [
            b"".join(events[(number + each) % len(events)] for each in range(copies))[
                : self.value_bytes
            ]
            for number in range(len(events))
        ]


LOADS: Final = {
    load.name: load
    for load in (
        Load("read_100", "none", 100, 1_000_000),
        Load("read_100_lz4", "lz4", 100, 1_000_000),
        Load("read_100_zstd", "zstd", 100, 1_000_000),
        Load("read_1k", "none", 1_000, 120_000),
        Load("read_headers", "none", 100, 500_000, keys=True),
    )
}


@dataclass(frozen=True, slots=True)
class Client:
    """A way to read; its driver is the class ``driver`` of ``drivers.py``."""

    name: str
    driver: str
    settings: Settings = field(default_factory=dict)
    """Options beside the brokers."""
    uvloop: bool = False
    ours: bool = False
    groups: bool = False
    """Whether it is a member of a group, which the mock cluster does not serve."""


_CONFLUENT_TUNED: Final[Settings] = {
    # With its defaults it pauses for a second whenever 100,000 records wait to be consumed.
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_000_000,
}

CLIENTS: Final = {
    client.name: client
    for client in (
        Client("aioproducer", "Records", uvloop=True, ours=True),
        Client("aioproducer-batches", "Batches", uvloop=True, ours=True),
        Client("aioproducer-arrow", "ArrowBatches", uvloop=True, ours=True),
        Client("aioproducer-group", "Group", uvloop=True, ours=True, groups=True),
        Client("confluent", "Confluent", _CONFLUENT_TUNED),
        Client("confluent-defaults", "Confluent"),
        Client("aiokafka", "Aiokafka", uvloop=True),
    )
}
