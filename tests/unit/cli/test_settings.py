"""What is written on the command line becomes options, a record format and headers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from aioproducer.auth.passwords import PlainLogin
from aioproducer.cli.lines import RecordFormat
from aioproducer.cli.settings import (
    one_topic,
    parse_headers,
    producer_config,
    record_format,
    split_properties,
)
from aioproducer.config import Secret
from aioproducer.config.login import login_of
from aioproducer.errors import ConfigError

SERVERS = {"bootstrap_servers": "localhost:9092"}


def format_of(*properties: str, separator: str | None = None) -> RecordFormat:
    return record_format(
        key_separator=separator,
        null_marker=None,
        ignore_error=False,
        reader=split_properties(properties)[1],
    )


def test_options_by_either_name() -> None:
    options, reader = split_properties(
        ["linger.ms=7", "batch_size=1000", "acks=1", "client.id=a=b"]
    )
    assert options == {"linger_ms": 7, "batch_size": 1000, "acks": "1", "client_id": "a=b"}
    assert reader == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linger_sm=4", "did you mean 'linger_ms'"),
        ("linger.sm=4", "did you mean 'linger.ms'"),
        ("linger.ms=soon", "expected an int"),
        ("linger.ms", "write name=value"),
        ("=4", "write name=value"),
        ("group.id=me", "consumer"),
    ],
)
def test_a_wrong_property_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split_properties([text])


def test_a_property_without_effect_is_a_warning_as_in_a_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options, _ = split_properties(["metrics.recording.level=DEBUG", "linger.ms=7"])
    with caplog.at_level(logging.WARNING, "aioproducer"):
        assert producer_config(None, SERVERS | options).linger_ms == 7
    assert "properties without effect: metrics.recording.level" in caplog.text


def test_the_command_line_comes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nlinger.ms=1\nclient.id=mine\nacks=nonsense\n")
    config = producer_config(path, {"linger_ms": 2, "acks": "all"})
    assert (config.bootstrap_servers, config.linger_ms, config.client_id) == (
        (("a", 1),),
        2,
        "mine",
    )


def test_the_client_id_is_that_of_kafkas_tool() -> None:
    assert producer_config(None, SERVERS).client_id == "console-producer"


def test_the_client_id_may_be_given_and_empty_counts_as_not_given(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nclient.id=\n")
    assert producer_config(path, {}).client_id == "console-producer"
    assert producer_config(path, {"client_id": "mine"}).client_id == "mine"
    assert producer_config(None, {**SERVERS, "client_id": ""}).client_id == "console-producer"


def test_what_gives_way_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert not producer_config(None, {**SERVERS, "acks": "1"}).enable_idempotence
    (told,) = caplog.messages
    assert "idempotence is disabled" in told


@pytest.mark.parametrize(
    "names",
    [("tøpic", None), (None, "commandes-\udce9"), ("", None), ("bad topic", None), (None, "..")],
)
def test_a_topic_that_can_be_none(names: tuple[str | None, ...]) -> None:
    with pytest.raises(ConfigError, match="a topic is a str of 1 to 249 ASCII letters"):
        one_topic("produce", *names)


def test_without_servers_the_message_is_about_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(ConfigError, match=r"no brokers are given: use -b .* `aioproducer mock`"):
        producer_config(None, {})


def test_the_environment_names_the_servers_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOTSTRAP_SERVERS", "environment:1")
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    assert producer_config(None, {}).bootstrap_servers == (("environment", 1),)
    assert producer_config(file, {}).bootstrap_servers == (("file", 1),)
    assert producer_config(file, {"bootstrap_servers": "option:1"}).bootstrap_servers == (
        ("option", 1),
    )


def test_a_text_of_the_environment_is_no_placeholder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hunter2:1")
    monkeypatch.setenv("BOOTSTRAP_SERVERS", f"${{dir:{tmp_path}:token}}")
    with pytest.raises(ConfigError, match="bootstrap_servers") as raised:
        producer_config(None, {})
    assert "hunter2" not in str(raised.value)


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError, match="cannot read /nowhere: No such file"):
        producer_config(Path("/nowhere"), SERVERS)


@pytest.mark.parametrize(
    ("written", "separator"),
    [
        (":", b":"),
        (r"\t", b"\t"),
        (r"\x00", b"\0"),
        (r"\0", b"\0"),
        (r"\\", b"\\"),
        (r"\xff", b"\xff"),
    ],
)
def test_separators(written: str, separator: bytes) -> None:
    assert format_of(separator=written).key_separator == separator


def test_kafkas_reader_properties() -> None:
    assert format_of() == RecordFormat()
    assert format_of("key.separator=:") == RecordFormat()
    assert format_of("parse.key=true").key_separator == b"\t"
    assert format_of(
        "parse.key=true", "key.separator=|", "ignore.error=true", "null.marker=N"
    ) == RecordFormat(b"|", b"N", ignore_error=True)
    with pytest.raises(ConfigError, match="true or false"):
        format_of("parse.key=yes")


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty"):
        format_of(separator="")


def test_headers() -> None:
    assert parse_headers(["a=1", "a=2", "empty=", "null", "b==", "raw=\udcff"]) == [
        ("a", b"1"),
        ("a", b"2"),
        ("empty", b""),
        ("null", None),
        ("b", b"="),
        ("raw", b"\xff"),
    ]
    for wrong in ("=v", "", "\udcff=v"):
        with pytest.raises(ConfigError):
            parse_headers([wrong])


def test_a_placeholder_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_LINGER", "7")
    monkeypatch.setenv("AIOPRODUCER_TEST_PASSWORD", "hunter2")
    options, _ = split_properties(
        [
            "linger.ms=${env:AIOPRODUCER_TEST_LINGER}",
            "security.protocol=SASL_SSL",
            "sasl.mechanism=PLAIN",
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
            " username=alice password=${env:AIOPRODUCER_TEST_PASSWORD};",
        ]
    )
    config = producer_config(None, SERVERS | options)
    assert config.linger_ms == 7
    assert login_of(config) == PlainLogin("alice", Secret("hunter2"))
    assert config.plain_secrets() == ()


@pytest.mark.parametrize("text", ["sasl.password hunter2", "sasl.password:hunter2", ":hunter2"])
def test_a_property_without_its_sign_is_not_shown(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--property (sasl\.password)?…: write") as caught:
        split_properties([text])
    assert "hunter2" not in str(caught.value)
