# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The growth of batches under load, if ``batch_size`` is None (KIP-782 proposes it for Java)."""

from __future__ import annotations

from aioproducer.foundation import tuning


class BatchGrowth:
    """The size of the next batch of a partition, or of a topic's keyless records.

    A batch that was full before it could leave doubles the size, unless it had many records. A
    batch that leaves mostly empty halves it. So a lone record gets a small batch, and load makes
    large ones.

    A distant broker gets the largest ones, whatever number of records they have: its throughput is
    the size of a request, times the requests in flight, divided by the time of a response.
    """

    __slots__ = ("doublings",)

    def __init__(self) -> None:
        self.doublings = 0
        """The size is the smallest one, doubled so often."""

    def filled(self, records: int, most: int, short: bool) -> None:
        """A batch was full of ``records`` before it left; ``most``: the most doublings.

        ``short``: requests are too small, see :meth:`Backlog.is_short`.
        """
        if self.doublings < most and (short or records < tuning.GROWS_BELOW_RECORDS):
            self.doublings += 1

    def left(self, size: int, capacity: int) -> None:
        """A batch with room for ``capacity`` bytes left with ``size`` bytes."""
        if self.doublings and size * tuning.MOSTLY_EMPTY_PART < capacity:
            self.doublings -= 1
