"""The ways to write a DataFrame to Kafka. Each returns when every row is delivered, or raises."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Final
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import DataFrame, Row
from pyspark.sql.avro import functions as avro_functions
from pyspark.sql.functions import concat, lit
from pyspark.sql.functions import to_json as sql_to_json

from aioproducer import Producer, ProducerConfig
from aioproducer.spark import encode_columns as encode
from aioproducer.spark import publish_dataframe as publish
from aioproducer.spark import repartition_by_key
from benchmarks.clients import Settings
from benchmarks.measure import Numbers
from benchmarks.spark.forgetting import ForgettingSource
from benchmarks.spark.plan import Contender
from benchmarks.summary import percentile

_ROWS_PER_POLL: Final = 100
_FULL_QUEUE_WAIT: Final = 0.01
_URL: Final = "schema.registry.url"
_LOOK_EVERY: Final = 1  # seconds
_STREAMED: Final = {"noop": "noop", "spark": "kafka", "python_noop": "python_noop"}
"""Spark's names of formats that write streams."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the rows go."""

    bootstrap_servers: str
    topic: str
    partitions: int
    """Of the topic."""


Sink = Callable[[DataFrame, Target, Settings], None]


def noop(rows: DataFrame, _target: Target, _settings: Settings) -> None:
    """Make the rows and forget them."""
    rows.write.format("noop").mode("overwrite").save()


def python_noop(rows: DataFrame, _target: Target, _settings: Settings) -> None:
    """Forget the rows in Python: what every sink costs that is written in it."""
    rows.sparkSession.dataSource.register(ForgettingSource)
    rows.write.format(ForgettingSource.name()).mode("append").save()


def stream(rows: DataFrame, target: Target, contender: Contender, batches: int) -> Numbers:
    """Write micro-batches, ``batches`` of them or a few more. Returns their times."""
    options = {name: str(value) for name, value in contender.settings.items()}
    options |= {"kafka.bootstrap.servers": target.bootstrap_servers, "topic": target.topic}
    if contender.transactional:
        options["sink.id"] = f"benchmark-{uuid4()}"  # of this query
    source = _STREAMED.get(contender.sink, "aioproducer")
    if source == ForgettingSource.name():
        rows.sparkSession.dataSource.register(ForgettingSource)
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format(source).options(checkpointLocation=checkpoint, **options)
        query = writer.start()
        try:
            while (last := query.lastProgress) is None or last.batchId < batches:
                if query.awaitTermination(_LOOK_EVERY):
                    raise RuntimeError(f"the query has ended: {query.exception()}")
            progress = [each for each in query.recentProgress if each.batchId < batches]
        finally:
            query.stop()
    durations = [each.durationMs for each in progress]
    whole = sorted(each["triggerExecution"] for each in durations)
    return {
        "p50_ms": percentile(whole, 0.50),
        "p99_ms": percentile(whole, 0.99),
        "add_batch_ms": median(each["addBatch"] for each in durations),
    }


def aioproducer(rows: DataFrame, target: Target, settings: Settings) -> None:
    """Our data source."""
    _write("aioproducer", rows, target, settings)


def exactly_once(rows: DataFrame, target: Target, settings: Settings) -> None:
    """The same in a transaction, for which each Kafka partition has to come from one task.

    ``tasks`` in the settings: their number, by default one for each partition.
    """
    options = dict(settings)
    tasks = int(str(options.pop("tasks", target.partitions)))
    if "key" in rows.columns:
        rows = repartition_by_key(rows, target.partitions, tasks)
    else:
        rows = rows.coalesce(tasks)
    _write("aioproducer", rows, target, options)


def spark(rows: DataFrame, target: Target, settings: Settings) -> None:
    """Spark's own."""
    _write("kafka", rows, target, settings)


def _write(source: str, rows: DataFrame, target: Target, settings: Settings) -> None:
    options = {name: str(value) for name, value in settings.items()}
    options |= {"kafka.bootstrap.servers": target.bootstrap_servers, "topic": target.topic}
    rows.write.format(source).options(**options).mode("append").save()


def publish_dataframe(rows: DataFrame, target: Target, settings: Settings) -> None:
    """Through the driver's event loop."""
    config = ProducerConfig.from_properties(
        {"bootstrap.servers": target.bootstrap_servers, **settings}
    )

    async def run() -> None:
        async with Producer(config) as producer:
            await publish(rows, producer, topic=target.topic)

    asyncio.run(run())


def confluent(rows: DataFrame, target: Target, settings: Settings) -> None:
    """confluent-kafka's producer for each partition of the rows."""
    all_settings = {"bootstrap.servers": target.bootstrap_servers, **settings}
    rows.foreachPartition(_SendWithConfluent(all_settings, target.topic))


@dataclass(frozen=True, slots=True)
class _SendWithConfluent:
    settings: Settings
    topic: str

    def __call__(self, rows: Iterable[Row]) -> None:
        producer = ConfluentProducer(dict(self.settings))
        errors: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        produce, poll, topic = producer.produce, producer.poll, self.topic
        for number, row in enumerate(rows):
            value, key = row if len(row) == 2 else (row[0], None)
            while True:
                try:
                    produce(topic, value, key, on_delivery=on_delivery)
                except BufferError:
                    poll(_FULL_QUEUE_WAIT)
                else:
                    break
            if not number % _ROWS_PER_POLL:
                poll(0)
        producer.flush()
        if errors:
            raise KafkaException(errors[0])


def to_avro(rows: DataFrame, target: Target, settings: Settings) -> None:
    """Spark's own encoder of Avro, and any sink."""
    others = {name: each for name, each in settings.items() if name not in ("format", _URL)}
    prefix, schema = _registered(str(settings[_URL]), f"{target.topic}-value")
    value = concat(lit(bytearray(prefix)), avro_functions.to_avro("value", schema))
    _sink(rows.select(value.alias("value")), str(settings["format"]), target, others)


def to_json(rows: DataFrame, target: Target, settings: Settings) -> None:
    """Spark's own encoder of JSON, and any sink."""
    others = {name: each for name, each in settings.items() if name != "format"}
    value = sql_to_json("value").alias("value")
    _sink(rows.select(value), str(settings["format"]), target, others)


def encode_columns(rows: DataFrame, target: Target, settings: Settings) -> None:
    """Our encoder, and no sink."""
    formats = {name: str(value) for name, value in settings.items()}
    noop(encode(rows, target.topic, **formats), target, {})


@cache
def _registered(url: str, subject: str) -> tuple[bytes, str]:
    """The bytes before each record, and the schema, which our encoder has registered."""
    latest = SchemaRegistryClient({"url": url}).get_latest_version(subject)
    assert latest.schema_id is not None
    return b"\0" + latest.schema_id.to_bytes(4, "big"), str(latest.schema.schema_str)


def _sink(rows: DataFrame, source: str, target: Target, settings: Settings) -> None:
    if source == "noop":
        noop(rows, target, settings)
    else:
        _write(source, rows, target, settings)


SINKS: Final[Mapping[str, Sink]] = {
    sink.__name__: sink
    for sink in (
        *(noop, python_noop, aioproducer, exactly_once, spark, publish_dataframe, confluent),
        *(to_avro, to_json, encode_columns),
    )
}
