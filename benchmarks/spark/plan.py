"""What is written and by whom. Every load and every contender stands here, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.brokers import Serving, kafka_brokers, mock_brokers
from benchmarks.clients import Settings
from benchmarks.workloads import Workload

BROKERS: Final[Mapping[str, Callable[[], AbstractContextManager[Serving]]]] = {
    # One node: three of them on a few cores, each with a copy, would be all that is measured.
    "kafka": partial(kafka_brokers, 1),
    "mock": mock_brokers,
}

MICRO_BATCHES: Final = Workload("micro_batches", "a stream of 1,000 rows a micro-batch", 100_000)
"""``p50`` and ``p99`` are times of micro-batches."""
ROWS_PER_BATCH: Final = 1_000

LOADS: Final = {
    load.name: load
    for load in (
        Workload("values", "binary values", 5_000_000),
        Workload(
            "json",
            "strings of JSON, with keys",
            5_000_000,
            value_bytes=300,
            json=True,
            key_bytes=16,
            partitions=12,
        ),
        MICRO_BATCHES,
    )
}


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to write a DataFrame to Kafka: the function ``sink`` of ``sinks.py``."""

    name: str
    sink: str
    settings: Settings
    """The sink's own options, by the names that it has for them."""
    peer: str | None = None
    """Whom it is compared with: Spark's own sink with settings like these."""
    brokers: tuple[str, ...] = ("kafka", "mock")
    """Those that it can talk to."""
    sends: bool = True
    """False: it only makes the rows, which nobody can be faster than."""
    transactional: bool = False
    """Whether it adds markers to the log."""
    streams: bool = False
    """Whether it writes streams, too."""


# Large batches, as somebody sets them who loads much at once; nobody compresses.
_TUNED: Final[Settings] = {"linger.ms": 5, "batch.size": 262_144}
TUNED: Final[Settings] = {f"kafka.{name}": value for name, value in _TUNED.items()}
"""The same for a sink of Spark."""


CONTENDERS: Final = {
    contender.name: contender
    for contender in (
        Contender("noop", "noop", {}, sends=False, streams=True),
        Contender("python_noop", "python_noop", {}, sends=False, streams=True),
        # The mock cluster refuses the Java client's version of ApiVersions in a way of its own.
        Contender("spark", "spark", {}, brokers=("kafka",), streams=True),
        Contender("aioproducer", "aioproducer", {}, peer="spark", streams=True),
        Contender(
            "publish_dataframe",
            "publish_dataframe",
            {"batch.size": 262_144},
            peer="spark-tuned",
        ),
        Contender("confluent", "confluent", {}, peer="spark"),
        Contender(
            "exactly_once",
            "exactly_once",
            {"delivery.guarantee": "exactly_once", "sink.id": "benchmark"},
            peer="spark-tuned",
            brokers=("kafka",),
            transactional=True,
            streams=True,
        ),
        Contender(
            "exactly_once-2-tasks",
            "exactly_once",
            {"delivery.guarantee": "exactly_once", "sink.id": "benchmark", "tasks": 2},
            peer="spark-tuned",
            brokers=("kafka",),
            transactional=True,
        ),
        Contender("spark-tuned", "spark", TUNED, brokers=("kafka",)),
        Contender("aioproducer-tuned", "aioproducer", TUNED, peer="spark-tuned"),
        Contender("confluent-tuned", "confluent", _TUNED, peer="spark-tuned"),
    )
}
