"""Options and columns of the sink: Spark's words, before anything runs."""

from __future__ import annotations

import pickle
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
        ({"delivery.garantee": "x"}, "unknown option 'delivery.garantee'"),
        ({"delivery.guarantee": "exactly_once"}, "needs the option 'sink.id'"),
        ({"sink.id": "s"}, "this needs delivery.guarantee=exactly_once"),
        (EXACTLY_ONCE | {"sink.batch.id": "-1"}, "it must be an increasing number, 0 or more"),
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


def test_properties_are_not_shown() -> None:
    assert "hunter2" not in repr(plan({"kafka.client.id": "hunter2"}))


def test_options_that_nobody_reads_are_refused_where_they_can_be() -> None:
    check_names([*OPTIONS, *EXACTLY_ONCE, "sink.batch.id", "includeHeaders", "KAFKA.acks"])
    with pytest.raises(ConfigError, match="unknown option 'compression_type'"):
        check_names([*OPTIONS, "compression_type"])


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
