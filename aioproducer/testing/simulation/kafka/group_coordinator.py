"""The offsets that groups have committed, and those of open transactions.

Sources: Kafka's ``GroupCoordinatorService`` and ``OffsetMetadataManager``. A group belongs to the
broker that leads its partition of ``__consumer_offsets``. The model has no members: whoever commits
is a consumer that assigns its partitions itself, or a producer with a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer.errors.codes import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.cluster import GROUPS_TOPIC, Cluster
from aioproducer.testing.simulation.kafka.partition import Partition

Offsets = dict[TopicPartition, OffsetAndMetadata]


class GroupCoordinator:
    """All groups of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.offsets: dict[str, Offsets] = {}
        """By group."""
        self.open: dict[tuple[str, int], Offsets] = {}
        """Of open transactions: by group and producer id."""

    def partition_of(self, group: str) -> Partition:
        """The partition whose leader coordinates ``group``."""
        return self._cluster.coordinator_partition(GROUPS_TOPIC, group)

    def refuses(self, broker: int, group: str, now: float) -> ErrorCode:
        """Why ``broker`` does not answer for ``group``; ``none``: it does."""
        return self.partition_of(group).coordinates(broker, now)

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take offsets outside of a transaction."""
        self.offsets.setdefault(group, {}).update(offsets)

    def commit_in_transaction(
        self,
        group: str,
        producer_id: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Take offsets that count once the transaction is committed."""
        self.open.setdefault((group, producer_id), {}).update(offsets)

    def end_transaction(self, where: TopicPartition, producer_id: int, *, commit: bool) -> None:
        """A marker has arrived in a partition of ``__consumer_offsets``."""
        for (group, owner), offsets in list(self.open.items()):
            if owner == producer_id and self.partition_of(group).where == where:
                del self.open[group, owner]
                if commit:
                    self.commit(group, offsets)

    def unstable(self, group: str, where: TopicPartition) -> bool:
        """True if an open transaction has an offset of ``where`` (KIP-447)."""
        return any(of == group and where in offsets for (of, _), offsets in self.open.items())
