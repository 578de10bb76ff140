"""What a write is told to do: the options of Spark's Kafka sink, and ours, checked before any task.

No I/O.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from pyspark.sql.types import StructType

from aioproducer.config import ProducerConfig
from aioproducer.errors import ConfigError

_PREFIX: Final = "kafka."
_BATCH_SIZE: Final = "262144"
"""In bytes, unless it is set: a task hands over megabytes at once. With Kafka's default, 16 KB, a
write takes longer; a megabyte is no better where rows have keys."""
_OWN: Final = ("delivery.guarantee", "sink.id", "sink.batch.id", "sink.marker.topic")
_READ: Final = ("topic", "includeheaders", *_OWN)
_TRANSACTION_TIMEOUT_MS: Final = 300_000
"""Unless ``kafka.transaction.timeout.ms`` says otherwise; Kafka's minute is short for a write."""
_SERIALIZERS: Final = {
    "key.serializer": "keys are serialized with ByteArraySerializer",
    "value.serializer": "value are serialized with ByteArraySerializer",
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final[Mapping[str, Sequence[str]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (_HEADERS,),
    "partition": ("int",),
}
"""Of the columns, in the order in which Spark's sink looks at them."""

_VARIABLE: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class Guarantee(StrEnum):
    """What holds for the rows of a write that ended well."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One write, checked. It pickles; ``${env:NAME}`` in a property is read where it is used."""

    properties: Mapping[str, str] = field(repr=False)
    """Of the producer, by Kafka's names."""
    columns: Sequence[str]
    """Those of :data:`_TYPES` that the rows have."""
    topic: str | None = None
    """For all rows; None: each row says it."""
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    sink_id: str = ""
    """The transactional id, and the group of the marker."""
    batch_id: int | None = None
    """Of a write that is no micro-batch: a write with the same one is written once."""
    marker_topic: str = ""
    """The topic under whose partition 0 the group has the marker; rows never go there for it."""

    @property
    def exactly_once(self) -> bool:
        """Whether the write is one transaction."""
        return self.guarantee is Guarantee.EXACTLY_ONCE

    def config(self, **overrides: Any) -> ProducerConfig:
        """The producer's configuration, with the environment of this process.

        Raises:
            ConfigError: an option is wrong, or a variable is not set.
        """
        properties = {name: _expanded(name, value) for name, value in self.properties.items()}
        properties.setdefault("batch.size", _BATCH_SIZE)
        return ProducerConfig.from_properties(properties, **overrides)


def plan_write(options: Mapping[str, str], columns: Mapping[str, str]) -> SinkPlan:
    """Check ``options`` and ``columns``, the types by their names in Spark's words.

    Raises:
        ConfigError: in the words of Spark's own sink where it has any.
    """
    given = {name.lower(): value for name, value in options.items()}
    rows = plan_rows(columns, given.get("topic"))
    guarantee = _guarantee(given)
    plan = replace(
        rows,
        properties=_properties(given, guarantee),
        guarantee=guarantee,
        sink_id=given.get("sink.id", ""),
        batch_id=_batch_id(given),
        marker_topic=given.get("sink.marker.topic", rows.topic or ""),
    )
    if plan.exactly_once and not plan.marker_topic:
        raise ConfigError(
            "exactly_once with a 'topic' column needs the option 'sink.marker.topic': an existing "
            "topic under which the id of the next batch is kept (as an offset of the consumer "
            "group 'sink.id', not as a record)"
        )
    # Executors may have variables that are not set here.
    asked = (match[1] for value in plan.properties.values() for match in _VARIABLE.finditer(value))
    if all(name in os.environ for name in asked):
        plan.config(transactional_id=plan.sink_id or None)
    return plan


def plan_rows(columns: Mapping[str, str], topic: str | None = None) -> SinkPlan:
    """Check ``columns`` alone, for a producer that is there: of a plan without properties.

    Raises:
        ConfigError: as :func:`plan_write` does.
    """
    topic = None if topic is None else topic.strip()
    if topic == "":
        raise ConfigError("the option 'topic' is empty")
    _check_columns(columns, topic)
    return SinkPlan({}, tuple(name for name in _TYPES if name in columns), topic)


def check_names(options: Iterable[str]) -> None:
    """Refuse options that nobody reads; Spark passes on some of its own, so a format can't.

    Raises:
        ConfigError: with the name.
    """
    for name in options:
        if not name.lower().startswith(_PREFIX) and name.lower() not in _READ:
            raise ConfigError(
                f"there is no option {name!r}; there are {', '.join(_READ)}, and those of a "
                "producer by their Java names after 'kafka.'"
            )


def check_type(column: str, kind: str) -> None:
    """Refuse what a column can't hold, in the words of Spark's own sink.

    Raises:
        ConfigError: with the types that it can.
    """
    taken = _TYPES[column]
    if kind not in taken:
        raise ConfigError(
            f"{column} attribute unsupported type {kind}. {column} must be a(n) "
            f"{' or '.join(taken)}"
        )


def types_of(schema: StructType) -> dict[str, str]:
    """The types of the columns, in Spark's words."""
    return {column.name: column.dataType.simpleString() for column in schema.fields}


def _check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    if topic is None and "topic" not in columns:
        raise ConfigError(
            "topic option required when no 'topic' attribute is present. Use the topic option for "
            "setting a topic."
        )
    if "value" not in columns:
        there = ", ".join(columns) or "none"
        raise ConfigError(f"Required attribute 'value' not found (the columns are: {there})")
    for name in _TYPES:
        if name in columns:
            check_type(name, columns[name])


def _properties(given: Mapping[str, str], guarantee: Guarantee) -> dict[str, str]:
    properties = {
        name.removeprefix(_PREFIX): value
        for name, value in given.items()
        if name.startswith(_PREFIX)
    }
    for name, reason in _SERIALIZERS.items():
        if name in properties:
            raise ConfigError(f"Kafka option '{name}' is not supported as {reason}.")
    if "bootstrap.servers" not in properties:
        raise ConfigError("Option 'kafka.bootstrap.servers' must be specified")
    if "transactional.id" in properties:
        raise ConfigError(
            "Option 'kafka.transactional.id' can't be set: for a transaction give the options "
            "'delivery.guarantee' = 'exactly_once' and 'sink.id'"
        )
    if guarantee is Guarantee.EXACTLY_ONCE:
        properties.setdefault("transaction.timeout.ms", str(_TRANSACTION_TIMEOUT_MS))
    return properties


def _guarantee(given: Mapping[str, str]) -> Guarantee:
    for name in given:
        if name.startswith(("delivery.", "sink.")) and name not in _OWN:
            raise ConfigError(f"there is no option '{name}'; there are {', '.join(_OWN)}")
    said = given.get("delivery.guarantee", Guarantee.AT_LEAST_ONCE)
    if said not in list(Guarantee):
        raise ConfigError(
            f"delivery.guarantee is {said!r}; it is one of {', '.join(map(str, Guarantee))}"
        )
    guarantee = Guarantee(said)
    if guarantee is Guarantee.EXACTLY_ONCE:
        if not given.get("sink.id"):
            raise ConfigError(
                "delivery.guarantee=exactly_once needs the option 'sink.id': a name for this sink "
                "that stays the same over restarts, and that no other sink of the cluster has"
            )
    elif pointless := [name for name in _OWN[1:] if name in given]:
        raise ConfigError(
            f"{', '.join(pointless)}: this is for delivery.guarantee=exactly_once alone"
        )
    return guarantee


def _batch_id(given: Mapping[str, str]) -> int | None:
    said = given.get("sink.batch.id")
    if said is None:
        return None
    if not said.isdecimal():
        raise ConfigError(f"sink.batch.id is {said!r}; it is a number, 0 or more, that grows")
    return int(said)


def _expanded(name: str, value: str) -> str:
    def read(match: re.Match[str]) -> str:
        variable = match[1]
        if variable not in os.environ:
            raise ConfigError(
                f"kafka.{name} refers to the environment variable {variable}, which is not set in "
                "this process; executors get theirs by spark.executorEnv, and the driver, which "
                "begins and commits transactions, has its own"
            )
        return os.environ[variable]

    return _VARIABLE.sub(read, value)
