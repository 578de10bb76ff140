"""Test tools for applications and for aioproducer itself: a mock producer, servers, faults.

Classes are imported on first access, so the pytest plugin loads only what a test uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aioproducer.testing.expectations import Expectations, TopicExpectations, expect
    from aioproducer.testing.fault_proxy import FaultProxy
    from aioproducer.testing.in_memory_registry import InMemorySchemaRegistry
    from aioproducer.testing.kafka_cluster import KafkaCluster
    from aioproducer.testing.mock_cluster import MockCluster
    from aioproducer.testing.mock_producer import MockProducer, SyncMockProducer
    from aioproducer.testing.mock_producer.cluster import SentRecord
    from aioproducer.testing.read_records import ReadRecords, read_back, read_back_sync
    from aioproducer.testing.schema_registry_server import SchemaRegistryServer
    from aioproducer.testing.simulation.loop import DeadlockError
    from aioproducer.testing.simulation.world import SimulatedCluster, SimulatedWorld, simulate

__all__ = [
    "DeadlockError",
    "Expectations",
    "FaultProxy",
    "InMemorySchemaRegistry",
    "KafkaCluster",
    "MockCluster",
    "MockProducer",
    "ReadRecords",
    "SchemaRegistryServer",
    "SentRecord",
    "SimulatedCluster",
    "SimulatedWorld",
    "SyncMockProducer",
    "TopicExpectations",
    "expect",
    "read_back",
    "read_back_sync",
    "simulate",
]


_MODULES = {
    "DeadlockError": "simulation.loop",
    "Expectations": "expectations",
    "FaultProxy": "fault_proxy",
    "InMemorySchemaRegistry": "in_memory_registry",
    "KafkaCluster": "kafka_cluster",
    "MockCluster": "mock_cluster",
    "MockProducer": "mock_producer",
    "ReadRecords": "read_records",
    "SchemaRegistryServer": "schema_registry_server",
    "SentRecord": "mock_producer",
    "SimulatedCluster": "simulation.world",
    "SimulatedWorld": "simulation.world",
    "SyncMockProducer": "mock_producer",
    "TopicExpectations": "expectations",
    "expect": "expectations",
    "read_back": "read_records",
    "read_back_sync": "read_records",
    "simulate": "simulation.world",
}
"""The modules of the names. No module has the name of a function: its import would hide it."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{module}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
