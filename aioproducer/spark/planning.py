"""The plan of a write, with the schemas of its typed columns.

Only this module asks the registry. A plan carries schemas and their ids to the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import StructType

from aioproducer.errors import ConfigError
from aioproducer.spark.plan import (
    SinkPlan,
    check_names,
    plan_rows,
    plan_write,
    refuse_shown,
    refuse_shown_secrets,
    types_of,
)
from aioproducer.spark.typed_columns import (
    ANY_TOPIC,
    ColumnFormat,
    FormatOptions,
    Strategy,
    arrow_type,
    format_options,
)


def plan_sink(options: Mapping[str, str], schema: StructType) -> SinkPlan:
    """Check options and columns, and get the schemas of typed columns.

    Raises:
        ConfigError: an option or a column is wrong, or a part of a column fits no schema.
        SchemaRegistryError: the registry refuses a schema, or is not there.
    """
    check_names(options, spark_options=True)
    formats = format_options(options)
    plan = plan_write(options, types_of(schema), formats.names)
    refuse_shown_secrets(plan)
    refuse_shown(formats.plain_secrets())
    return _with_encodings(plan, formats, schema)


def plan_typed_rows(
    options: Mapping[str, str], schema: StructType, topic: str | None = None
) -> SinkPlan:
    """Check only columns and the options of formats, because the producer exists already."""
    formats = format_options(options)
    plan = plan_rows(types_of(schema), topic, formats.names)
    return _with_encodings(plan, formats, schema)


def _with_encodings(plan: SinkPlan, formats: FormatOptions, schema: StructType) -> SinkPlan:
    if not formats.columns:
        return plan
    # Tasks import this module, and have no use for a registry's client.
    from aioproducer.spark.schemas import TypedColumn, registered, unregistered

    columns = [
        TypedColumn(each, arrow_type(schema[each.column].dataType, each.column), topics)
        for each, topics in _topics(plan, formats).items()
    ]
    if formats.registry:
        encodings = registered(formats, columns)
    else:
        encodings = [unregistered(column) for column in columns]
    return replace(plan, encodings={each.column: each for each in encodings})


def _topics(plan: SinkPlan, formats: FormatOptions) -> dict[ColumnFormat, tuple[str, ...]]:
    """The topics for which each column has a schema of its own."""
    if plan.topic is not None and formats.topics:
        raise ConfigError("the options 'topic' and 'topics' are both given")
    topics = formats.topics if plan.topic is None else (plan.topic,)
    found: dict[ColumnFormat, tuple[str, ...]] = {}
    for each in formats.columns:
        if not formats.registry or each.strategy is Strategy.RECORD_NAME:
            found[each] = (ANY_TOPIC,)
        elif topics:
            found[each] = topics
        else:
            raise ConfigError(
                f"{each.column}.subject.name.strategy={each.strategy} uses a subject for each "
                "topic, and the rows name their topics: list all of them in the option 'topics' "
                "('orders,returns'), or use one subject: "
                f"{each.column}.subject.name.strategy=record_name and {each.column}.record.name"
            )
    return found
