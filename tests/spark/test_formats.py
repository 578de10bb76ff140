"""Typed columns in the executors, read back by confluent-kafka's deserializers."""

from __future__ import annotations

import base64
import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    timestamp_pb2,
)
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from aioproducer import Producer
from aioproducer.errors import ConfigError, SchemaNotFoundError, SchemaRegistryUnavailableError
from aioproducer.spark import (
    encode_columns,
    foreach_batch,
    publish_dataframe,
    publish_partitions,
    repartition_by_key,
)
from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.mock_cluster import MockCluster
from tests.spark.sink import for_each_batch, numbers_in_files
from tests.support.read_back import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.mock_cluster, pytest.mark.registry]


@pytest.fixture
def client(registry_server: SchemaRegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry_server.url})


@pytest.fixture
def options(cluster: MockCluster, registry_server: SchemaRegistryServer, topic: str) -> Any:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": topic,
        "value.format": "avro",
        "schema.registry.url": registry_server.url,
    }


def write(df: DataFrame, options: dict[str, Any]) -> None:
    df.write.format("aioproducer").options(**options).mode("append").save()


def read(client: SchemaRegistryClient, cluster: MockCluster, topic: str) -> list[tuple[Any, Any]]:
    """Keys and values, by the deserializer of another client."""
    read_value = AvroDeserializer(client)
    value = SerializationContext(topic, MessageField.VALUE)
    return [(each.key, read_value(each.value, value)) for each in read_topic(cluster, topic)]


ALL_TYPES = """
    named_struct(
        'flag', true, 'tiny', 1Y, 'small', 2S, 'int', 3, 'big', 4L, 'float', 1.5F, 'double', 2.5D,
        'text', 'ü', 'bytes', X'00FF', 'decimal', 123.45BD, 'wide', cast(-1.5 as decimal(38, 10)),
        'day', date'2013-01-31', 'moment', timestamp'2013-01-31 12:34:56.789012+00:00',
        'local', timestamp_ntz'2013-01-31 12:34:56.789012',
        'nested', named_struct('x', 1, 'y', named_struct('z', 'deep')),
        'items', array(named_struct('price', 9.99BD), named_struct('price', null)),
        'numbers', array(1, null, 3), 'map', map('a', 1, 'b', null), 'nothing', cast(null as int)
    )
"""
UTC = datetime.UTC


