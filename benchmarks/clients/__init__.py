"""Who is measured, and with which settings. Every client stands here, once.

The settings are the best ones found for that client and workload on 2 cores against the mock
cluster, with ``acks=all`` everywhere. They are printed with the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Client:
    """One client as it is measured; its driver is the class ``Driver`` of ``module``."""

    name: str
    module: str
    distribution: str
    settings: Mapping[str, Settings]
    """The client's own options by workload; one that is missing here it cannot do."""
    uvloop: bool = False
    ours: bool = False


_LARGER_BATCHES: Settings = {"batch_size": 131_072}  # the default 16,384: 15 % fewer records/s
_OURS: Mapping[str, Settings] = {
    "bulk": _LARGER_BATCHES,
    "tasks": {},
    "single": {},
    "send_many": _LARGER_BATCHES,
}

_LIBRDKAFKA: Settings = {
    "acks": "all",
    "linger.ms": 5,  # 0: 30 % fewer records/s; 50: the same
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 2_097_151,
}
_AIOKAFKA: Settings = {
    "acks": "all",
    "linger_ms": 0,  # 5: the same in bulk, and 5 ms for each awaited record
    "max_batch_size": 131_072,  # the default 16,384: 5 % fewer records/s
}

CLIENTS = {
    client.name: client
    for client in (
        Client("aioproducer", "aioproducer_client", "aioproducer", _OURS, uvloop=True, ours=True),
        Client("aioproducer-asyncio", "aioproducer_client", "aioproducer", _OURS, ours=True),
        Client(
            "confluent",
            "confluent_client",
            "confluent-kafka",
            {
                "bulk": _LIBRDKAFKA,
                "single": {"acks": "all", "linger.ms": 0},
                "send_many": _LIBRDKAFKA,
            },
        ),
        Client(
            "aiokafka",
            "aiokafka_client",
            "aiokafka",
            {
                "bulk": _AIOKAFKA,
                "tasks": _AIOKAFKA,
                "single": {"acks": "all", "linger_ms": 0},
                "send_many": _AIOKAFKA,
            },
            uvloop=True,
        ),
    )
}
