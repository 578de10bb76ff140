"""Who is measured, and with which settings. Every client stands here, once.

The settings are the best ones found for that client and workload on 2 cores against the mock
cluster, with ``acks=all`` everywhere; a comment says what another value did. They are printed with
the results.
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
    distribution: str | None
    """Where its version is found; None: it is no Python package."""
    settings: Mapping[str, Settings]
    """The client's own options by workload; one that is missing here it cannot do."""
    uvloop: bool = False
    ours: bool = False
    program: str = "benchmarks.client"
    """The module that measures it, in a process of its own."""
    brokers: tuple[str, ...] = ("mock", "kafka")
    """Those that it can talk to."""
    tls: Settings | None = None
    """Its options for TLS, the last of them the file of whom it trusts; None: not measured."""

    def settings_of(self, workload: str, authority: str | None) -> Settings:
        """``authority``: the file of whom it trusts, where it has to speak TLS."""
        settings = self.settings[workload]
        if authority is None:
            return settings
        *_, trusted = self.tls or {}
        return {**settings, **(self.tls or {}), trusted: authority}


def _compressed(option: str, settings: Settings) -> Mapping[str, Settings]:
    return {codec: {**settings, option: codec} for codec in ("lz4", "zstd")}


def _tls(of: Mapping[str, Settings]) -> Mapping[str, Settings]:
    """As the same workload in plain text."""
    return {"bulk_tls": of["bulk"], "bulk_1k_tls": of["bulk_1k"]}


def _stalls(of: Mapping[str, Settings]) -> Mapping[str, Settings]:
    """As the same workload without heartbeat."""
    return {"stall": of["bulk"], "stall_lz4": of["lz4"], "stall_zstd": of["zstd"]}


_LARGER_BATCHES: Settings = {"batch_size": 131_072}  # the default 16,384: 15 % fewer records/s
_OURS: Mapping[str, Settings] = {
    "bulk": _LARGER_BATCHES,
    "bulk_1k": {"batch_size": 262_144},  # 131,072: a fifth fewer records/s; 524,288: the same
    "tasks": {},
    "single": {},
    "topics": {},
    "topics_10": {},
    **_compressed("compression_type", _LARGER_BATCHES),
    "keyed": _LARGER_BATCHES,
    "spawn": {},
    "send_many": {"batch_size": 262_144},  # 131,072: a fifth fewer records/s
    "arrow": {"batch_size": 262_144},
    "memory": _LARGER_BATCHES,
}

_LIBRDKAFKA: Settings = {
    "acks": "all",
    "linger.ms": 5,  # 0: 30 % fewer records/s; 50: the same
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 2_097_151,
}
_CONFLUENT: Mapping[str, Settings] = {
    "bulk": _LIBRDKAFKA,
    "bulk_1k": _LIBRDKAFKA,
    "single": {"acks": "all", "linger.ms": 0},
    "topics": {**_LIBRDKAFKA, "linger.ms": 1_000},  # 5: 20 % fewer records/s
    "topics_10": _LIBRDKAFKA,
    **_compressed("compression.type", _LIBRDKAFKA),
    "keyed": {**_LIBRDKAFKA, "partitioner": "murmur2_random"},  # the hash of the others
}

# Its futures are resolved in threads by calls that only asyncio's own loop bears: no uvloop.
_AIO: Mapping[str, Settings] = {
    **{name: settings for name, settings in _CONFLUENT.items() if name != "topics"},
    # Not topics: each is a call of its own in a thread, which takes minutes.
    # A record waits until a batch is full, or for 0.1 s at least.
    "tasks": {"acks": "all", "linger.ms": 0, "batch_size": 100, "buffer_timeout": 0.1},
    "single": {"acks": "all", "linger.ms": 0, "batch_size": 1},
    "spawn": {**_LIBRDKAFKA, "batch_size": 1_000, "buffer_timeout": 0.1},
}

