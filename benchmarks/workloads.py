"""What is sent, and in what way. Every workload stands here, once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

_DISTINCT_VALUES = 1_000


@dataclass(frozen=True, slots=True)
class Workload:
    """One way to send records; the drivers have a method of the same name."""

    name: str
    meaning: str
    records: int
    """How many are sent in a round, unless the command line says otherwise."""
    value_bytes: int = 100
    partitions: int = 6
    tasks: int = 1
    """How many tasks send at the same time."""

    def warm_up(self, records: int) -> int:
        """How many records are sent before the measured ones: metadata, connections, caches."""
        return max(self.tasks, min(records, self.records // 10))

    def values(self, records: int) -> Sequence[bytes]:
        """The same values in every process: a thousand random ones, over and over."""
        generator = random.Random(self.name)
        distinct = [generator.randbytes(self.value_bytes) for _ in range(_DISTINCT_VALUES)]
        return (distinct * (records // _DISTINCT_VALUES + 1))[:records]


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("bulk", "a future or callback per record, none awaited singly", 400_000),
        Workload(
            "tasks", "1,000 tasks, each awaits one record after another", 200_000, tasks=1_000
        ),
        Workload("single", "one task awaits one record after another", 3_000),
        Workload("send_many", "one call for many values, the client's own batch API", 400_000),
    )
}
