"""Compression ratios of the records of each topic, learnt from the batches that were sealed.

Source: Kafka's ``CompressionRatioEstimator``.
"""

from __future__ import annotations

from typing import Final

_IMPROVING_STEP: Final = 0.005
_DETERIORATING_STEP: Final = 0.05
_SAFETY_FACTOR: Final = 1.05


class CompressionRatios:
    """Estimates per topic: compressed size divided by uncompressed size, at first 1.

    An estimate gets better slowly and worse fast, so that batches seldom come out too large.
    """

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def estimate(self, topic: str) -> float:
        """The expected ratio with a margin for error."""
        return self._ratios.get(topic, 1.0) * _SAFETY_FACTOR

    def observe(self, topic: str, ratio: float) -> None:
        """Learn from a batch that was compressed to ``ratio`` of its size."""
        known = self._ratios.get(topic, 1.0)
        if ratio > known:
            self._ratios[topic] = max(known + _DETERIORATING_STEP, ratio)
        else:
            self._ratios[topic] = max(known - _IMPROVING_STEP, ratio)

    def reset(self, topic: str, ratio: float = 1.0) -> None:
        """Take ``ratio`` as the estimate, after a batch came out too large."""
        self._ratios[topic] = max(ratio, 1.0)

    def forget(self, topic: str) -> None:
        """Drop the estimate of a topic that is no longer written to."""
        self._ratios.pop(topic, None)
