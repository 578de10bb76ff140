"""A driver as a user has one: rows into Kafka until so many micro-batches are through.

``python -m benchmarks.spark.kills.driver <settings as JSON>``. A query that fails is started again;
whoever started a driver that was killed starts another.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from aioproducer.spark import repartition_by_key
from benchmarks.spark import sessions

LOCAL: Final = "local[2,2]"


@dataclass(frozen=True)
class Settings:
    format: str
    options: Mapping[str, str]
    checkpoint: str
    batches: int
    rows: int
    """In each micro-batch; the value of each row is its number over all of them."""
    tasks: int
    """Partitions of the first start; each further one has another number."""
    spark: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    """A data source to be registered, as ``module:class``."""
    master: str = LOCAL
    keyed_partitions: int = 0
    """Of the topic, if rows have keys (their numbers) and go to the tasks of their partitions."""

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
    spark = sessions.start(settings.master, settings.spark)
    if settings.source:
        module, _, name = settings.source.partition(":")
        spark.dataSource.register(getattr(import_module(module), name))
    while not settings.is_through():
        try:
            run(spark, settings)
        except StreamingQueryException as error:
            print("QUERY FAILED:", str(error)[:2000], flush=True)
    spark.stop()


def run(spark: SparkSession, settings: Settings) -> None:
    start = Path(f"{settings.checkpoint}.starts")
    starts = int(start.read_text() or 0) if start.exists() else 0
    start.write_text(str(starts + 1))
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", settings.rows)
        .option("numPartitions", settings.tasks + starts % 2)
        .load()
        .selectExpr("cast(value as string) as value")
    )
    if settings.keyed_partitions:
        keyed = rows.selectExpr("value as key", "value")
        rows = repartition_by_key(keyed, settings.keyed_partitions, tasks=2)
    query = (
        rows.writeStream.format(settings.format)
        .options(**settings.options)
        .option("checkpointLocation", settings.checkpoint)
        .start()
    )
    try:
        while query.isActive and not settings.is_through():
            time.sleep(0.05)
    finally:
        query.stop()
    if (error := query.exception()) is not None:
        raise error


if __name__ == "__main__":
    main()