def test_all_types(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    rows = spark.sql(
        f"select 'full' as key, {ALL_TYPES} as value union all select 'null', null"
    ).coalesce(1)
    write(rows, options)
    found = dict(read(client, cluster, topic))
    assert found.pop(b"null") is None
    assert found == {
        b"full": {
            "flag": True,
            "tiny": 1,
            "small": 2,
            "int": 3,
            "big": 4,
            "float": 1.5,
            "double": 2.5,
            "text": "ü",
            "bytes": b"\x00\xff",
            "decimal": Decimal("123.45"),
            "wide": Decimal("-1.5000000000"),
            "day": datetime.date(2013, 1, 31),
            "moment": datetime.datetime(2013, 1, 31, 12, 34, 56, 789012, UTC),
            "local": datetime.datetime(2013, 1, 31, 12, 34, 56, 789012),
            "nested": {"x": 1, "y": {"z": "deep"}},
            "items": [{"price": Decimal("9.99")}, {"price": None}],
            "numbers": [1, None, 3],
            "map": {"a": 1, "b": None},
            "nothing": None,
        }
    }
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    write(session.sql(f"select 'again' as key, {ALL_TYPES} as value"), options)
    records = {each.key: each.value for each in read_topic(cluster, topic)}
    assert records[b"again"] == records[b"full"]
    schema = json.loads(str(client.get_latest_version(f"{topic}-value").schema.schema_str))
    assert schema["name"] == f"{topic}_value".replace("-", "_")
    kinds = {each["name"]: each["type"] for each in schema["fields"]}
    assert kinds["flag"] == "boolean"
    assert kinds["nothing"] == ["null", "int"]


def test_json(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    rows = spark.sql(f"select 'full' as key, {ALL_TYPES} as value")
    write(rows, options | {"value.format": "json"})
    plain = {name: options[name] for name in ("kafka.bootstrap.servers", "topic")}
    write(rows, plain | {"value.format": "json"})
    first, second = sorted(read_topic(cluster, topic), key=lambda each: len(each.value or b""))
    schema = client.get_latest_version(f"{topic}-value").schema
    value = SerializationContext(topic, MessageField.VALUE)
    found = JSONDeserializer(str(schema.schema_str))(second.value, value)
    assert found == json.loads(first.value or b"")
    assert found["moment"] == "2013-01-31T12:34:56.789012Z"
    assert found["local"] == "2013-01-31T12:34:56.789012"
    assert (found["decimal"], found["map"], found["nested"]["y"]) == (
        123.45,
        {"a": 1, "b": None},
        {"z": "deep"},
    )
    assert "nothing" not in found


SAME_IN_JSON = """
    true as boolean, 1Y as tinyint, -2S as smallint, 2147483647 as int,
    9223372036854775807L as bigint, 1.5F as float, 1e38F as large_float,
    1e-7D as double, 1e22D as large_double, 123.45BD as decimal,
    cast(-1.5 as decimal(38, 10)) as wide, cast(7 as decimal(20, 0)) as whole,
    cast('0.0000000001' as decimal(38, 10)) as tiny_decimal,
    concat('ü " / 😀', char(92), char(10), char(1)) as string, X'00FF' as binary,
    date'0001-01-01' as date, date'9999-12-31' as last_date,
    timestamp_ntz'2013-01-31 12:34:56.789' as timestamp_ntz,
    array(1, null, 3) as array, map('a', 1, 'b', null) as map,
    named_struct('x', 1, 'y', null) as struct, array(named_struct('price', 9.99BD)) as structs,
    cast(null as void) as nothing
"""
OTHERWISE_IN_JSON = {
    "timestamp'2013-01-31 12:34:56.789012+00:00'": (
        "2013-01-31T12:34:56.789012Z",
        "2013-01-31T12:34:56.789Z",
    ),
    "timestamp'2013-01-31 12:34:56+00:00'": ("2013-01-31T12:34:56Z", "2013-01-31T12:34:56.000Z"),
    "timestamp_ntz'2013-01-31 12:34:56'": ("2013-01-31T12:34:56", "2013-01-31T12:34:56.000"),
}
"""Ours have all digits; those of Spark have three."""
TIMES = ("12:30:15", "12:30:15.5", "00:00:00.000001", "23:59:59.99")
"""Spark's to_json() refuses a time; this is its text as a string."""
CAST_FOR_JSON = {
    "double('NaN')": "which JSON does not have: cast it to a string",
    "interval '1 02:03:04.5' day to second": "cast(value.x as string)",
    "interval '-1' day": "cast(value.x as string)",
    "interval '1-2' year to month": "cast(value.x as string)",
    "make_interval(1, 2)": "cast(value.x as string)",
    "parse_json('[1]')": "to_json(value.x)",
    "map(1, 'a')": "cast the keys",
}
"""Columns that are refused, with the cast after which the text is that of Spark."""


def of_json_sink(rows: DataFrame, cluster: MockCluster, topic: str) -> Any:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    publish_partitions(rows.select("value"), topic=topic, **servers, **{"value.format": "json"})
    return json.loads(read_topic(cluster, topic)[-1].value or b"", parse_float=Decimal)


def test_json_is_that_of_sparks_to_json(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    others = (f"{column} as x{n}" for n, column in enumerate(OTHERWISE_IN_JSON))
    rows = session.sql(f"select {SAME_IN_JSON}, {', '.join(others)}").selectExpr("struct(*) value")
    theirs = json.loads(
        rows.selectExpr("to_json(value)").first()[0],  # type: ignore[index]
        parse_float=Decimal,
    )
    ours = of_json_sink(rows, cluster, topic)
    for n, texts in enumerate(OTHERWISE_IN_JSON.values()):
        assert (ours.pop(f"x{n}"), theirs.pop(f"x{n}")) == texts
    assert ours == theirs
    times = ", ".join(f"time'{each}'" for each in TIMES)
    rows = session.sql(f"select array({times}) as value")
    assert of_json_sink(rows, cluster, topic) == list(TIMES)
    strings = rows.selectExpr("cast(value as array<string>)").first()
    assert strings is not None
    assert strings[0] == list(TIMES)


@pytest.mark.parametrize("column", CAST_FOR_JSON)
def test_a_column_without_a_form_in_json_names_its_cast(
    spark: SparkSession, cluster: MockCluster, topic: str, column: str
) -> None:
    rows = spark.range(1).selectExpr(f"named_struct('x', {column}) as value")
    with pytest.raises((ConfigError, PySparkException)) as caught:
        of_json_sink(rows, cluster, topic)
    assert CAST_FOR_JSON[column] in str(caught.value)
    if "cast(" in CAST_FOR_JSON[column]:
        [(cast, theirs)] = rows.selectExpr("cast(value.x as string)", "to_json(value)").collect()
        assert json.loads(theirs)["x"] == cast


def test_protobuf(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    rows = spark.sql(
        """
        select named_struct(
            'flag', true, 'int', -3, 'big', 4L, 'text', 'ü', 'bytes', X'00FF', 'double', 2.5D,
            'moment', timestamp'2013-01-31 12:34:56.789012+00:00',
            'nested', named_struct('x', named_struct('z', 'deep')),
            'numbers', array(1, 3), 'map', map('a', 1), 'nothing', cast(null as int)
        ) as value union all select null
        """
    ).coalesce(1)
    write(rows, options | {"value.format": "protobuf", "value.record.name": "com.shop.Order"})
    write(rows, options | {"value.format": "protobuf", "use.latest.version": "true"})
    text = str(client.get_latest_version(f"{topic}-value").schema.schema_str)
    read_value = ProtobufDeserializer(
        message_type(text, "com.shop.Order"), {"use.deprecated.format": False}
    )
    value = SerializationContext(topic, MessageField.VALUE)
    found = [each.value for each in read_topic(cluster, topic)]
    assert found.count(None) == 2
    for data in filter(None, found):
        assert json_format.MessageToDict(read_value(data, value)) == {
            "flag": True,
            "int": -3,
            "big": "4",
            "text": "ü",
            "bytes": "AP8=",
            "double": 2.5,
            "moment": "2013-01-31T12:34:56.789012Z",
            "nested": {"x": {"z": "deep"}},
            "numbers": [1, 3],
            "map": {"a": 1},
        }


def message_type(text: str, name: str) -> Any:
    """The class of a message, from its file's descriptor."""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


LATEST = {
    "type": "record",
    "name": "Order",
    "namespace": "com.shop",
    "fields": [
        {"name": "note", "type": "string", "default": "none"},
        {"name": "Total", "type": "double"},
        {"name": "id", "type": "long"},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "SKU", "type": ["string", "null"]},
                        {"name": "size", "type": {"type": "enum", "name": "S", "symbols": ["L"]}},
                    ],
                },
            },
        },
    ],
}
ORDER = """
    named_struct('id', cast(id as int), 'total', 2.5F,
                 'items', array(named_struct('size', 'L', 'sku', concat('s', id)))) as value
"""


