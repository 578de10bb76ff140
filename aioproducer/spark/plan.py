"""The options of a write: those of Spark's Kafka sink, and ours, checked before any task.

Secrets in options are refused where Spark shows what it does not redact. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeAlias

from pyspark.sql.types import StructType

from aioproducer.config import ProducerConfig
from aioproducer.config.names import BY_JAVA_NAME
from aioproducer.config.plain_secrets import hidden_properties, plain_secrets_of
from aioproducer.config.properties import (
    BUILT_IN,
    BUILT_IN_PROPERTIES,
    CONFIG_PROVIDERS,
    Providers,
    UnresolvedError,
    settled,
)
from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import plain_logger
from aioproducer.spark.typed_columns import (
    BEGINNINGS,
    COLUMNS,
    NAMES,
    REGISTRY_PREFIXES,
    ColumnEncoding,
    nearest,
)

REDACTED: Final = re.compile(r"(?i)secret|password|token|access[.]?key")
"""Spark's default for ``spark.redaction.regex``: it hides an option whose name or value has it, and
shows all others in the plans of streams, in its logs and in its UI."""

_REFERENCE: Final = (
    "use a reference: '${env:NAME}', '${file:/path/of.properties:key}' or '${dir:/directory:file}'"
)
logger: Final = plain_logger(__name__)


def refuse_shown(secrets: Mapping[str, str]) -> None:
    """Refuse secrets that Spark would show, and warn of secrets that it redacts.

    ``secrets``: options that hold a secret as it is, each with its value.

    Raises:
        ConfigError: with the option, and what to give instead.
    """
    for name, value in secrets.items():
        if not REDACTED.search(name) and not REDACTED.search(value):
            raise ConfigError(
                f"{name} contains a secret, which Spark shows in its plans and logs; {_REFERENCE}"
            )
    if secrets:
        _tell_of(tuple(secrets))


@cache
def _tell_of(names: tuple[str, ...]) -> None:
    """Log them once in a process: a stream plans each of its micro-batches."""
    logger.warning(
        "%s: a secret in the options of a write, which only spark.redaction.regex hides; %s",
        ", ".join(names),
        _REFERENCE,
    )


_PREFIX: Final = "kafka."
_DEFAULTS: Final = {"batch.size": "262144", "max.block.ms": "20000"}
"""The defaults that differ from Kafka's. ``batch.size``, in bytes: a task hands over megabytes at
once. With Kafka's own, 16 KB, a write takes longer; a megabyte is no better where rows have keys.
``max.block.ms``: Spark tries a task four times, so a cluster that is down would be told after four
times Kafka's minute. The election of a leader or coordinator takes about ten seconds."""
_OWN: Final = (
    "delivery.guarantee",
    "sink.id",
    "sink.batch.id",
    "sink.marker.topic",
    "sink.attempts",
)
_ATTEMPTS: Final = 4
"""The default of ``sink.attempts``: that of ``spark.task.maxFailures``."""
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_FAIL: Final = "failondataloss"
"""An option of Spark's Kafka source, with its name."""
_KNOWN: Final = ("topic", *_OWN, _DEAD_LETTERS, "failOnDataLoss", *NAMES)
_READ: Final = {each.lower() for each in (*_KNOWN, "includeHeaders")}
_KNOWN_BEGINNINGS: Final = (_PREFIX, *REGISTRY_PREFIXES)
_OWN_BEGINNINGS: Final = ("delivery.", "sink.", "errors.", *BEGINNINGS)
"""Spark passes on no option of its own with one of these."""
_OF_SPARK: Final = ("dateformat", "fileformat", "enforceschema", "overwriteschema")
"""The options of Spark and Delta that look like ours, misspelled."""
_TRANSACTION_TIMEOUT_MS: Final = 300_000
"""The default of ``transaction.timeout.ms``; Kafka's minute is short for a write."""
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
"""The types of the columns, in the order in which Spark's sink looks at them. A column that has
a format may have any other type."""

_FORMATS: Final[Mapping[str, str]] = {
    column: f", or the option {column}.format=avro, json or protobuf must be given"
    for column in COLUMNS
}

Option: TypeAlias = str | int | float | bool | None
"""The value of an option, as Spark's writers take it."""


