"""Test tools for users of aioproducer and for aioproducer itself."""

from __future__ import annotations

from aioproducer.testing.fault_proxy import FaultProxy
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import MockCluster

__all__ = ["KafkaCluster", "MockCluster", "FaultProxy"]