def test_the_latest_schema_is_matched_by_name(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    client.register_schema(f"{topic}-value", Schema(json.dumps(LATEST), "AVRO"))
    report = publish_partitions(
        spark.range(2).selectExpr(ORDER), **options, **{"use.latest.version": True}
    )
    assert report.records == 2
    assert sorted(read(client, cluster, topic), key=str) == [
        (None, {"note": "none", "Total": 2.5, "id": n, "items": [{"SKU": f"s{n}", "size": "L"}]})
        for n in range(2)
    ]
    assert len(client.get_versions(f"{topic}-value")) == 1


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("named_struct('id', 1, 'total', 1D, 'item', 1)", "value.item"),
        ("named_struct('id', 1.5D, 'total', 1D, 'items', null)", "'value.id' is of type double"),
        ("named_struct('id', 1, 'items', null)", "needs the field 'Total'"),
    ],
)
def test_a_column_that_does_not_fit_the_latest_schema_is_named(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    topic: str,
    column: str,
    words: str,
) -> None:
    client.register_schema(f"{topic}-value", Schema(json.dumps(LATEST), "AVRO"))
    rows = spark.range(1).selectExpr(f"{column} as value")
    with pytest.raises(ConfigError, match=rf"^the latest schema of '{topic}-value'.*") as caught:
        publish_partitions(rows, **options, **{"use.latest.version": True})
    assert words in str(caught.value)


