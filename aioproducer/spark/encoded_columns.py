"""A DataFrame whose keys and values are records already: for what has to see their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from aioproducer.errors import ConfigError
from aioproducer.spark.formats import check_format_names
from aioproducer.spark.plan import Option, SinkPlan, option_texts
from aioproducer.spark.planning import plan_typed_rows
from aioproducer.spark.rows import by_topic
from aioproducer.spark.worker_start import start_worker


def encode_columns(df: DataFrame, topic: str | None = None, **options: Option) -> DataFrame:
    """Return ``df`` with encoded keys and values: binary columns, which any sink accepts.

    The columns are those of Spark's Kafka sink; others are ignored. The argument ``topic`` takes
    precedence over the column. The options are those of the formats, such as
    ``**{"key.format": "avro", "schema.registry.url": "http://localhost:8081"}``. This call
    registers or fetches the schemas. Python workers encode the rows when they are computed.

    Raises:
        ConfigError: an option or a column is wrong, or a part of a column does not fit the schema.
        SchemaRegistryError: the registry refused a schema, or is unavailable.
    """
    given = option_texts(options)
    check_format_names(given)
    plan = plan_typed_rows(given, df.schema, topic)
    if not plan.encodings:
        raise ConfigError("encode_columns() needs the option 'value.format' or 'key.format'")
    columns = [
        StructField(each.name, BinaryType() if each.name in plan.encodings else each.dataType)
        for each in (df.schema[name] for name in plan.columns)
        if topic is None or each.name != "topic"
    ]
    encode = partial(_encode, plan, [each.name for each in columns])
    return df.select(*plan.columns).mapInArrow(encode, StructType(columns))


def _encode(
    plan: SinkPlan, names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    start_worker()
    for batch in batches:
        for topic, rows in by_topic(batch, plan):
            if "topic" in names:
                rows = rows.append_column("topic", pa.repeat(topic, len(rows)))
            yield rows.select(names)