class Guarantee(StrEnum):
    """The guarantee for the rows of a write that ended well."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One write, checked. It pickles; placeholders in a property are read where it is used."""

    properties: Mapping[str, str] = field(repr=False)
    """The producer's properties, by Kafka's names."""
    columns: Sequence[str]
    """The columns of :data:`_TYPES` that the rows have."""
    topic: str | None = None
    """The topic of all rows; None: each row names its own."""
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    sink_id: str = ""
    """The transactional id, and the group of the marker."""
    batch_id: int | None = None
    """The id of a write that is no micro-batch: writes with the same id are written once."""
    marker_topic: str = ""
    """The topic under whose partition 0 the group has the marker; no row goes there for it."""
    attempts: int = _ATTEMPTS
    """How often the driver's functions write, until they give up."""
    encodings: Mapping[str, ColumnEncoding] = field(default_factory=dict)
    """The encodings of the columns that have a format."""
    fail_on_data_loss: bool = False
    """True: a query whose marker is gone fails. False: it logs a warning and goes on."""
    dead_letter_topic: str = ""
    """The topic of rows that no broker would take; empty: such a row fails the write."""

    @property
    def exactly_once(self) -> bool:
        """True if the write is one transaction."""
        return self.guarantee is Guarantee.EXACTLY_ONCE

    def config(self, **overrides: Any) -> ProducerConfig:
        """The producer's configuration, with the environment and the files of this process.

        No placeholder in ``overrides`` is resolved: they are names that the write has, too.

        Raises:
            ConfigError: an option is wrong.
            UnresolvedError: a variable or a file is not there.
        """
        properties = hidden_properties(_DEFAULTS | _with_providers(self.properties))
        try:
            return ProducerConfig.from_properties(
                properties, **{name: settled(value) for name, value in overrides.items()}
            )
        except UnresolvedError as error:
            problem = str(error)
        raise UnresolvedError(
            f"kafka.{problem}; executors get variables from spark.executorEnv and files from "
            "their machines; the driver, which begins and commits transactions, needs its own"
        )

    def plain_secrets(self) -> tuple[str, ...]:
        """The options that hold a secret as it is."""
        providers = Providers.of(_with_providers(self.properties)) or BUILT_IN
        found = plain_secrets_of(self.properties, providers)
        return tuple(f"{_PREFIX}{name}" for name in found)


def plan_write(
    options: Mapping[str, str], columns: Mapping[str, str], formatted: Collection[str] = ()
) -> SinkPlan:
    """Check ``options`` and ``columns``, the types by their names in Spark's words.

    The columns in ``formatted`` have a format.

    Raises:
        ConfigError: in the words of Spark's own sink where it has any.
    """
    given = {name.lower(): value for name, value in options.items()}
    rows = plan_rows(columns, given.get("topic"), formatted)
    guarantee = _guarantee(given)
    plan = replace(
        rows,
        properties=_properties(given, guarantee),
        guarantee=guarantee,
        sink_id=given.get("sink.id", ""),
        batch_id=_number(given, "sink.batch.id"),
        attempts=_number(given, "sink.attempts", least=1) or _ATTEMPTS,
        marker_topic=given.get("sink.marker.topic", rows.topic or ""),
        fail_on_data_loss=_fails_on_data_loss(given, guarantee),
        dead_letter_topic=_dead_letter_topic(given, rows.topic),
    )
    if plan.exactly_once and not plan.marker_topic:
        raise ConfigError(
            "exactly_once with a 'topic' column needs the option 'sink.marker.topic': an existing "
            "topic under which the id of the next batch is stored (as an offset of the consumer "
            "group 'sink.id', not as a record)"
        )
    # Executors may have variables and files that are not here.
    with suppress(UnresolvedError):
        plan.config(transactional_id=plan.sink_id or None)
    return plan


def plan_rows(
    columns: Mapping[str, str], topic: str | None = None, formatted: Collection[str] = ()
) -> SinkPlan:
    """Check only ``columns``. The plan has no properties, because the producer exists already.

    Raises:
        ConfigError: as :func:`plan_write` does.
    """
    topic = None if topic is None else topic.strip()
    if topic == "":
        raise ConfigError("the option 'topic' is empty")
    _check_columns(columns, topic, formatted)
    return SinkPlan({}, tuple(name for name in _TYPES if name in columns), topic)


