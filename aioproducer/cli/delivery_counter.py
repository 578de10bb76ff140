"""Outcomes of the records: counts, and the first errors told as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aioproducer.model import RecordMetadata

__all__ = ["DeliveryCounter"]

_ERRORS_TOLD = 5


class DeliveryCounter:
    """``tell`` gets the first errors, each distinct one once; ``on_failure`` gets the error of each
    record that failed on its way."""

    def __init__(
        self, tell: Callable[[str], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        self._tell = tell
        self._on_failure = on_failure
        self._told: set[str] = set()
        self.delivered = 0
        self.failed = 0
        self.bytes = 0
        """Keys and values of the delivered records."""

    def watch(self, future: asyncio.Future[RecordMetadata]) -> None:
        """Count the record of this future when it has its outcome."""
        future.add_done_callback(self._settled)

    def fail(self, reason: str) -> None:
        """Count a record that was not even sent, or failed on its way."""
        self.failed += 1
        if len(self._told) < _ERRORS_TOLD and reason not in self._told:
            self._told.add(reason)
            self._tell(reason)

    def arrived(self, count: int, size: int) -> None:
        """Count delivered records, with keys and values of ``size`` bytes together."""
        self.delivered += count
        self.bytes += size

    def lost(self, error: BaseException) -> None:
        """Count a record that failed on its way."""
        self.fail(str(error) or type(error).__name__)
        self._on_failure(error)

    def _settled(self, future: asyncio.Future[RecordMetadata]) -> None:
        if future.cancelled():
            self.fail("a record was cancelled before it was sent")
        elif (error := future.exception()) is not None:
            self.lost(error)
        else:
            metadata = future.result()
            size = max(0, metadata.serialized_key_size) + max(0, metadata.serialized_value_size)
            self.arrived(1, size)
