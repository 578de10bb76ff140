"""A client of Spark Connect, in a process of its own: ``python -m tests.spark.connect_client URL``.

A process has one kind of Spark. This one does what each line of its input asks for, and answers by
a line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from aioproducer import Producer
from aioproducer.spark import (
    encode_columns,
    foreach_batch,
    publish_dataframe,
    publish_partitions,
    register,
    repartition_by_key,
)

Options = dict[str, Any]


def numbers(spark: SparkSession, rows: int, tasks: int = 3) -> DataFrame:
    return spark.range(0, rows, numPartitions=tasks).selectExpr("cast(id as string) as value")


def write(spark: SparkSession, options: Options, rows: int) -> None:
    numbers(spark, rows).write.format("aioproducer").options(**options).mode("append").save()


def write_keyed(spark: SparkSession, options: Options, rows: int) -> None:
    keyed = numbers(spark, rows).selectExpr("concat('key-', value) as key", "value")
    placed = repartition_by_key(keyed, 4, tasks=2)
    placed.write.format("aioproducer").options(**options).mode("append").save()


def write_from_archive(spark: SparkSession, options: Options, rows: int, archive: str) -> str:
    """Says which Python the tasks had."""

    def tell(batches: Any) -> Any:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"prefix": [sys.prefix]})

    spark.addArtifacts(f"{archive}#shipped", archive=True)
    spark.conf.set("spark.sql.execution.pyspark.python", "./shipped/bin/python")
    try:
        write(spark, options, rows)
        [told] = numbers(spark, 1, 1).mapInArrow(tell, "prefix string").collect()
        return str(told.prefix)
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.python")


def registered(spark: SparkSession, options: Options, rows: int) -> int:
    written = register(spark)
    write(spark, options, rows)
    return len(written)


def partitions(spark: SparkSession, options: Options, rows: int) -> int:
    return publish_partitions(numbers(spark, rows), **options).records


def typed(spark: SparkSession, options: Options, formats: Options, rows: int) -> int:
    """In all ways, each of which sends all rows."""
    structs = numbers(spark, rows).selectExpr("named_struct('id', cast(value as long)) as value")
    structs.write.format("aioproducer").options(**options, **formats).mode("append").save()
    count = publish_partitions(structs, **options, **formats).records
    encoded = encode_columns(structs, options["topic"], **formats)
    encoded.write.format("aioproducer").options(**options).mode("append").save()

    async def publish() -> int:
        servers = options["kafka.bootstrap.servers"]
        async with Producer(bootstrap_servers=servers) as producer:
            topic = options["topic"]
            return (await publish_dataframe(structs, producer, topic, formats=formats)).records

    return count + asyncio.run(publish())


def stream(spark: SparkSession, options: Options, folder: str) -> None:
    writer = _files(spark, folder).writeStream.format("aioproducer").options(**options)
    _run(writer, folder)


def for_each_batch(spark: SparkSession, options: Options, folder: str) -> None:
    _run(_files(spark, folder).writeStream.foreachBatch(foreach_batch(**options)), folder)


def own_function(spark: SparkSession, options: Options, folder: str) -> None:
    def publish(batch: DataFrame, number: int) -> None:
        writer = batch.write.format("aioproducer").options(**options)
        writer.option("sink.batch.id", number).mode("append").save()

    _run(_files(spark, folder).writeStream.foreachBatch(publish), folder)


def from_the_loop(spark: SparkSession, options: Options, rows: int) -> int:
    async def publish() -> int:
        servers = options["kafka.bootstrap.servers"]
        async with Producer(bootstrap_servers=servers) as producer:
            report = await publish_dataframe(numbers(spark, rows, 5), producer, options["topic"])
        return report.records

    return asyncio.run(publish())


def cancelled(spark: SparkSession, options: Options, marks: str) -> float:
    """Seconds that a job takes after one that would take a minute was cancelled."""
    folder = Path(marks)

    def sleep(batches: Any) -> Any:
        for batch in batches:
            (folder / "runs").touch()
            time.sleep(60)
            yield batch

    async def publish() -> None:
        servers = options["kafka.bootstrap.servers"]
        async with Producer(bootstrap_servers=servers) as producer:
            rows = numbers(spark, 8, 8).mapInArrow(sleep, "value string")
            publishing = asyncio.ensure_future(publish_dataframe(rows, producer, options["topic"]))
            while not (folder / "runs").exists() and not publishing.done():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            publishing.cancel()
            await asyncio.wait((publishing,))
            assert publishing.cancelled()

    asyncio.run(publish())
    began = time.monotonic()
    spark.range(0, 8, numPartitions=8).count()
    return time.monotonic() - began


def _files(spark: SparkSession, folder: str) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(f"{folder}/rows")


def _run(writer: Any, folder: str) -> None:
    """All that is available, to the end."""
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert not query.isActive


_DONE: dict[str, Callable[..., object]] = {
    done.__name__: done
    for done in (
        *(
            write,
            write_keyed,
            write_from_archive,
            typed,
            registered,
            partitions,
            stream,
            for_each_batch,
            own_function,
        ),
        *(from_the_loop, cancelled),
    )
}


def main() -> None:
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer: dict[str, object] = {"said": _DONE[asked["do"]](spark, **asked["with"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
