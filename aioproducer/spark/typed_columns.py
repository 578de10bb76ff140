"""Typed columns: the options of their formats, their Arrow types, and their encoding. No I/O.

The names of the options are those of Confluent's serializers. Keys and values of rows become
records of a format column by column. The Arrow types are those with which tasks get the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StructType,
    TimestampType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)

from aioproducer.config.properties import BUILT_IN, Reference
from aioproducer.errors import ConfigError, SerializationError
from aioproducer.spark.internals import to_arrow_type

if TYPE_CHECKING:
    from aioproducer.engine.columnar import RowEncoder


Column: TypeAlias = Literal["key", "value"]

COLUMNS: Final[tuple[Column, ...]] = ("key", "value")
_COMMON: Final = ("auto.register.schemas", "use.latest.version", "normalize.schemas", "topics")
_OF_A_COLUMN: Final = ("format", "record.name", "subject.name.strategy")
NAMES: Final = (
    *(f"{column}.{name}" for name in _OF_A_COLUMN for column in COLUMNS),
    "schema.registry.url",
    *_COMMON,
)
"""The options whose names are known here."""
REGISTRY_PREFIXES: Final = ("schema.registry.", "basic.auth.", "bearer.auth.", "request.header.")
"""The beginnings of the names that the client of the registry knows."""
BEGINNINGS: Final = ("key.", "value.", "auto.", "use.", "normalize.")
"""The beginnings of the other names."""
_SECRETS: Final = (
    *("user.info", "token", "secret", "password", "keystore.key", "jaas.config"),
    *("authorization", "api-key", "cookie"),
)
"""The ends of the names of the registry's properties that hold a secret; a URL may have one."""
_ALIKE: Final = 0.65
"""difflib's ratio from which a name is taken for a misspelled one."""
_FULL_NAME: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


class Format(StrEnum):
    """The encoding of a column."""

    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"


class Strategy(StrEnum):
    """The rule for the name of a schema's subject, ``TopicNameStrategy`` and so on."""

    TOPIC_NAME = "topic_name"
    RECORD_NAME = "record_name"
    TOPIC_RECORD_NAME = "topic_record_name"


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """The format of one column, by its options."""

    column: Column
    format: Format
    strategy: Strategy = Strategy.TOPIC_NAME
    record_name: str = ""
    """The full name of the record, with its namespace; empty: one that the topic gives."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The formats of a write's columns, and the treatment of their schemas."""

    columns: tuple[ColumnFormat, ...] = ()
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The properties of the registry's client; empty: there is no registry."""
    auto_register: bool = True
    use_latest: bool = False
    normalize: bool = False
    topics: tuple[str, ...] = ()
    """The topics that the column ``topic`` may name."""

    @property
    def names(self) -> tuple[Column, ...]:
        """The columns that have a format."""
        return tuple(each.column for each in self.columns)

    def plain_secrets(self) -> dict[str, str]:
        """The properties of the registry's client that hold a secret as it is."""
        return {
            name: value
            for name, value in self.registry.items()
            if (name.endswith(_SECRETS) and _is_plain(value))
            or (name.endswith("url") and any("@" in x and _is_plain(x) for x in value.split(",")))
        }


def format_options(options: Mapping[str, str]) -> FormatOptions:
    """Read the options of the formats; other options are left alone.

    Raises:
        ConfigError: with the option.
    """
    given = {name.lower(): value.strip() for name, value in options.items()}
    columns = tuple(_columns(given))
    registry = {name: value for name, value in given.items() if name.startswith(REGISTRY_PREFIXES)}
    if not columns:
        if pointless := [*registry, *(name for name in _COMMON if name in given)]:
            raise ConfigError(
                f"{', '.join(pointless)}: this needs the option 'value.format' or 'key.format'"
            )
        return FormatOptions()
    _check_registry(columns, registry, given)
    use_latest = _flag(given, "use.latest.version", default=False)
    auto_register = _flag(given, "auto.register.schemas", default=not use_latest)
    if use_latest and auto_register:
        raise ConfigError(
            "auto.register.schemas and use.latest.version are both true: either the schema of the"
            " columns is registered, or the subject's latest one is used"
        )
    return FormatOptions(
        columns,
        registry,
        auto_register,
        use_latest,
        _flag(given, "normalize.schemas", default=False),
        _topics(given),
    )


