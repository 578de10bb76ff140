"""A model of a Kafka cluster that keeps Kafka's rules: a state machine of bytes and time."""

from aioproducer.testing.simulation.kafka.batch import StoredRecord
from aioproducer.testing.simulation.kafka.connection import ModelConnection
from aioproducer.testing.simulation.kafka.model import KafkaModel
from aioproducer.testing.simulation.kafka.options import ClusterOptions

__all__ = ["ClusterOptions", "KafkaModel", "ModelConnection", "StoredRecord"]
