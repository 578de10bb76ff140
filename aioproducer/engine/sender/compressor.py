"""The compression of batches, on the event loop or in a thread, and each topic's estimate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.records.builder import Buffer, frame_batch
from aioproducer.engine.records.compression import Compression, CompressionRatios
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.tasks import TaskOwner


class Compressor:
    """Compresses batches, and estimates the size of the next ones.

    ``elsewhere`` runs a call off the event loop.
    """

    def __init__(
        self,
        compression: Compression | None,
        owner: TaskOwner,
        elsewhere: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._compression = compression
        self.compresses = compression is not None
        """False: batches leave as they are."""
        self._owner = owner
        self._elsewhere = elsewhere
        self._ratios = CompressionRatios()

    # --- batches -----------------------------------------------------------------------------

    def is_much(self, batches: Sequence[ProducerBatch]) -> bool:
        """True if the compression of ``batches`` would hold the event loop for too long."""
        size = sum(batch.size for batch in batches if batch.compressed is None)
        return size > tuning.COMPRESS_ELSEWHERE_BYTES

    def compress(self, batches: Sequence[ProducerBatch]) -> None:
        """Compress ``batches`` here and now."""
        for batch in batches:
            if not batch.done:
                batch.compress(self._compression)

    def compress_elsewhere(
        self, batches: Sequence[ProducerBatch], name: str, then: Callable[[], None]
    ) -> None:
        """Compress ``batches`` in a thread, in the task ``name``; call ``then`` afterwards."""
        self._owner.start(self._compress_elsewhere(batches, then), name=name)

    async def _compress_elsewhere(
        self, batches: Sequence[ProducerBatch], then: Callable[[], None]
    ) -> None:
        for batch in batches:
            batch.lent = True
        await self._elsewhere(lambda: self.compress(batches))
        for batch in batches:
            batch.lent = False
        then()

    def encode(self, batch: ProducerBatch) -> Buffer:
        """The bytes of ``batch`` in a request; the estimate of its topic learns from their size.

        It learns again from a batch that is sent again, as Java's does: ``ProducerBatch.close`` is
        called whenever one is drained.
        """
        data = frame_batch(batch.builder, batch.state, self._compression, batch.compressed)
        self._ratios.observe(batch.topic_partition.topic, len(data) / batch.size)
        return data

    # --- topics ------------------------------------------------------------------------------

    def expansion(self, topic: str) -> float:
        """The estimated ratio of a topic's bytes before compression to its bytes on the wire."""
        if self._compression is None:
            return 1.0
        return max(1.0, 1.0 / self._ratios.estimate(topic))

    def came_out_too_large(self, batch: ProducerBatch) -> None:
        """Correct the estimate of a topic by ``batch``, which the broker refused as too large."""
        self._ratios.reset(batch.topic_partition.topic, batch.compression_ratio)

    def forget(self, topic: str) -> None:
        """Drop the estimate of a topic that is no longer written to."""
        self._ratios.forget(topic)
