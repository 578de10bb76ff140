"""confluent-kafka's ``TopicPartition``, and the numbers that stand for offsets."""

from __future__ import annotations

from functools import total_ordering
from typing import Any, Final

from aioproducer.compat.confluent.errors import KafkaError

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TopicPartition",
]

OFFSET_BEGINNING: Final = -2
"""The first record of a partition, instead of an offset."""
OFFSET_END: Final = -1
"""The end of a partition, instead of an offset."""
OFFSET_STORED: Final = -1000
"""The committed offset of a group, instead of an offset."""
OFFSET_INVALID: Final = -1001
"""No offset."""


@total_ordering
class TopicPartition:
    """A partition of a topic, with an offset: two are equal if topic and partition are.

    Args:
        topic: the name.
        partition: the number; -1: none.
        offset: an offset, or one of the ``OFFSET_`` numbers.
        metadata: a text that is committed with the offset.
        leader_epoch: the epoch of the leader at the offset; None or negative: unknown.
    """

    __slots__ = ("_epoch", "error", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        self.topic = topic
        self.partition = _whole(partition)
        self.offset = _whole(offset)
        self.metadata = metadata
        self._epoch = -1 if leader_epoch is None else _whole(leader_epoch)
        self.error: KafkaError | None = None
        """The error of this partition in a call about several."""

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the leader; None: unknown."""
        return None if self._epoch < 0 else self._epoch

    def _place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and self._place() == other._place()

    def __lt__(self, other: TopicPartition) -> bool:
        return self._place() < other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},"
            f"offset={self.offset},leader_epoch={self.leader_epoch},error={self.error}}}"
        )


def _whole(number: Any) -> int:
    if not hasattr(type(number), "__index__"):
        raise TypeError(f"{type(number).__name__!r} object cannot be interpreted as an integer")
    return int(number)
