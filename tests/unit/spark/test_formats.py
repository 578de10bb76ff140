"""The options of formats: read, refused by name, and nothing asked."""

from __future__ import annotations

from base64 import standard_b64decode
from pathlib import Path

import pytest

from aioproducer.errors import ConfigError
from aioproducer.spark.schemas import descriptors
from aioproducer.spark.typed_columns import (
    ColumnFormat,
    Format,
    FormatOptions,
    Strategy,
    format_options,
)

URL = {"schema.registry.url": "http://localhost:1"}
AVRO = URL | {"value.format": "avro"}


def test_nothing_is_asked_for() -> None:
    assert format_options({"topic": "t", "kafka.acks": "1", "path": "/x"}) == FormatOptions()


def test_the_options_of_both_columns() -> None:
    said = format_options(
        {
            "Value.Format": "Avro",
            "key.format": "json",
            "value.record.name": "com.shop.Order",
            "value.subject.name.strategy": "record_name",
            "basic.auth.user.info": "${env:REGISTRY}",
            "normalize.schemas": "true",
            "auto.register.schemas": "FALSE",
            "topics": "orders, returns",
            **URL,
        }
    )
    assert said == FormatOptions(
        (
            ColumnFormat("key", Format.JSON),
            ColumnFormat("value", Format.AVRO, Strategy.RECORD_NAME, "com.shop.Order"),
        ),
        URL | {"basic.auth.user.info": "${env:REGISTRY}"},
        auto_register=False,
        normalize=True,
        topics=("orders", "returns"),
    )
    assert said.names == ("key", "value")


def test_the_latest_schema_is_not_registered() -> None:
    said = format_options(AVRO | {"use.latest.version": "true"})
    assert (said.use_latest, said.auto_register) == (True, False)
    assert format_options(AVRO).auto_register


@pytest.mark.parametrize(
    "name",
    [
        "topic_record_name",
        "TopicRecordNameStrategy",
        "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
    ],
)
def test_names_of_strategies(name: str) -> None:
    options = AVRO | {"value.subject.name.strategy": name, "value.record.name": "a.B"}
    assert format_options(options).columns[0].strategy is Strategy.TOPIC_RECORD_NAME


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value.format": "avr"}, "value.format is 'avr'; it is one of avro, json, protobuf; did"),
        ({"value.format": "avro"}, "value.format=avro needs the option 'schema.registry.url'"),
        ({"key.format": "protobuf"}, "key.format=protobuf needs the option 'schema.registry.url'"),
        ({"value.formt": "avro"}, "unknown option 'value.formt'; did you mean 'value.format'?"),
        (AVRO | {"use.latest": "true"}, "did you mean 'use.latest.version'?"),
        (AVRO | {"auto.register": "true"}, "did you mean 'auto.register.schemas'?"),
        (AVRO | {"use.latest.version": "yes"}, "use.latest.version is 'yes'; it is true or false"),
        (
            AVRO | {"use.latest.version": "true", "auto.register.schemas": "true"},
            "auto.register.schemas and use.latest.version are both true",
        ),
        (AVRO | {"key.record.name": "K"}, "key.record.name: this needs the option 'key.format'"),
        (AVRO | {"value.record.name": "a-b"}, "value.record.name is 'a-b'; it is the name of"),
        (
            AVRO | {"value.subject.name.strategy": "by_topic"},
            "is 'by_topic'; it is one of topic_name, record_name, topic_record_name",
        ),
        (
            AVRO | {"value.subject.name.strategy": "record_name"},
            "value.subject.name.strategy=record_name needs the option 'value.record.name'",
        ),
        (URL, "schema.registry.url: this needs the option 'value.format' or 'key.format'"),
        ({"normalize.schemas": "true"}, "normalize.schemas: this needs the option 'value.format'"),
        (
            {"value.format": "json", "use.latest.version": "true"},
            "use.latest.version: this needs the option 'schema.registry.url'",
        ),
        (
            {"value.format": "json", "basic.auth.user.info": "x"},
            "basic.auth.user.info: this needs the option 'schema.registry.url'",
        ),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        format_options(options)
    assert words in str(caught.value)


def test_properties_of_the_registry_are_not_shown() -> None:
    assert "hunter2" not in repr(format_options(AVRO | {"basic.auth.user.info": "a:hunter2"}))


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("basic.auth.user.info", "alice:hunter2", True),
        ("schema.registry.basic.auth.user.info", "${env:A}:${env:B}", False),
        ("basic.auth.credentials.source", "USER_INFO", False),
        ("bearer.auth.token", "hunter2", True),
        ("schema.registry.ssl.keystore.password", "hunter2", True),
        ("schema.registry.ssl.truststore.location", "/ca.pem", False),
        ("request.header.authorization", "Basic hunter2", True),
        ("schema.registry.url", "https://alice:hunter2@localhost", True),
        ("schema.registry.url", "https://alice:${env:A}@localhost", False),
        ("schema.registry.url", "http://a:b@one:1,http://${env:AUTH}@two:2", True),
    ],
)
def test_plain_secrets(name: str, value: str, is_secret: bool) -> None:
    found = format_options(AVRO | {name: value}).plain_secrets()
    assert found == ({name: value} if is_secret else {})


def test_the_compiler_is_never_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc_tools", reason="needs grpcio-tools")
    foreign = tmp_path / "grpc_tools"
    foreign.mkdir()
    (foreign / "__init__.py").touch()
    (foreign / "protoc.py").write_text("open('was here', 'w')")
    monkeypatch.chdir(tmp_path)
    compiled, _ = descriptors('syntax = "proto3"; message Order { int64 id = 1; }', {})
    assert b"Order" in standard_b64decode(compiled)
    assert not Path("was here").exists()
