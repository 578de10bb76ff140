"""The patterns of the program, and the two imports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.workloads import Workload

PARTITIONS: Final = 6
OURS: Final = "shim"
IMPORTS: Final = {OURS: "aioproducer.compat.aiokafka", "aiokafka": "aiokafka"}
"""The modules that the program may take ``AIOKafkaProducer`` from."""
OPTIONS: Final = {"acks": "all"}
"""The options of both, beside the brokers: the others have aiokafka's defaults."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A way to send records; ``program.py`` has a function of its name."""

    name: str
    meaning: str
    records: int
    """In a run, unless the command line says otherwise."""

    def workload(self) -> Workload:
        """The topic for the brokers, and the values and keys."""
        return Workload(
            f"shim-{self.name}", self.meaning, self.records, key_bytes=16, partitions=PARTITIONS
        )


PATTERNS: Final = {
    pattern.name: pattern
    for pattern in (
        Pattern("one", "await send_and_wait(), one record after another", 5_000),
        Pattern("tasks", "100 tasks, each await send_and_wait() again and again", 60_000),
        Pattern("gather", "await send() 1,000 times, then gather() their futures", 200_000),
        Pattern("batches", "send_batch() of 500 records to each partition in turn", 300_000),
    )
}
