"""Topics, their replicas and configuration, and the lag of groups."""

from aioproducer.admin.replica_assignment import RackAwareMode, assign_replicas, rack_alternated

__all__ = ["RackAwareMode", "assign_replicas", "rack_alternated"]
