"""The options of the accumulator, and the size of a batch that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aioproducer.accumulator.pending_records import SerializedRecord
from aioproducer.errors import RecordTooLargeError
from aioproducer.records.builder import batch_size_bound


@dataclass(frozen=True, slots=True)
class AccumulatorSettings:
    """Sizes are bytes, times are seconds."""

    memory: int
    """The memory of all batches."""
    pending_memory: int
    """The memory of all pending records."""
    kept_memory: int
    """The bytes of batch memory that must stay free while pending records borrow."""
    batch_size: int
    max_request_size: int
    linger: float | None
    """None: adaptive."""
    adaptive_linger: float
    """The longest linger of a batch while its broker is busy, if ``linger`` is None."""
    delivery_timeout: float
    one_at_a_time: bool = False
    """At most one batch of a partition is in flight: order without sequence numbers."""
    in_order: bool = True
    """Retries leave in their first order (they carry sequence numbers)."""
    ignore_keys: bool = False
    """Keyed records go to the sticky partition, like keyless ones."""
    adaptive_partitioning: bool = True
    """Keyless records go less often to partitions with more waiting batches."""
    availability_timeout: float | None = None
    """Seconds without a taken batch after which keyless records avoid a node; None: never."""


class BatchSizes:
    """Bytes of a batch before compression.

    ``expansion``: the ratio of a topic's bytes before compression to its bytes on the wire.
    """

    def __init__(self, settings: AccumulatorSettings, expansion: Callable[[str], float]) -> None:
        self._settings = settings
        self._expansion = expansion

    def full(self, topic: str) -> int:
        """Bytes that make a full batch once they are compressed."""
        size = int(self._settings.batch_size * self._expansion(topic))
        return min(size, self._settings.max_request_size, self._settings.memory)

    def checked(self, record: SerializedRecord) -> int:
        """An upper bound of the bytes of a batch with ``record`` alone.

        Raises :class:`RecordTooLargeError`.
        """
        needed = batch_size_bound(record.key, record.value, record.headers)
        for limit, option in (
            (self._settings.max_request_size, "max_request_size"),
            (self._settings.memory, "the share of buffer_memory that batches may use"),
        ):
            if needed > limit:
                raise RecordTooLargeError(
                    f"a record of {needed} bytes for topic {record.topic!r} is larger than the "
                    f"{limit} bytes of {option}: raise {option} (and the topic's "
                    "max.message.bytes), or send smaller records"
                )
        return needed