def option_texts(options: Mapping[str, Option]) -> dict[str, str]:
    """The options as Spark's writers pass them on."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }


def check_names(options: Iterable[str], *, spark_options: bool = False) -> None:
    """Refuse options that nobody reads.

    ``spark_options``: Spark's own may be among them, as in a format. Then only those are refused
    that are named almost as ours: ``deliveryGuarantee``, or ``linger.ms`` without its prefix.

    Raises:
        ConfigError: with the name.
    """
    for name in options:
        lower = name.lower()
        if lower in _READ or lower.startswith(_KNOWN_BEGINNINGS):
            continue
        if spark_options and lower in _OF_SPARK:
            continue
        java_name = lower.removeprefix("kafka_").replace("_", ".")
        meant = nearest(name, _KNOWN)
        if java_name in BY_JAVA_NAME:
            meant = f"; did you mean {_PREFIX + java_name!r}?"
        if spark_options and not meant and not lower.startswith(_OWN_BEGINNINGS):
            continue
        every = (
            f"; the options are {', '.join(_KNOWN)}, and those of a producer by their Java names "
            f"after '{_PREFIX}'"
        )
        raise ConfigError(f"unknown option {name!r}{meant or every}")


def refuse_shown_secrets(plan: SinkPlan) -> None:
    """Refuse secrets that Spark would show, and warn of secrets that it redacts.

    Raises:
        ConfigError: with the option, and what to give instead.
    """
    plain = plan.plain_secrets()
    refuse_shown({name: plan.properties[name.removeprefix(_PREFIX)] for name in plain})


def check_type(column: str, kind: str) -> None:
    """Refuse a type that a column can't have, in the words of Spark's own sink.

    Raises:
        ConfigError: with the types that it can have.
    """
    taken = _TYPES[column]
    if kind not in taken:
        raise ConfigError(
            f"{column} attribute unsupported type {kind}. {column} must be a(n) "
            f"{' or '.join(taken)}{_FORMATS.get(column, '')}"
        )


def types_of(schema: StructType) -> dict[str, str]:
    """The types of the columns, in Spark's words.

    Raises:
        ConfigError: two columns that a record is made of have the same name.
    """
    names = schema.fieldNames()
    if twice := next((name for name in _TYPES if names.count(name) > 1), None):
        raise ConfigError(f"there are {names.count(twice)} columns with the name {twice!r}")
    return {column.name: column.dataType.simpleString() for column in schema.fields}


def _check_columns(
    columns: Mapping[str, str], topic: str | None, formatted: Collection[str]
) -> None:
    if topic is None and "topic" not in columns:
        raise ConfigError(
            "topic option required when no 'topic' attribute is present. Use the topic option for "
            "setting a topic."
        )
    if "value" not in columns:
        there = ", ".join(columns) or "none"
        raise ConfigError(f"Required attribute 'value' not found (the columns are: {there})")
    for name in formatted:
        if name not in columns:
            raise ConfigError(f"there is no column {name!r} for the option '{name}.format'")
    for name in _TYPES:
        if name in columns and name not in formatted:
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
            "Option 'kafka.transactional.id' can't be set: for a transaction set the options "
            "'delivery.guarantee' = 'exactly_once' and 'sink.id'"
        )
    if guarantee is Guarantee.EXACTLY_ONCE:
        properties.setdefault("transaction.timeout.ms", str(_TRANSACTION_TIMEOUT_MS))
    return properties


def _guarantee(given: Mapping[str, str]) -> Guarantee:
    said = given.get("delivery.guarantee", Guarantee.AT_LEAST_ONCE)
    if said not in list(Guarantee):
        raise ConfigError(
            f"delivery.guarantee is {said!r}; it is one of {', '.join(map(str, Guarantee))}"
        )
    guarantee = Guarantee(said)
    if guarantee is Guarantee.EXACTLY_ONCE:
        if not given.get("sink.id"):
            raise ConfigError(
                "delivery.guarantee=exactly_once needs the option 'sink.id': a name that is the "
                "same after a restart, and that no other sink of the cluster uses"
            )
    elif pointless := [name for name in _OWN[1:] if name in given]:
        raise ConfigError(f"{', '.join(pointless)}: this needs delivery.guarantee=exactly_once")
    return guarantee


def _fails_on_data_loss(given: Mapping[str, str], guarantee: Guarantee) -> bool:
    said = given.get(_FAIL, "false").lower()
    if said not in ("true", "false"):
        raise ConfigError(f"failOnDataLoss is {said!r}; it is true or false")
    if said == "true" and guarantee is Guarantee.AT_LEAST_ONCE:
        raise ConfigError("failOnDataLoss: this needs delivery.guarantee=exactly_once")
    return said == "true"


def _dead_letter_topic(given: Mapping[str, str], topic: str | None) -> str:
    name = given.get(_DEAD_LETTERS, "").strip()
    if name and name == topic:
        raise ConfigError(f"{_DEAD_LETTERS} is {name!r}, the topic of the rows: name another one")
    return name


def _number(given: Mapping[str, str], name: str, least: int = 0) -> int | None:
    said = given.get(name)
    if said is None:
        return None
    if not said.isdecimal() or int(said) < least:
        kind = "an increasing number" if name == "sink.batch.id" else "a number"
        raise ConfigError(f"{name} is {said!r}; it must be {kind}, {least} or more")
    return int(said)


def _with_providers(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with Kafka's providers for placeholders, unless they name some."""
    if CONFIG_PROVIDERS in properties:
        return dict(properties)
    return {**BUILT_IN_PROPERTIES, **properties}
