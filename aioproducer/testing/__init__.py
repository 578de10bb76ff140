"""Test tools for users of aioproducer and for aioproducer itself: servers, faults, assertions."""

from __future__ import annotations

from aioproducer.testing.expect import TopicExpectations, expect
from aioproducer.testing.expectations import Expectations
from aioproducer.testing.fault_proxy import FaultProxy
from aioproducer.testing.in_memory_registry import InMemorySchemaRegistry
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.read_back import ReadRecords, read_back, read_back_sync
from aioproducer.testing.schema_registry_server import SchemaRegistryServer

__all__ = [
    "Expectations",
    "FaultProxy",
    "InMemorySchemaRegistry",
    "KafkaCluster",
    "MockCluster",
    "ReadRecords",
    "SchemaRegistryServer",
    "TopicExpectations",
    "expect",
    "read_back",
    "read_back_sync",
]
