"""Options, columns and formats of the sink: Spark's words, before anything runs."""

from __future__ import annotations

import pickle
from base64 import standard_b64decode
from pathlib import Path

import pytest

from aioproducer.errors import ConfigError
from aioproducer.spark.plan import (
    Guarantee,
    SinkPlan,
    check_names,
    plan_write,
    refuse_shown_secrets,
)
from aioproducer.spark.schemas import descriptors
from aioproducer.spark.typed_columns import (
    ColumnFormat,
    Format,
    FormatOptions,
    Strategy,
    format_options,
)

OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
COLUMNS = {"value": "string"}
EXACTLY_ONCE = {"delivery.guarantee": "exactly_once", "sink.id": "s"}


def plan(more: dict[str, str] | None = None, columns: dict[str, str] = COLUMNS) -> SinkPlan:
    return plan_write(OPTIONS | (more or {}), columns)


def test_the_options_of_sparks_sink_are_taken() -> None:
    said = plan(
        {"kafka.linger.ms": "7", "includeHeaders": "true", "checkpointLocation": "/c"},
        {"value": "binary", "key": "string", "partition": "int", "extra": "double"},
    )
    assert said.topic == "t"
    assert said.columns == ("key", "value", "partition")
    assert said.guarantee is Guarantee.AT_LEAST_ONCE
    assert said.config().linger_ms == 7
    assert said.config().batch_size == 262_144
    assert said.config().max_block_ms == 20_000
    assert said.config().send_buffer_bytes == -1
    assert plan({"kafka.batch.size": "5"}).config().batch_size == 5
    assert plan({"kafka.send.buffer.bytes": "5"}).config().send_buffer_bytes == 5
    assert list(said.config().bootstrap_servers) == [("localhost", 1)]


def test_names_of_options_have_no_case() -> None:
    assert plan({"KAFKA.Linger.MS": "7"}).config().linger_ms == 7


