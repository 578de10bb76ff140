"""Typed columns beside Spark's ``to_avro()``: ``python -m benchmarks.spark.avro --rounds 3``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast
from rich.console import Console

from aioproducer.engine.columnar import avro_encoder, derived_avro_schema
from aioproducer.spark import encode_columns
from aioproducer.testing import SchemaRegistryServer
from benchmarks.__main__ import positive
from benchmarks.brokers import kafka_brokers
from benchmarks.report import Measurement, add_options
from benchmarks.spark.cpu import CpuWatch
from benchmarks.spark.plan import Contender
from benchmarks.spark.report import describe
from benchmarks.spark.run import Stage, run_one, session
from benchmarks.summary import Run, summarise
from benchmarks.workloads import Workload
from examples.spark_avro import read_flights

_ROWS: Final = 2_000_000
_WARM_UP: Final = 5
"""The part of a round's rows that each contender writes before the first round."""
_TASKS: Final = 8
_BATCH: Final = 10_000
"""The rows of Spark's Arrow batches."""
FLIGHTS: Final = Workload(
    "flights", "structs of 14 integers, 4 strings and a timestamp, in Avro", _ROWS, value_bytes=70
)


def contenders(registry: str) -> list[Contender]:
    """The ways to encode, and to send what is encoded, with the registry's address."""
    url = {"schema.registry.url": registry}
    typed = {"value.format": "avro", **url}
    return [
        Contender("noop", "noop", {}, sends=False),
        Contender("to_avro", "to_avro", {"format": "noop", **url}, sends=False),
        Contender("encode_columns", "encode_columns", url, "to_avro", sends=False),
        Contender("to_avro-spark", "to_avro", {"format": "kafka", **url}),
        Contender("to_avro-aioproducer", "to_avro", {"format": "aioproducer", **url}),
        Contender("value.format", "aioproducer", typed, "to_avro-aioproducer"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    libraries = ["pyspark", "pyarrow", "confluent-kafka"]
    measurement = Measurement.begin(parser, arguments, options, libraries, brokers="kafka")
    with (
        Console().status("starting") as status,
        kafka_brokers(1) as serving,
        serving(FLIGHTS) as target,
        session({}) as (spark, watch),
        SchemaRegistryServer() as registry,
        _flights(spark) as flights,
    ):
        print(f"the encoder alone, in one thread: {_alone(flights):,.0f} rows/s")
        ways = contenders(registry.url)
        stage = partial(_stage, spark, flights, target.bootstrap_servers, watch)
        formats = {name: str(each) for name, each in ways[-1].settings.items()}
        encode_columns(flights, FLIGHTS.topic_names()[0], **formats)  # it registers the schema
        warm_up, measured = stage(options.rows // _WARM_UP), stage(options.rows)
        runs: list[Run] = []
        for way in ways:
            status.update(f"warming up {way.name}")
            run_one(warm_up, way, 0)
        for number in range(1, options.rounds + 1):
            for way in (*ways[number % len(ways) :], *ways[: number % len(ways)]):
                status.update(f"round {number} of {options.rounds}: {way.name}")
                runs.append(run_one(measured, way, number))
    measurement.publish([describe(FLIGHTS, ways, summarise(runs), measured.number)])
    return 1 if any(run.void for run in runs) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.avro", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=3, help="default %(default)s")
    parser.add_argument("--rows", type=positive, default=_ROWS, help="default %(default)s")
    add_options(parser)
    return parser


@contextmanager
def _flights(spark: SparkSession) -> Iterator[DataFrame]:
    """The flights as structs, in Spark's memory."""
    with tempfile.TemporaryDirectory(dir=Path.home() / ".cache") as folder:
        flights = read_flights(spark, folder).select("value").coalesce(1).cache()
        flights.count()
        yield flights


def _stage(
    spark: SparkSession, flights: DataFrame, servers: str, watch: CpuWatch, number: int
) -> Stage:
    """The flights again and again, ``number`` of them or more."""
    times = -(-number // flights.count())
    again = spark.range(0, times, 1, _TASKS).drop("id").crossJoin(broadcast(flights))
    return Stage(FLIGHTS, again, again.count(), servers, watch)


def _alone(flights: DataFrame) -> float:
    """Rows a second of CPU time that our encoder takes, without Spark."""
    column = flights.toArrow().column("value").combine_chunks()
    batches = [column.slice(start, _BATCH) for start in range(0, len(column), _BATCH)]
    encoder = avro_encoder(column.type, derived_avro_schema(column.type, "Flight"), bytes(5))
    rates = []
    for _ in range(5):
        began = thread_time()
        for batch in batches:
            encoder.encode(batch)
        rates.append(len(column) / (thread_time() - began))
    return max(rates)


if __name__ == "__main__":
    sys.exit(main())
