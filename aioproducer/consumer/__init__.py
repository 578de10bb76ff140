"""A member of a consumer group, in an event loop."""

from aioproducer.consumer.consumer import Consumer
from aioproducer.consumer.health import ConsumerHealth
from aioproducer.consumer.metrics import ConsumerMetricsSnapshot
from aioproducer.consumer.options import ConsumerOptions
from aioproducer.consumer.transactions import TransactionalWork

__all__ = [
    "Consumer",
    "ConsumerHealth",
    "ConsumerMetricsSnapshot",
    "ConsumerOptions",
    "TransactionalWork",
]
