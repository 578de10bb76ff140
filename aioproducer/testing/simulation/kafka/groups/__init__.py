"""Groups of consumers: their members, who coordinates them, and their offsets."""

from aioproducer.testing.simulation.kafka.groups.classic_group import ClassicGroup
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerGroup
from aioproducer.testing.simulation.kafka.groups.coordinator import GroupCoordinator
from aioproducer.testing.simulation.kafka.groups.reply import Reply

__all__ = ["ClassicGroup", "ConsumerGroup", "GroupCoordinator", "Reply"]