_AIOKAFKA: Settings = {
    "acks": "all",
    "linger_ms": 0,  # 5: the same in bulk, and 5 ms for each awaited record
    "max_batch_size": 131_072,  # the default 16,384: 5 % fewer records/s
}
_AIOKAFKA_OF: Mapping[str, Settings] = {
    "bulk": _AIOKAFKA,
    "bulk_1k": _AIOKAFKA,
    "tasks": _AIOKAFKA,
    "single": {"acks": "all", "linger_ms": 0},
    "topics": _AIOKAFKA,
    "topics_10": _AIOKAFKA,
    **_compressed("compression_type", _AIOKAFKA),
    "keyed": _AIOKAFKA,
    "spawn": _AIOKAFKA,
    "send_many": {**_AIOKAFKA, "max_batch_size": 262_144},
    "arrow": {**_AIOKAFKA, "max_batch_size": 262_144},
    "memory": _AIOKAFKA,
}

# It does not understand how the mock cluster refuses its version of ApiVersions.
_API_VERSION: Settings = {"api_version": (2, 3)}
_KAFKA_PYTHON: Settings = {
    **_API_VERSION,
    "acks": "all",
    "linger_ms": 5,
    "batch_size": 131_072,
    "partitioner": "sticky",  # the default draws lots for each record
}
_KEYED_KAFKA_PYTHON: Settings = {
    **_API_VERSION,
    "acks": "all",
    "linger_ms": 5,
    "batch_size": 131_072,
}

_JAVA: Settings = {"acks": "all", "linger.ms": 5, "batch.size": 131_072}

_OURS_BY_TLS: Settings = {"security_protocol": "SSL", "ssl_truststore_location": ""}

CLIENTS = {
    client.name: client
    for client in (
        Client(
            "aioproducer",
            "aioproducer_client",
            "aioproducer",
            {**_OURS, **_stalls(_OURS), **_tls(_OURS)},
            uvloop=True,
            ours=True,
            tls=_OURS_BY_TLS,
        ),
        Client(
            "aioproducer-asyncio",
            "aioproducer_client",
            "aioproducer",
            {**_OURS, **_stalls(_OURS), **_tls(_OURS)},
            ours=True,
            tls=_OURS_BY_TLS,
        ),
        Client(
            "confluent",
            "confluent_client",
            "confluent-kafka",
            {
                **_CONFLUENT,
                **_tls(_CONFLUENT),
                "send_many": _LIBRDKAFKA,
                # As much as our buffer_memory, which is 32 MiB by default.
                "memory": {**_LIBRDKAFKA, "queue.buffering.max.kbytes": 32_768},
            },
            tls={"security.protocol": "ssl", "ssl.ca.location": ""},
        ),
        Client(
            "confluent-aio",
            "confluent_aio_client",
            "confluent-kafka",
            {**_AIO, **_stalls(_AIO)},
        ),
        Client(
            "aiokafka",
            "aiokafka_client",
            "aiokafka",
            {**_AIOKAFKA_OF, **_stalls(_AIOKAFKA_OF)},
            uvloop=True,
        ),
        Client(
            "kafka-python",
            "kafka_python_client",
            "kafka-python",
            {
                "bulk": _KAFKA_PYTHON,
                "bulk_1k": _KAFKA_PYTHON,
                "single": {**_API_VERSION, "acks": "all", "linger_ms": 0},
                # Not topics: it asks for each of 5,000 alone, with those that it knows already.
                "topics_10": _KAFKA_PYTHON,
                **_compressed("compression_type", _KAFKA_PYTHON),
                "keyed": _KEYED_KAFKA_PYTHON,
            },
        ),
        Client(
            "java",
            "producer_performance",
            None,
            {"bulk": _JAVA, "bulk_1k": _JAVA, **_compressed("compression.type", _JAVA)},
            program="benchmarks.producer_performance",
            # The mock cluster refuses its version of ApiVersions in bytes that it takes for a
            # demand to be silent for 20 minutes.
            brokers=("kafka",),
        ),
    )
}
