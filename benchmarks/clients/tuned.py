"""The best settings found for each client and workload; one that is missing it cannot do.

They were found on 2 cores against the mock cluster, with ``acks=all`` everywhere; a comment says
what another value did. They are printed with the results.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.clients.settings import Settings

_DEFAULT: Settings = {}


def _compressed(option: str, settings: Settings) -> Mapping[str, Settings]:
    return {codec: {**settings, option: codec} for codec in ("lz4", "zstd")}


def _tls(of: Mapping[str, Settings]) -> Mapping[str, Settings]:
    """As the same workload in plain text."""
    return {"bulk_tls": of["bulk"], "bulk_1k_tls": of["bulk_1k"]}


def _stalls(of: Mapping[str, Settings]) -> Mapping[str, Settings]:
    """As the same workload without heartbeat."""
    return {"stall": of["bulk"], "stall_lz4": of["lz4"], "stall_zstd": of["zstd"]}


# Batches grow by themselves. 131,072: as many records/s, a tenth more CPU with 100 bytes.
_OURS: Mapping[str, Settings] = {
    **dict.fromkeys(
        (
            "bulk",
            "bulk_1k",
            "tasks",
            "single",
            "topics",
            "topics_10",
            "ten_each",
            "cold_topics_at_once",
            "cold_topics",
            "keyed",
            "spawn",
            "send_many",
            "arrow",
            "memory",
            "bound_1k",
            "far",
            "far_1k",
            "many_partitions",
        ),
        _DEFAULT,
    ),
    **_compressed("compression_type", _DEFAULT),
}
OURS = {**_OURS, **_stalls(_OURS), **_tls(_OURS)}
OURS_BLOCKING: Mapping[str, Settings] = {
    name: _OURS[name] for name in ("bulk", "bulk_1k", "single", "keyed")
}

LIBRDKAFKA: Settings = {
    "acks": "all",
    "linger.ms": 5,  # 0: 30 % fewer records/s; 50: the same
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 2_097_151,
}
_CONFLUENT: Mapping[str, Settings] = {
    "bulk": LIBRDKAFKA,
    "bulk_1k": LIBRDKAFKA,
    "single": {"acks": "all", "linger.ms": 0},
    "topics": {**LIBRDKAFKA, "linger.ms": 1_000},  # 5: 20 % fewer records/s
    "topics_10": LIBRDKAFKA,
    "ten_each": LIBRDKAFKA,
    "cold_topics_at_once": {"acks": "all", "linger.ms": 0},
    "cold_topics": {"acks": "all", "linger.ms": 0},
    **_compressed("compression.type", LIBRDKAFKA),
    "keyed": {**LIBRDKAFKA, "partitioner": "murmur2_random"},  # the hash of the others
}
CONFLUENT: Mapping[str, Settings] = {
    **_CONFLUENT,
    **_tls(_CONFLUENT),
    "send_many": LIBRDKAFKA,
    # As much as our buffer_memory, which is 32 MiB by default.
    **{
        name: {**LIBRDKAFKA, "queue.buffering.max.kbytes": 32_768}
        for name in ("memory", "bound_1k", "far", "far_1k")
    },
    "many_partitions": {"acks": "all", "linger.ms": 0},
}

# With the guarantee that ours gives by default: at most five requests to a broker in flight.
CONFLUENT_IDEMPOTENT: Mapping[str, Settings] = {
    name: {**CONFLUENT[name], "enable.idempotence": True}
    for name in ("bulk", "bulk_1k", "bound_1k", "far", "far_1k")
}

# Its futures are resolved in threads by calls that only asyncio's own loop bears: no uvloop.
_AIO: Mapping[str, Settings] = {
    # Not those of many topics: each is a call of its own in a thread, which takes minutes.
    **{
        name: settings
        for name, settings in _CONFLUENT.items()
        if name not in ("topics", "ten_each", "cold_topics", "cold_topics_at_once")
    },
    # A record waits until a batch is full, or for 0.1 s at least.
    "tasks": {"acks": "all", "linger.ms": 0, "batch_size": 100, "buffer_timeout": 0.1},
    "single": {"acks": "all", "linger.ms": 0, "batch_size": 1},
    "spawn": {**LIBRDKAFKA, "batch_size": 1_000, "buffer_timeout": 0.1},
}
CONFLUENT_AIO = {**_AIO, **_stalls(_AIO)}

_AIOKAFKA_BATCHES: Settings = {
    "acks": "all",
    "linger_ms": 0,  # 5: the same in bulk, and 5 ms for each awaited record
    "max_batch_size": 131_072,  # the default 16,384: 5 % fewer records/s
}
_AIOKAFKA: Mapping[str, Settings] = {
    "bulk": _AIOKAFKA_BATCHES,
    "bulk_1k": _AIOKAFKA_BATCHES,
    "tasks": _AIOKAFKA_BATCHES,
    "single": {"acks": "all", "linger_ms": 0},
    "topics": _AIOKAFKA_BATCHES,
    "topics_10": _AIOKAFKA_BATCHES,
    "ten_each": _AIOKAFKA_BATCHES,
    "cold_topics_at_once": {"acks": "all", "linger_ms": 0},
    "cold_topics": {"acks": "all", "linger_ms": 0},
    **_compressed("compression_type", _AIOKAFKA_BATCHES),
    "keyed": _AIOKAFKA_BATCHES,
    "spawn": _AIOKAFKA_BATCHES,
    "send_many": {**_AIOKAFKA_BATCHES, "max_batch_size": 262_144},
    "arrow": {**_AIOKAFKA_BATCHES, "max_batch_size": 262_144},
    "memory": _AIOKAFKA_BATCHES,
}
AIOKAFKA = {**_AIOKAFKA, **_stalls(_AIOKAFKA)}

# It does not understand how the mock cluster refuses its version of ApiVersions.
API_VERSION: Settings = {"api_version": (2, 3)}
_KEYED_KAFKA_PYTHON: Settings = {
    **API_VERSION,
    "acks": "all",
    "linger_ms": 5,
    "batch_size": 131_072,
}
_KAFKA_PYTHON: Settings = {
    **_KEYED_KAFKA_PYTHON,
    "partitioner": "sticky",  # the default draws lots for each record
}
KAFKA_PYTHON: Mapping[str, Settings] = {
    "bulk": _KAFKA_PYTHON,
    "bulk_1k": _KAFKA_PYTHON,
    "single": {**API_VERSION, "acks": "all", "linger_ms": 0},
    # Not those of many topics: it asks for each of 5,000 alone, with those that it knows already.
    "topics_10": _KAFKA_PYTHON,
    **_compressed("compression_type", _KAFKA_PYTHON),
    "keyed": _KEYED_KAFKA_PYTHON,
}

_JAVA: Settings = {"acks": "all", "linger.ms": 5, "batch.size": 131_072}
JAVA: Mapping[str, Settings] = {
    "bulk": _JAVA,
    "bulk_1k": _JAVA,
    **_compressed("compression.type", _JAVA),
}
