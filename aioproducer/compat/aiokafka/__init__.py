"""aiokafka's producer interface, implemented by aioproducer.

A program changes one line::

    from aioproducer.compat.aiokafka import AIOKafkaProducer   # was: from aiokafka import ...

aiokafka need not be installed. If it is, results and errors are of aiokafka's classes, and the
names here and in :mod:`aioproducer.compat.aiokafka.errors` are aiokafka's own.
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
