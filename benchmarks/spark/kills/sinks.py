"""The sinks whose runs are killed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from benchmarks.spark.connector import connector_jars
from benchmarks.spark.kills.driver import FOREACH_BATCH
from benchmarks.spark.kills.random_kills import Sink


def _plain(bootstrap_servers: str, topic: str) -> Mapping[str, str]:
    return {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}


def _exactly_once(bootstrap_servers: str, topic: str) -> Mapping[str, str]:
    return {
        **_plain(bootstrap_servers, topic),
        "delivery.guarantee": "exactly_once",
        "sink.id": f"sink-of-{topic}",
    }


def _with_connector() -> Mapping[str, str]:
    return {"spark.driver.extraClassPath": os.pathsep.join(connector_jars())}


OURS: Final = Sink("aioproducer, exactly once", "aioproducer", _exactly_once)
KEYED: Final = Sink("aioproducer, exactly once, keyed", "aioproducer", _exactly_once, keyed=True)
MICRO_BATCHES: Final = Sink("foreach_batch(), exactly once", FOREACH_BATCH, _exactly_once)
LARGE_ROWS: Final = Sink(
    "aioproducer, exactly once, keyed, large rows",
    "aioproducer",
    _exactly_once,
    keyed=True,
    rows=40,
    row_bytes=300_000,
)
"""Each row is a batch of its own."""
SINKS: Final = (
    OURS,
    Sink("aioproducer, at least once", "aioproducer", _plain),
    Sink("Spark's own", "kafka", _plain, _with_connector),
)
