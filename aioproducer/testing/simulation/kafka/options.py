"""The settings of a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Span: TypeAlias = tuple[float, float]
"""The least and the greatest number of seconds; each time one between them is drawn."""

TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
"""Kafka's own defaults of the settings of a topic that the model knows."""
GROUP_DEFAULTS: Final[Mapping[str, str]] = {
    "consumer.assignment.interval.ms": "1000",
    "consumer.heartbeat.interval.ms": "5000",
    "consumer.session.timeout.ms": "45000",
}
"""The settings of a group of KIP-848, by the broker's defaults of ``group.consumer…``."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The settings of a cluster. Times are seconds unless a name says otherwise."""

    transaction_version: int = 2
    """Of the protocol of transactions: 1, or 2 (KIP-890)."""
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """In place of Kafka's defaults, for all topics."""
    default_partitions: int = 1
    default_replicas: int = 3
    replication: Span = (0.0005, 0.005)
    """Until a follower has what its leader has."""
    markers: Span = (0.001, 0.01)
    """Until the markers of an ended transaction are in the logs."""
    failure_detection: Span = (0.1, 1.0)
    """Until another broker leads in place of a crashed one."""
    metadata: Span = (0.0, 0.0)
    """Until a broker reports a new leader to clients."""
    coordinator_load: Span = (0.01, 0.1)
    """Until a new coordinator has read its log."""
    transaction_max_timeout_ms: int = 900_000
    transaction_timeout_check: float = 0.5
    """The interval at which coordinators look for transactions beyond their time."""
    group_initial_rebalance_delay_ms: int = 3_000
    """Until an empty group completes its first rebalance: other members may join meanwhile."""
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_consumer_migration_policy: str = "bidirectional"
    """Whether groups with members go over to KIP-848 (upgrade), or back (downgrade)."""
    group_config: Mapping[str, str] = field(default_factory=dict)
    """In place of Kafka's defaults, for all groups of KIP-848."""
    fetch_session_slots: int = 1_000
    """The sessions of incremental fetches (KIP-227) that a broker keeps."""
    credentials: Mapping[str, str] | None = None
    """Passwords by user; None: the listener takes no logins."""
    sasl_mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    names_duplicates: bool = False
    """Answer a duplicate with DUPLICATE_SEQUENCE_NUMBER instead of its offset, as Kafka 1.0 did."""
    session_lifetime_ms: int = 0
    """Clients have to log in again before that (KIP-368); 0: never."""
    telemetry_interval_ms: int = 0
    """The interval of a subscription to all metrics of all clients (KIP-714); 0: there is none."""
    first_producer_id: int = 1000
