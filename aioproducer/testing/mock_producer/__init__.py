"""The real producer on an in-memory cluster, for tests of applications: no server, no socket.

::

    async with MockProducer(partitions={"orders": 6}) as producer:
        await place_order(producer, "one espresso")
    assert [record.value for record in producer.sent("orders")] == [b"one espresso"]

Serializers, partitioners, interceptors, argument checks, memory bounds and the transactional state
machine are those of :class:`aioproducer.Producer`; only the network is replaced. Names follow
Kafka's ``MockProducer``.
"""

from __future__ import annotations

from aioproducer.testing.mock_producer.cluster import SentRecord
from aioproducer.testing.mock_producer.producer import MockProducer, SyncMockProducer

__all__ = ["MockProducer", "SentRecord", "SyncMockProducer"]