def check_format_names(options: Iterable[str]) -> None:
    """Refuse options that are not those of formats.

    Raises:
        ConfigError: with the name, and the nearest known one.
    """
    for name in options:
        if name.lower() not in NAMES and not name.lower().startswith(REGISTRY_PREFIXES):
            raise ConfigError(
                f"unknown option {name!r}{nearest(name, NAMES)}; the options of formats are "
                f"{', '.join(NAMES)}"
            )


def nearest(name: str, known: Sequence[str]) -> str:
    """``; did you mean 'x'?``, or nothing if none of the known names is like ``name``.

    Only letters and digits count: ``deliveryGuarantee`` is like ``delivery.guarantee``.
    """
    spelled = {_letters(each): str(each) for each in known}
    near = get_close_matches(_letters(name), spelled, n=1, cutoff=_ALIKE)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_plain(value: str) -> bool:
    return Reference.in_value(value, BUILT_IN) is None


def _columns(given: Mapping[str, str]) -> Iterator[ColumnFormat]:
    for column in COLUMNS:
        said = given.get(f"{column}.format")
        if said is None:
            if pointless := [name for name in given if name.startswith(f"{column}.")]:
                raise ConfigError(
                    f"{', '.join(pointless)}: this needs the option '{column}.format'"
                )
            continue
        if said.lower() not in list(Format):
            raise ConfigError(
                f"{column}.format is {said!r}; it is one of {', '.join(Format)}"
                f"{nearest(said, list(Format))}"
            )
        strategy, record_name = _strategy(given, column), given.get(f"{column}.record.name", "")
        if record_name and not re.fullmatch(_FULL_NAME, record_name, re.ASCII):
            raise ConfigError(
                f"{column}.record.name is {record_name!r}; it is the name of a record, with its"
                " namespace before it: 'com.example.Order'"
            )
        if strategy is not Strategy.TOPIC_NAME and not record_name:
            raise ConfigError(
                f"{column}.subject.name.strategy={strategy} needs the option"
                f" '{column}.record.name', which names the subject"
            )
        yield ColumnFormat(column, Format(said.lower()), strategy, record_name)


def _strategy(given: Mapping[str, str], column: Column) -> Strategy:
    name = f"{column}.subject.name.strategy"
    said = given.get(name, Strategy.TOPIC_NAME)
    # Java's class names: io.confluent.kafka.serializers.subject.TopicRecordNameStrategy
    simple = said.rpartition(".")[2].removesuffix("Strategy")
    known = simple if said in list(Strategy) else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", simple)
    if known.lower() not in list(Strategy):
        raise ConfigError(f"{name} is {said!r}; it is one of {', '.join(Strategy)}")
    return Strategy(known.lower())


def _check_registry(
    columns: Sequence[ColumnFormat], registry: Mapping[str, str], given: Mapping[str, str]
) -> None:
    if registry.get("schema.registry.url"):
        return
    for each in columns:
        if each.format is not Format.JSON:
            raise ConfigError(
                f"{each.column}.format={each.format} needs the option 'schema.registry.url'"
            )
    strategies = [f"{each.column}.subject.name.strategy" for each in columns]
    if pointless := [
        name for name in (*registry, *_COMMON, *strategies) if name in given and name != "topics"
    ]:
        raise ConfigError(f"{', '.join(pointless)}: this needs the option 'schema.registry.url'")


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    said = given.get(name, str(default)).lower()
    if said not in ("true", "false"):
        raise ConfigError(f"{name} is {said!r}; it is true or false")
    return said == "true"


def _topics(given: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in given.get("topics", "").split(",") if name.strip())


ANY_TOPIC: Final = ""
"""The topic of a schema that serves all topics."""


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The schema of a column's records, and the bytes before each of them. It pickles."""

    format: Format
    text: str = ""
    prefix: bytes = b""
    """The registry's id of the schema, in the form that its serializers write."""
    named: tuple[tuple[str, str], ...] = ()
    """The schemas that ``text`` refers to, by the names of the references."""
    message: str = ""
    """The full name of the message of Protobuf, whose schemas are descriptors in base64."""


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """The encoding of one column. It pickles."""

    column: Column
    schemas: Mapping[str, RecordSchema]
    """The schemas of topics, or of :data:`ANY_TOPIC`."""

    def encoded(self, column: pa.Array, topic: str) -> pa.Array:
        """The records of ``column`` as binary values; a null stays a null.

        Raises:
            SerializationError: a value does not fit the schema, or the topic has no schema.
        """
        schema = self.schemas.get(topic) or self.schemas.get(ANY_TOPIC)
        if schema is None:
            raise SerializationError(
                f"a row names the topic {topic!r}, which is not in the option 'topics': "
                f"{', '.join(self.schemas)}"
            )
        try:
            return encoder(schema, column.type, self.column).encode(column)
        except SerializationError as error:
            raise SerializationError(f"a row for topic {topic!r}: {error}") from error