def test_a_value_that_does_not_fit_is_named(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    client.register_schema(f"{topic}-value", Schema(json.dumps(LATEST), "AVRO"))
    rows = spark.range(0, 3, numPartitions=1).selectExpr(
        "named_struct('id', if(id = 1, null, id), 'total', 1D,"
        " 'items', array(named_struct('size', 'L', 'SKU', 's'))) as value"
    )
    with pytest.raises(PySparkException, match=rf"for topic '{topic}': row 1: 'value\.id'.* null"):
        publish_partitions(rows, **options, **{"use.latest.version": True})


def test_what_is_wrong_is_said_before_any_task(
    spark: SparkSession, options: dict[str, Any]
) -> None:
    rows = spark.sql("select named_struct('a', 1) as value")
    for more, words in (
        ({"value.format": "avrro"}, "did you mean 'avro'"),
        ({"value.subject.name.strategi": "topic_name"}, "value.subject.name.strategy"),
        ({"basic.auth.user.info": "alice:hunter2"}, "contains a secret, which Spark shows"),
        ({"auto.register.schemas": "false"}, "error 40401"),
        ({"schema.registry.url": "http://127.0.0.1:1"}, "127.0.0.1:1"),
    ):
        with pytest.raises(PySparkException) as caught:
            write(rows, options | more)
        assert words in str(caught.value)
        assert "Job aborted" not in str(caught.value)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("named_struct('a', array(parse_json('1')))", "value.a.element is of type variant"),
        ("named_struct('a', map(1, 'x'))", "'value.a'"),
        ("named_struct('a b', 1)", "'value.a b' can't be a name in Avro"),
        ("named_struct('a', interval '1' day)", "cast(value.a as string) has"),
        ("named_struct('a', interval '1' month)", "cast(value.a as string) has"),
        ("named_struct('a', 1, 'a', 2)", "value has two fields with the name 'a'"),
    ],
)
def test_a_column_that_has_no_form_is_named(
    spark: SparkSession, options: dict[str, Any], column: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        publish_partitions(spark.range(1).selectExpr(f"{column} as value"), **options)
    assert words in str(caught.value)


def test_a_registry_that_is_not_there(spark: SparkSession, options: dict[str, Any]) -> None:
    rows = spark.sql("select named_struct('a', 1) as value")
    with pytest.raises(SchemaRegistryUnavailableError, match=r"127\.0\.0\.1:1"):
        publish_partitions(rows, **{**options, "schema.registry.url": "http://127.0.0.1:1"})


def test_topics_of_rows(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    del options["topic"]
    names = [f"{topic}-a", f"{topic}-b"]
    cluster.create_topics(dict.fromkeys(names, 1))
    rows = spark.range(4).selectExpr(
        f"concat('{topic}-', if(id % 2 = 0, 'a', 'b')) as topic", "named_struct('id', id) as value"
    )
    with pytest.raises(ConfigError, match=r"list all of them in the option 'topics'"):
        publish_partitions(rows, **options)
    publish_partitions(rows, **options, topics=",".join(names))
    by_record = {"value.subject.name.strategy": "record_name", "value.record.name": "x.Numbered"}
    publish_partitions(rows, **options, **by_record)
    for first, name in enumerate(names):
        found = [value["id"] for _, value in read(client, cluster, name)]
        assert sorted(found) == sorted([first, first + 2] * 2)
    assert client.get_latest_version("x.Numbered").version == 1
    with pytest.raises(PySparkException, match=f"a row names the topic '{names[1]}'"):
        publish_partitions(rows, **options, topics=names[0])


def test_keys_have_formats_too(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    del options["value.format"]
    rows = spark.range(2).selectExpr("id as key", "cast(id as string) as value")
    write(rows, options | {"key.format": "avro"})
    key = AvroDeserializer(client)
    context = SerializationContext(topic, MessageField.KEY)
    found = [(key(each.key, context), each.value) for each in read_topic(cluster, topic)]
    assert sorted(found) == [(0, b"0"), (1, b"1")]
    assert client.get_latest_version(f"{topic}-key").schema.schema_str == '"long"'


def test_foreach_batch(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
    tmp_path: Path,
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)
    typed = rows.selectExpr("named_struct('id', cast(value as long)) as value")
    for_each_batch(typed, foreach_batch(**options), tmp_path / "checkpoint")
    assert sorted(value["id"] for _, value in read(client, cluster, topic)) == list(range(100))
    with pytest.raises(ConfigError, match=r"'value\.formt'; did you mean 'value\.format'"):
        foreach_batch(**(options | {"value.formt": "avro"}))


async def test_publish_dataframe(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    rows = spark.sql(f"select {ALL_TYPES} as value")
    formats = {name: options[name] for name in ("value.format", "schema.registry.url")}
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await publish_dataframe(rows, producer, topic, formats=formats)
        write(rows, options)
        [first, second] = read(client, cluster, topic)
        assert first == second
        unavailable = formats | {"schema.registry.url": "http://127.0.0.1:1"}
        with pytest.raises(SchemaRegistryUnavailableError):
            await publish_dataframe(rows, producer, topic, formats=unavailable)
        with pytest.raises(ConfigError, match=r"did you mean 'value\.format'"):
            await publish_dataframe(rows, producer, topic, formats={"value.formats": "avro"})
        with pytest.raises(SchemaNotFoundError):
            await publish_dataframe(
                rows, producer, "t", formats=formats | {"auto.register.schemas": False}
            )


def test_encoded_columns_go_where_their_keys_put_them(
    spark: SparkSession,
    options: dict[str, Any],
    client: SchemaRegistryClient,
    cluster: MockCluster,
    topic: str,
) -> None:
    rows = spark.range(20).selectExpr(
        "named_struct('id', id) as key", "map('id', id) as value", "'other' as other"
    )
    with pytest.raises(ConfigError, match=r"encode_columns\(\) creates them"):
        repartition_by_key(rows, 3)
    formats = {name: options[name] for name in ("value.format", "schema.registry.url")}
    encoded = encode_columns(rows, topic, **formats, **{"key.format": "avro"})
    assert encoded.dtypes == [("key", "binary"), ("value", "binary")]
    plain = {name: options[name] for name in ("kafka.bootstrap.servers", "topic")}
    write(repartition_by_key(encoded, 3), plain)
    placed = {each.key: each.partition for each in read_topic(cluster, topic)}
    write(rows, options | {"key.format": "avro"})
    for each in read_topic(cluster, topic):
        assert placed[each.key] == each.partition
    values = sorted(value["id"] for _, value in read(client, cluster, topic))
    assert values == sorted(2 * list(range(20)))
