"""A driver as a user has one: rows into Kafka until so many micro-batches are through.

``python -m benchmarks.spark.kills.driver <settings as JSON>``. ``run_stream()`` starts a query
again that has failed; whoever started a driver that was killed starts another.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aioproducer.spark import foreach_batch, repartition_by_key, run_stream
from benchmarks.spark import sessions

LOCAL: Final = "local[2,2]"
FOREACH_BATCH: Final = "foreachBatch"
"""In place of a format: ``foreach_batch()`` writes."""


@dataclass(frozen=True)
class Settings:
    format: str
    options: Mapping[str, str]
    checkpoint: str
    batches: int
    rows: int
    """In each micro-batch; the value of each row is its number over all of them, and spaces."""
    tasks: int
    """Partitions of the first start; each further one has another number."""
    spark: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    """A data source to be registered, as ``module:class``."""
    master: str = LOCAL
    keyed_partitions: int = 0
    """Of the topic, if rows have keys (their numbers) and go to the tasks of their partitions."""
    restarts: int = 10
    """Of the query without progress in between."""
    row_bytes: int = 0
    """The least size of a value."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def held(self) -> Path:
        """A file: while it exists there are more micro-batches than asked for."""
        return Path(f"{self.checkpoint}.held")

    def is_through(self) -> bool:
        """Whether there is nothing left to do."""
        return self.committed() >= self.batches and not self.held.exists()

    def committed(self) -> int:
        """How many micro-batches Spark counts as through."""
        folder = Path(self.checkpoint) / "commits"
        return max((int(each.name) + 1 for each in folder.glob("[0-9]*")), default=0)


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
    spark = sessions.start(settings.master, settings.spark)
    if settings.source:
        module, _, name = settings.source.partition(":")
        spark.dataSource.register(getattr(import_module(module), name))
    ended = Event()
    with ThreadPoolExecutor(1) as beside:
        stopping = beside.submit(_stop_when_through, spark, settings, ended)
        try:
            run_stream(lambda: start(spark, settings), restarts=settings.restarts)
        finally:
            ended.set()
            stopping.result()
    spark.stop()


def _stop_when_through(spark: SparkSession, settings: Settings, ended: Event) -> None:
    while not ended.wait(0.05):
        if settings.is_through():
            for query in spark.streams.active:
                query.stop()


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    start = Path(f"{settings.checkpoint}.starts")
    starts = int(start.read_text() or 0) if start.exists() else 0
    start.write_text(str(starts + 1))
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", settings.rows)
        .option("numPartitions", settings.tasks + starts % 2)
        .load()
        .selectExpr(f"rpad(value, greatest(length(value), {settings.row_bytes}), ' ') as value")
    )
    if settings.keyed_partitions:
        keyed = rows.selectExpr("trim(value) as key", "value")
        rows = repartition_by_key(keyed, settings.keyed_partitions, tasks=2)
    writer = rows.writeStream.option("checkpointLocation", settings.checkpoint)
    if settings.format == FOREACH_BATCH:
        options: dict[str, Any] = {**settings.options}
        return writer.foreachBatch(foreach_batch(**options)).start()
    return writer.format(settings.format).options(**settings.options).start()


if __name__ == "__main__":
    main()