@lru_cache(maxsize=64)
def encoder(schema: RecordSchema, kind: pa.DataType, column: Column) -> RowEncoder:
    """The encoder for columns of the type ``kind``. A process makes it once.

    Raises:
        ColumnError: a part of the type does not fit the schema, with its path.
        ConfigError: the schema can't be used.
    """
    # Tasks without typed columns have no use for these modules.
    from aioproducer.engine.columnar import avro_encoder, json_encoder, protobuf_encoder

    if schema.format is Format.JSON:
        return json_encoder(kind, schema.prefix, column=column)
    if schema.format is Format.PROTOBUF:
        message = _message(schema)
        return protobuf_encoder(kind, message, schema.prefix, column=column)
    named = dict(schema.named)
    return avro_encoder(kind, schema.text, schema.prefix, named, column=column)


def _message(schema: RecordSchema) -> Any:
    from aioproducer.schema_registry.model import Schema
    from aioproducer.schema_registry.protobuf_schema import message_class

    named = {path: Schema(text, "PROTOBUF") for path, text in schema.named}
    try:
        made = message_class(Schema(schema.text, "PROTOBUF"), named, schema.message, "the schema")
    except SerializationError as error:
        raise ConfigError(str(error)) from error
    return made.DESCRIPTOR


_WITHOUT_FORM: Final = (
    CalendarIntervalType,
    DayTimeIntervalType,
    VariantType,
    YearMonthIntervalType,
)
_STRUCTS_OF_OTHERS: Final = ("geometry", "geography")
"""Types that travel as a struct of Spark's own; before Spark 4.1 there are none."""


def arrow_type(data_type: DataType, path: str) -> pa.DataType:
    """The Arrow type of a column. The time zone of a task's timestamps, and the size of its
    offsets, may be others.

    Raises:
        ConfigError: it has none, or one that means nothing to others; with the path of the column.
    """
    if isinstance(data_type, UserDefinedType):
        return arrow_type(data_type.sqlType(), path)
    if isinstance(data_type, ArrayType):
        element = arrow_type(data_type.elementType, f"{path}.element")
        return pa.list_(_field("element", element, data_type.containsNull))
    if isinstance(data_type, MapType):
        if isinstance(data_type.keyType, NullType):
            raise _unsupported(data_type, path)
        key = arrow_type(data_type.keyType, f"{path}.key")
        value = arrow_type(data_type.valueType, f"{path}.value")
        return pa.map_(
            pa.field("key", key, nullable=False),
            _field("value", value, data_type.valueContainsNull),
        )
    if isinstance(data_type, StructType):
        return pa.struct(_fields(data_type, path))
    if isinstance(data_type, _WITHOUT_FORM) or data_type.typeName() in _STRUCTS_OF_OTHERS:
        raise _unsupported(data_type, path)
    if isinstance(data_type, TimestampType):  # Spark 4.3 wants to know the time zone
        return pa.timestamp("us", tz="UTC")
    try:
        return to_arrow_type(data_type)
    except PySparkException:
        raise _unsupported(data_type, path) from None


def _fields(data_type: StructType, path: str) -> list[pa.Field]:
    names = data_type.fieldNames()
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{path} has two fields with the name {twice!r}")
    return [
        _field(each.name, arrow_type(each.dataType, f"{path}.{each.name}"), each.nullable)
        for each in data_type.fields
    ]


def _field(name: str, kind: pa.DataType, nullable: bool) -> pa.Field:
    # In Spark, array() is an array of nulls that has none; a field of Arrow is not like that.
    return pa.field(name, kind, nullable=nullable or pa.types.is_null(kind))


def _unsupported(data_type: DataType, path: str) -> ConfigError:
    advice = f"cast({path} as string) has the text of Spark's to_json()"
    if isinstance(data_type, VariantType):
        advice = f"to_json({path}) makes it a string"
    return ConfigError(
        f"{path} is of type {data_type.simpleString()}, which no format supports; cast it: {advice}"
    )
