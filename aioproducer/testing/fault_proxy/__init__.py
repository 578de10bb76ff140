"""A TCP proxy between clients and a broker that follows a script to break connections.

It understands only Kafka's framing: a fault meets a *kind* of frame, such as the third produce
response, on any connection::

    script = FaultScript((
        Rule(Cut(at=7), ApiKey.PRODUCE, Way.RESPONSE, after=2),
        Rule(Delay(0.05), way=Way.REQUEST, count=None, probability=0.1),
    ), seed=7)
    async with FaultProxy(broker_port, script) as proxy:
        ...  # clients connect to proxy.address
        await proxy.until(lambda: proxy.counts[Cut] == 1)

The broker must advertise the proxy's port: ``KafkaCluster(advertised_ports={1: proxy.port})``.
`FaultProxies` puts a proxy in front of every broker of a cluster. Everything stays on loopback.
"""

from __future__ import annotations

from aioproducer.testing.fault_proxy.faults import (
    ANYWHERE,
    END,
    ApiKey,
    BlackHole,
    ClaimLength,
    Corrupt,
    Cut,
    Damage,
    Delay,
    Fault,
    FaultScript,
    HalfClose,
    NotKafkaError,
    Reset,
    Rule,
    Swallow,
    Throttle,
    Way,
)
from aioproducer.testing.fault_proxy.proxy import FaultProxies, FaultProxy

__all__ = [
    "FaultProxy",
    "FaultProxies",
    "FaultScript",
    "Rule",
    "ApiKey",
    "Way",
    "Fault",
    "Cut",
    "Reset",
    "Delay",
    "Throttle",
    "HalfClose",
    "BlackHole",
    "Swallow",
    "Corrupt",
    "ClaimLength",
    "Damage",
    "ANYWHERE",
    "END",
    "NotKafkaError",
]
