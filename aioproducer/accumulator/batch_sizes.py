"""The largest size of a batch, in bytes."""

from __future__ import annotations

from collections.abc import Callable

from aioproducer.accumulator.batching_rules import BatchingRules
from aioproducer.accumulator.serialized_record import SerializedRecord
from aioproducer.errors import RecordTooLargeError
from aioproducer.records.builder import batch_size_bound


class BatchSizes:
    """Bytes of a batch before compression.

    ``memory``: what all batches share. ``expansion``: how many times larger than on the wire the
    records of a topic are.
    """

    def __init__(
        self, rules: BatchingRules, memory: int, expansion: Callable[[str], float]
    ) -> None:
        self._rules = rules
        self._memory = memory
        self._expansion = expansion

    def full(self, topic: str) -> int:
        """Bytes that make a full batch once they are compressed."""
        size = int(self._rules.batch_size * self._expansion(topic))
        return min(size, self._rules.max_request_size, self._memory)

    def checked(self, record: SerializedRecord) -> int:
        """An upper bound of the bytes of a batch with ``record`` alone.

        Raises :class:`RecordTooLargeError`.
        """
        needed = batch_size_bound(record.key, record.value, record.headers)
        for limit, option in (
            (self._rules.max_request_size, "max_request_size"),
            (self._memory, "the share of buffer_memory that batches may use"),
        ):
            if needed > limit:
                raise RecordTooLargeError(
                    f"a record of {needed} bytes for topic {record.topic!r} is larger than the "
                    f"{limit} bytes of {option}: raise it (and the topic's max.message.bytes), "
                    "or send smaller records"
                )
        return needed
