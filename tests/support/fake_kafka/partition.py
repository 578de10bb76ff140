"""A partition of the scripted Kafka: its log, and the sequence numbers of its producers.

Records are read by aiokafka's parser, not by ours.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]

OUT_OF_ORDER, INVALID_PRODUCER_EPOCH = 45, 47


class Record(NamedTuple):
    """What is in a log."""

    value: bytes | None
    key: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass
class Partition:
    """Its log and what is known of its idempotent producers."""

    leader: int
    epoch: int = 0
    log: list[Record] = field(default_factory=list)
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)
    """By producer id: its epoch; first sequence, next sequence and offset of the last five."""
    refused: int = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Error code and base offset."""
        records = MemoryRecords(bytes(data))
        batch = records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        read = [Record(r.value, r.key, r.timestamp, tuple(r.headers)) for r in batch]
        assert records.next_batch() is None
        offset = len(self.log)
        if batch.producer_id >= 0:
            epoch, known = self.producers.get(batch.producer_id, (-1, deque()))
            first = batch.base_sequence
            if batch.producer_epoch < epoch:
                self.refused += 1
                return INVALID_PRODUCER_EPOCH, -1
            if batch.producer_epoch > epoch:
                expected = 0 if known else first  # of an unknown producer any first one is taken
                known = deque(maxlen=5)
            else:
                expected = known[-1][1] if known else 0
            for earlier_first, earlier_next, earlier_offset in known:
                if (first, first + len(read)) == (earlier_first, earlier_next):
                    return 0, earlier_offset
            if first != expected:
                self.refused += 1
                return OUT_OF_ORDER, -1
            known.append((first, first + len(read), offset))
            self.producers[batch.producer_id] = (batch.producer_epoch, known)
        self.log += read
        return 0, offset

    def mark(self, producer_id: int, epoch: int) -> None:
        """A transaction has ended here; from now on the producer has ``epoch``."""
        if epoch > self.producers.get(producer_id, (-1, ()))[0]:
            self.producers[producer_id] = (epoch, deque(maxlen=5))
