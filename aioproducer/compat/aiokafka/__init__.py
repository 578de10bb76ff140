"""aiokafka's producer and consumer interface, implemented by aioproducer.

A program changes one line::

    # was: from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aioproducer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer

aiokafka need not be installed. If it is, results and errors are of aiokafka's classes, and the
names here and in :mod:`aioproducer.compat.aiokafka.errors` are aiokafka's own.
"""

from typing import TYPE_CHECKING, Any

from aioproducer.compat.aiokafka import errors
from aioproducer.compat.aiokafka.batch_builder import BatchBuilder
from aioproducer.compat.aiokafka.producer import AIOKafkaProducer
from aioproducer.compat.aiokafka.structs import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from aioproducer.compat.aiokafka.consumer import AIOKafkaConsumer

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "BatchBuilder",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
    "errors",
]


def __getattr__(name: str) -> Any:
    """The consumer, which programs that only write do not import."""
    if name != "AIOKafkaConsumer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aioproducer.compat.aiokafka.consumer import AIOKafkaConsumer

    return AIOKafkaConsumer
