# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The options of the accumulator, and the size of a batch that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from aioproducer.engine.accumulator.batch_growth import BatchGrowth
from aioproducer.engine.accumulator.pending_records import SerializedRecord
from aioproducer.engine.records.acceleration import batch_size_bound
from aioproducer.errors import RecordTooLargeError


class AccumulatorSettings(NamedTuple):
    """Sizes are bytes, times are seconds."""

    memory: int
    """The memory of all batches."""
    pending_memory: int
    """The memory of all pending records."""
    kept_memory: int
    """The bytes of batch memory that must stay free while pending records borrow."""
    batch_size: int
    """The size of every batch; if batches grow, the size of the smallest."""
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
    is_near: Callable[[int], bool] | None = None
    """Keyless records prefer the nodes for which it returns True; None: all are alike."""
    most_doublings: int = 0
    """The number of times that ``batch_size`` may double under load."""


class BatchSizes:
    """Bytes of a batch before compression.

    ``expansion``: the ratio of a topic's bytes before compression to its bytes on the wire. Batches
    of a fixed size are that much larger, so that they have the size on the wire.
    """

    def __init__(self, settings: AccumulatorSettings, expansion: Callable[[str], float]) -> None:
        self._settings = settings
        self._expansion = expansion
        self._limits: dict[str, int] = {}
        """The most bytes of a batch, for the topics whose brokers refused larger ones."""
        self.most = min(settings.max_request_size, settings.memory)
        """Bytes of the largest batch."""

    def full(self, topic: str, growth: BatchGrowth) -> int:
        """Bytes of the next full batch."""
        if self._settings.most_doublings:
            size = self._settings.batch_size << growth.doublings
            return min(size, self._limits[topic]) if topic in self._limits else size
        size = int(self._settings.batch_size * self._expansion(topic))
        return min(size, self._settings.max_request_size, self._settings.memory)

    def share(self, growth: BatchGrowth) -> int:
        """Bytes of keyless records that a partition gets before the next one is chosen."""
        return self._settings.batch_size << growth.doublings

    def filled(self, growth: BatchGrowth, records: int, short: bool) -> None:
        """A batch was full of ``records`` before it left: the next one may be larger.

        ``short``: as in :meth:`BatchGrowth.filled`.
        """
        growth.filled(records, self._settings.most_doublings, short)

    def after_refusal(self, topic: str, size: int) -> int:
        """Bytes of the parts of a batch of ``size`` bytes that its broker refused as too large.

        If batches grow, no batch of the topic is larger any more.
        """
        smallest, half = self._settings.batch_size, size // 2
        if size <= smallest:
            return half
        if not self._settings.most_doublings:
            return smallest
        self._limits[topic] = limit = max(smallest, min(half, self._limits.get(topic, half)))
        return limit

    def forget(self, topic: str) -> None:
        """Drop the limit of a topic that is no longer written to."""
        self._limits.pop(topic, None)

    def checked(self, record: SerializedRecord) -> int:
        """An upper bound for the bytes of a batch of only ``record``.

        Raises :class:`RecordTooLargeError`.
        """
        needed = batch_size_bound(record.key, record.value, record.headers)
        if needed > self.most:
            self.refuse(record, needed)
        return needed

    def refuse(self, record: SerializedRecord, needed: int) -> NoReturn:
        """Raise the error of ``record``, for which no batch is large enough."""
        limit, option = self._settings.max_request_size, "max_request_size"
        if needed <= limit:
            limit, option = self._settings.memory, "the share of buffer_memory that batches may use"
        raise RecordTooLargeError(
            f"a record of {needed} bytes for topic {record.topic!r} is larger than the "
            f"{limit} bytes of {option}: raise {option} (and the topic's "
            "max.message.bytes), or send smaller records"
        )
