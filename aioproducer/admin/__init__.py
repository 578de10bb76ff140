"""Topics, their replicas and configuration, and groups: their members, offsets and lag."""

from aioproducer.admin.admin import Admin
from aioproducer.admin.replica_assignment import RackAwareMode, assign_replicas, rack_alternated
from aioproducer.admin.values import (
    Append,
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupMember,
    LogPosition,
    NewTopic,
    PartitionDescription,
    PartitionLag,
    Subtract,
    TopicDescription,
)

__all__ = [
    "Admin",
    "Append",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigEntry",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LogPosition",
    "NewTopic",
    "PartitionDescription",
    "PartitionLag",
    "RackAwareMode",
    "Subtract",
    "TopicDescription",
    "assign_replicas",
    "rack_alternated",
]
