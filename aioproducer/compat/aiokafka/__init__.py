"""aiokafka's producer over this project's core.

A program changes one line::

    from aioproducer.compat.aiokafka import AIOKafkaProducer   # was: from aiokafka import ...

aiokafka need not be installed. Where it is, results and errors are of its classes; the names here
and in :mod:`aioproducer.compat.aiokafka.errors` are then its own.
"""

from aioproducer.compat.aiokafka import errors
from aioproducer.compat.aiokafka.batch_builder import BatchBuilder
from aioproducer.compat.aiokafka.producer import AIOKafkaProducer
from aioproducer.compat.aiokafka.structs import OffsetAndMetadata, RecordMetadata, TopicPartition

__all__ = [
    "AIOKafkaProducer",
    "BatchBuilder",
    "OffsetAndMetadata",
    "RecordMetadata",
    "TopicPartition",
    "errors",
]
