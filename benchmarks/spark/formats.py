"""Typed columns beside Spark's encoders: ``python -m benchmarks.spark.formats --rounds 3``."""

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

from aioproducer.engine.columnar import avro_encoder, derived_avro_schema, json_encoder
from aioproducer.spark import encode_columns
from aioproducer.testing import SchemaRegistryServer
from benchmarks.__main__ import names_of, positive
from benchmarks.brokers import kafka_brokers
from benchmarks.report import Measurement, Section, add_options
from benchmarks.spark.cpu import CpuWatch
from benchmarks.spark.plan import TUNED, Contender
from benchmarks.spark.report import describe
from benchmarks.spark.run import Stage, interleaved, session
from benchmarks.summary import Run, summarise
from benchmarks.workloads import Workload
from examples.spark_avro import read_flights

_ROWS: Final = 2_000_000
_WARM_UP: Final = 5
"""The part of a round's rows that each contender writes before the first round."""
_TASKS: Final = 8
_BATCH: Final = 10_000
"""The rows of Spark's Arrow batches."""
_MEANING: Final = "structs of 14 integers, 4 strings and a timestamp, in {}"
FORMATS: Final = {
    load.name: load
    for load in (
        Workload("avro", _MEANING.format("Avro"), _ROWS, value_bytes=70),
        Workload("json", _MEANING.format("JSON"), _ROWS, value_bytes=330),
    )
}


def contenders(name: str, registry: str) -> list[Contender]:
    """The ways to encode into the format ``name``, and to send what is encoded.

    ``registry``: its address.
    """
    url = {"schema.registry.url": registry} if name == "avro" else {}
    typed = {"value.format": name, **url}
    spark = f"to_{name}"
    return [
        Contender("noop", "noop", {}, sends=False),
        Contender(spark, spark, {"format": "noop", **url}, sends=False),
        Contender("encode_columns", "encode_columns", typed, spark, sends=False),
        Contender(f"{spark}-spark", spark, {"format": "kafka", **url}),
        Contender(f"{spark}-spark-tuned", spark, {"format": "kafka", **TUNED, **url}),
        Contender(f"{spark}-aioproducer", spark, {"format": "aioproducer", **url}),
        Contender("value.format", "aioproducer", typed, f"{spark}-aioproducer"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    libraries = ["pyspark", "pyarrow", "confluent-kafka"]
    measurement = Measurement.begin(parser, arguments, options, libraries, brokers="kafka")
    runs: list[Run] = []
    sections: list[Section] = []
    with (
        Console().status("starting") as status,
        kafka_brokers(1) as serving,
        session({}) as (spark, watch),
        SchemaRegistryServer() as registry,
        _flights(spark) as flights,
    ):
        for load in options.formats:
            with serving(load) as target:
                print(f"the encoder alone, in one thread: {_alone(flights, load):,.0f} rows/s")
                ways = contenders(load.name, registry.url)
                stage = partial(_stage, load, spark, flights, target.bootstrap_servers, watch)
                formats = {name: str(each) for name, each in ways[-1].settings.items()}
                encode_columns(flights, load.topic_names()[0], **formats)  # registers the schema
                warm_up, measured = stage(options.rows // _WARM_UP), stage(options.rows)
                of_load = [*interleaved(warm_up, measured, ways, options.rounds, status.update)]
            sections.append(describe(load, ways, summarise(of_load), measured.number))
            runs += of_load
    measurement.publish(sections)
    return 1 if any(run.void for run in runs) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.formats", description=__doc__)
    parser.add_argument(
        "--formats",
        type=names_of(FORMATS),
        default=list(FORMATS.values()),
        help=f"comma-separated, of {', '.join(FORMATS)}",
    )
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
    load: Workload,
    spark: SparkSession,
    flights: DataFrame,
    servers: str,
    watch: CpuWatch,
    number: int,
) -> Stage:
    """The flights again and again, ``number`` of them or more."""
    times = -(-number // flights.count())
    again = spark.range(0, times, 1, _TASKS).drop("id").crossJoin(broadcast(flights))
    return Stage(load, again, again.count(), servers, watch)


def _alone(flights: DataFrame, load: Workload) -> float:
    """Rows a second of CPU time that our encoder takes, without Spark."""
    column = flights.toArrow().column("value").combine_chunks()
    batches = [column.slice(start, _BATCH) for start in range(0, len(column), _BATCH)]
    if load.name == "avro":
        encoder = avro_encoder(column.type, derived_avro_schema(column.type, "Flight"), bytes(5))
    else:
        encoder = json_encoder(column.type)
    rates = []
    for _ in range(5):
        began = thread_time()
        for batch in batches:
            encoder.encode(batch)
        rates.append(len(column) / (thread_time() - began))
    return max(rates)


if __name__ == "__main__":
    sys.exit(main())
