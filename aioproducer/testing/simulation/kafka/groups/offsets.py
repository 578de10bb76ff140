"""The offsets that groups have committed, and those of open transactions.

Source: Kafka's ``OffsetMetadataManager``. They are in the replicated log, so that every coordinator
knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from aioproducer.model import OffsetAndMetadata, TopicPartition

Offsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata]


class GroupOffsets:
    """The offsets of all groups."""

    def __init__(self) -> None:
        self.committed: dict[str, Offsets] = {}
        """By group."""
        self._open: dict[tuple[str, int], Offsets] = {}
        """Of open transactions: by group and producer id."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take offsets outside of a transaction."""
        self.committed.setdefault(group, {}).update(offsets)

    def commit_in_transaction(
        self,
        group: str,
        producer_id: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Take offsets that count once the transaction is committed."""
        self._open.setdefault((group, producer_id), {}).update(offsets)

    def end_transaction(self, group: str, producer_id: int, *, commit: bool) -> None:
        """A marker has arrived in the partition of the group."""
        offsets = self._open.pop((group, producer_id), {})
        if commit and offsets:
            self.commit(group, offsets)

    def forget(self, topic: str) -> None:
        """A topic was deleted. Source: ``GroupCoordinatorShard.onPartitionsDeleted``."""
        for offsets in (*self.committed.values(), *self._open.values()):
            for where in [each for each in offsets if each.topic == topic]:
                del offsets[where]

    def groups_with_open(self, producer_id: int) -> list[str]:
        """The groups that have offsets of an open transaction."""
        return [group for group, owner in self._open if owner == producer_id]

    def unstable(self, group: str, where: TopicPartition) -> bool:
        """True if an open transaction has an offset of ``where`` (KIP-447)."""
        return any(of == group and where in offsets for (of, _), offsets in self._open.items())
