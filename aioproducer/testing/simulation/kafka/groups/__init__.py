"""Groups of consumers: their members, who coordinates them, and their offsets."""

from aioproducer.testing.simulation.kafka.groups.coordinator import GroupCoordinator
from aioproducer.testing.simulation.kafka.groups.reply import Reply

__all__ = ["GroupCoordinator", "Reply"]
