"""A model of a Kafka cluster that keeps Kafka's rules: a state machine of bytes and time."""

from aioproducer.testing.simulation.kafka.batch import StoredRecord
from aioproducer.testing.simulation.kafka.cluster import ClusterOptions
from aioproducer.testing.simulation.kafka.model import KafkaModel, ModelConnection

__all__ = ["ClusterOptions", "KafkaModel", "ModelConnection", "StoredRecord"]
