"""The filter of ``read_committed``: batches of aborted transactions, and control batches. No I/O.

Source: the ``CompletedFetch`` of Kafka's consumer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from aioproducer.engine.records.encoded_batch import EncodedBatch
from aioproducer.reader.fetch_request import AbortedTransaction


class AbortedTransactions:
    """The open aborted transactions at one place of a response, which is read in order.

    ``index``: the aborted transactions that the response names. A transaction is open from its
    first offset on to the abort marker of its producer.
    """

    def __init__(self, index: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(index, key=lambda each: each.first_offset))
        self._open: set[int] = set()

    def hides(self, batch: EncodedBatch) -> bool:
        """True if the records of ``batch`` belong to an aborted transaction."""
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            self._open.add(self._coming.popleft().producer_id)
        if batch.is_control:
            if batch.control_type == "abort":
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open
