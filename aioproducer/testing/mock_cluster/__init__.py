"""A scriptable Kafka cluster for tests: librdkafka's mock cluster.

::

    async with MockCluster(brokers=3, topics={"orders": 12}) as cluster:
        cluster.push_request_errors(PRODUCE, NOT_LEADER_OR_FOLLOWER, DISCONNECT)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            ...

It uses real TCP and Kafka's real protocol, without Java. Any number of clients of any kind can
connect. It needs the ``confluent-kafka`` wheel: ``pip install "aioproducer[testing]"``. From the
command line: ``python -m aioproducer.testing.mock_cluster --brokers 3 --topic orders:12``.
"""

from __future__ import annotations

from aioproducer.testing.mock_cluster.cluster import (
    ALL_BROKERS,
    DISCONNECT,
    NO_LEADER,
    MockCluster,
    TrackedRequest,
)
from aioproducer.testing.mock_cluster.process import (
    MockClusterArgumentError,
    MockClusterError,
)

__all__ = [
    "MockCluster",
    "TrackedRequest",
    "MockClusterError",
    "MockClusterArgumentError",
    "ALL_BROKERS",
    "DISCONNECT",
    "NO_LEADER",
]
