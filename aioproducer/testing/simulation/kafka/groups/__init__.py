"""Groups of consumers: their members, who coordinates them, and their offsets."""

from aioproducer.testing.simulation.kafka.groups.classic_group import ClassicGroup, Reply
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerGroup
from aioproducer.testing.simulation.kafka.groups.coordinator import GroupCoordinator

__all__ = ["ClassicGroup", "ConsumerGroup", "GroupCoordinator", "Reply"]