def test_the_topic_option_is_trimmed_and_goes_over_the_column() -> None:
    assert plan_write(OPTIONS | {"topic": " u "}, COLUMNS | {"topic": "string"}).topic == "u"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": "string"}, "Required attribute 'value' not found (the columns are: key)"),
        ({}, "Required attribute 'value' not found (the columns are: none)"),
        (
            {"value": "int"},
            "value attribute unsupported type int. value must be a(n) string or binary, or the "
            "option value.format=avro, json or protobuf must be given",
        ),
        (
            COLUMNS | {"key": "bigint"},
            "key attribute unsupported type bigint. key must be a(n) string or binary, or the "
            "option key.format=avro, json or protobuf must be given",
        ),
        (
            COLUMNS | {"topic": "binary"},
            "topic attribute unsupported type binary. topic must be a(n) string",
        ),
        (
            COLUMNS | {"partition": "bigint"},
            "partition attribute unsupported type bigint. partition must be a(n) int",
        ),
        (
            COLUMNS | {"headers": "map<string,string>"},
            "headers attribute unsupported type map<string,string>. headers must be a(n) "
            "array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_wrong_columns_are_refused_in_sparks_words(columns: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(columns=columns)
    assert str(caught.value) == words


def test_a_topic_is_needed() -> None:
    with pytest.raises(ConfigError, match="topic option required when no 'topic' attribute"):
        plan_write({"kafka.bootstrap.servers": "localhost:1"}, COLUMNS)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kafka.key.serializer": "x"}, "Kafka option 'key.serializer' is not supported as keys"),
        ({"kafka.value.serializer": "x"}, "Kafka option 'value.serializer' is not supported as"),
        ({"kafka.acks": "7"}, "acks"),
        ({"kafka.no.such.thing": "7"}, "no.such.thing"),
        ({"kafka.transactional.id": "x"}, "'sink.id'"),
        ({"delivery.guarantee": "twice"}, "is 'twice'; it is one of at_least_once, exactly_once"),
        ({"delivery.guarantee": "exactly_once"}, "needs the option 'sink.id'"),
        ({"sink.id": "s"}, "this needs delivery.guarantee=exactly_once"),
        (EXACTLY_ONCE | {"sink.batch.id": "-1"}, "it must be an increasing number, 0 or more"),
        (EXACTLY_ONCE | {"sink.attempts": "0"}, "sink.attempts is '0'; it must be a number, 1 or"),
        (EXACTLY_ONCE | {"sink.batch.id": "one"}, "it must be an increasing number, 0 or more"),
        (EXACTLY_ONCE | {"kafka.enable.idempotence": "false"}, "idempotence"),
        (EXACTLY_ONCE | {"kafka.acks": "1"}, "acks"),
    ],
)
def test_wrong_options_are_refused_by_name(more: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(more)
    assert words in str(caught.value)


def test_brokers_are_needed() -> None:
    with pytest.raises(ConfigError, match=r"Option 'kafka\.bootstrap\.servers' must be specified"):
        plan_write({"topic": "t"}, COLUMNS)


def test_exactly_once() -> None:
    said = plan(EXACTLY_ONCE | {"sink.batch.id": "7"})
    assert said.exactly_once
    assert (said.sink_id, said.batch_id, said.marker_topic) == ("s", 7, "t")
    assert said.config().transaction_timeout_ms == 300_000
    assert (
        plan(EXACTLY_ONCE | {"kafka.transaction.timeout.ms": "5"})
        .config(transactional_id="s")
        .transaction_timeout_ms
        == 5
    )


def test_exactly_once_with_topics_in_rows_needs_a_place_for_the_marker() -> None:
    options = {"kafka.bootstrap.servers": "localhost:1"} | EXACTLY_ONCE
    columns = COLUMNS | {"topic": "string"}
    with pytest.raises(ConfigError, match=r"needs the option 'sink\.marker\.topic'"):
        plan_write(options, columns)
    assert plan_write(options | {"sink.marker.topic": "m"}, columns).marker_topic == "m"


def test_secrets_come_from_the_environment_where_they_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = plan({"kafka.client.id": "a-${env:AIOPRODUCER_TEST_NAME}-b"})
    there = pickle.loads(pickle.dumps(said))
    with pytest.raises(ConfigError, match=r"kafka\.client\.id .* AIOPRODUCER_TEST_NAME"):
        there.config()
    monkeypatch.setenv("AIOPRODUCER_TEST_NAME", "secret")
    assert there.config().client_id == "a-secret-b"
    assert "secret" not in repr(there)


def test_the_loss_of_data_is_told_or_fails_the_query() -> None:
    assert not plan(EXACTLY_ONCE).fail_on_data_loss
    assert plan(EXACTLY_ONCE | {"failOnDataLoss": "true"}).fail_on_data_loss
    with pytest.raises(ConfigError, match="failOnDataLoss: this needs delivery"):
        plan({"failOnDataLoss": "true"})
    with pytest.raises(ConfigError, match="failOnDataLoss is 'yes'; it is true or false"):
        plan(EXACTLY_ONCE | {"failOnDataLoss": "yes"})


def test_a_topic_of_dead_letters() -> None:
    named = "errors.deadletterqueue.topic.name"
    assert plan({named: "failed"}).dead_letter_topic == "failed"
    with pytest.raises(ConfigError, match="the topic of the rows: name another one"):
        plan({named: "t"})


def test_properties_are_not_shown() -> None:
    assert "hunter2" not in repr(plan({"kafka.client.id": "hunter2"}))


def test_options_that_nobody_reads_are_refused_where_they_can_be() -> None:
    check_names([*OPTIONS, *EXACTLY_ONCE, "sink.batch.id", "includeHeaders", "KAFKA.acks"])
    with pytest.raises(ConfigError, match="unknown option 'compression_type'"):
        check_names([*OPTIONS, "compression_type"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tpic", "topic"),
        ("topicName", "topic"),
        ("delivery.garantee", "delivery.guarantee"),
        ("delivery.guarantee ", "delivery.guarantee"),
        ("deliveryGuarantee", "delivery.guarantee"),
        ("guarantee", "delivery.guarantee"),
        ("sink_id", "sink.id"),
        ("batchId", "sink.batch.id"),
        ("failOnDataLos", "failOnDataLoss"),
        ("deadletterqueue.topic.name", "errors.deadletterqueue.topic.name"),
        ("value.formt", "value.format"),
        ("valueFormat", "value.format"),
        ("use.latest", "use.latest.version"),
        ("auto.register", "auto.register.schemas"),
        ("linger.ms", "kafka.linger.ms"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("kafka_bootstrap_servers", "kafka.bootstrap.servers"),
        ("ACKS", "kafka.acks"),
    ],
)
def test_a_misspelled_option_is_refused_also_among_sparks(name: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_names([*OPTIONS, name], spark_options=True)
    assert str(caught.value) == f"unknown option {name!r}; did you mean {meant!r}?"


@pytest.mark.parametrize("name", ["errors.tolerance", "sink.x", "delivery.x", "value.converter"])
def test_an_option_that_begins_as_ours_is_refused_also_among_sparks(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown option '{name}'(; did you|; the options are)"):
        check_names([*OPTIONS, name], spark_options=True)


def test_the_options_of_spark_and_its_kafka_source_are_left_alone() -> None:
    names = (
        *("path", "checkpointLocation", "queryName", "mergeSchema", "header", "compression"),
        *("subscribe", "subscribePattern", "startingOffsets", "includeTimestamp", "minPartitions"),
        *("maxOffsetsPerTrigger", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "userMetadata"),
        *("fetchOffset.numRetries", "asyncProgressTrackingEnabled", "truncate", "numRows"),
        *("dateFormat", "timestampFormat", "fileFormat", "enforceSchema", "overwriteSchema"),
        *("inferSchema", "replaceWhere", "txnVersion", "txnAppId", "serialization.format"),
    )
    check_names(names, spark_options=True)


def test_an_empty_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="the option 'topic' is empty"):
        plan({"topic": " "})


def test_a_variable_that_is_set_does_not_hide_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"kafka.client.id": "${env:AIOPRODUCER_TEST_NAME}", "kafka.acks": "7"}
    assert plan(options)
    monkeypatch.setenv("AIOPRODUCER_TEST_NAME", "me")
    with pytest.raises(ConfigError, match="acks"):
        plan(options)


def test_files_are_read_where_they_are_used(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("me\n")
    said = plan({"kafka.client.id": f"${{dir:{tmp_path}:name}}"})
    assert said.config().client_id == "me"
    there = plan({"kafka.client.id": "${file:/nowhere:name}"})  # executors may have it
    with pytest.raises(
        ConfigError, match=r"^kafka\.client\.id refers to /nowhere, .* executors get"
    ):
        there.config()


def test_providers_may_be_restricted(tmp_path: Path) -> None:
    restricted = {
        "kafka.config.providers": "here",
        "kafka.config.providers.here.class": (
            "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
        ),
        "kafka.config.providers.here.param.allowed.paths": str(tmp_path / "a"),
        "kafka.client.id": f"${{here:{tmp_path}:name}}",
    }
    with pytest.raises(ConfigError, match=r"outside allowed\.paths"):
        plan(restricted)


SECURED = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.ssl.keystore.type": "PEM",
    "kafka.ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
}
LINE = "org.apache.kafka.common.security.plain.PlainLoginModule required username=alice password="


def secured(password: str, key: str) -> SinkPlan:
    return plan(
        SECURED | {"kafka.sasl.jaas.config": f"{LINE}{password};", "kafka.ssl.keystore.key": key}
    )


def test_a_secret_that_spark_would_show_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    shown = secured("hunter2", "hunter2")
    assert shown.plain_secrets() == ("kafka.sasl.jaas.config", "kafka.ssl.keystore.key")
    with pytest.raises(
        ConfigError, match=r"^kafka\.ssl\.keystore\.key contains .*'\$\{env:NAME\}'"
    ):
        refuse_shown_secrets(shown)
    refuse_shown_secrets(secured("${env:AIOPRODUCER_TEST_A}", "${env:AIOPRODUCER_TEST_B}"))
    assert not caplog.records


def test_a_secret_that_spark_redacts_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    redacted = secured("hunter2", "${env:AIOPRODUCER_TEST_B}")
    for _ in range(2):
        refuse_shown_secrets(redacted)
    (record,) = caplog.records
    assert record.getMessage().startswith("kafka.sasl.jaas.config: a secret in the options")
    assert "hunter2" not in caplog.text
    assert b"AIOPRODUCER_TEST_B" in pickle.dumps(redacted)


def test_a_placeholder_is_resolved_once_and_the_id_of_a_sink_is_a_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("hunter2")
    literal = f"${{dir:{tmp_path}:token}}"
    monkeypatch.setenv("AIOPRODUCER_TEST_NAME", literal)
    said = plan(
        EXACTLY_ONCE | {"kafka.client.id": "${env:AIOPRODUCER_TEST_NAME}", "sink.id": literal}
    )
    shipped = pickle.loads(pickle.dumps(said))
    config = shipped.config(transactional_id=shipped.sink_id)
    shipped_again = pickle.loads(pickle.dumps(config))
    for each in (config, shipped_again, config.replace(linger_ms=1)):
        assert (each.client_id, each.transactional_id) == (literal, literal)


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
def test_wrong_options_of_formats_are_refused_by_name(options: dict[str, str], words: str) -> None:
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
