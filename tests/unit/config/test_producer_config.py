from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import pytest

from aioproducer.config import CompressionType, ProducerConfig, Secret
from aioproducer.errors import ConfigError

SERVERS = {"bootstrap.servers": "a:1"}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{MODULE} required username="alice" password="hunter2";'


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(**{"bootstrap_servers": "a:1", **options})


def from_keywords(properties: dict[str, Any]) -> ProducerConfig:
    return config(**{name.replace(".", "_"): value for name, value in properties.items()})


def test_types() -> None:
    made = ProducerConfig(bootstrap_servers=["a:1"], acks=1, compression_type="zstd")
    assert_type(made.bootstrap_servers, tuple[tuple[str, int], ...])
    assert_type(made.linger_ms, int | None)
    assert_type(made.batch_size, int | None)
    assert_type(made.compression_type, CompressionType)


def test_bootstrap_servers_are_required_and_checked() -> None:
    with pytest.raises(ConfigError, match=r"^bootstrap_servers is required: 'host:port"):
        ProducerConfig()
    with pytest.raises(ConfigError, match=r"^bootstrap_servers='a' .*'a' has no port"):
        ProducerConfig(bootstrap_servers="a")
    for value in (b"a:1", 9092, None):
        with pytest.raises(ConfigError, match=r"^bootstrap_servers=.*expected 'host:port"):
            config(bootstrap_servers=value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("liner_ms", "unknown option 'liner_ms'; did you mean 'linger_ms'?"),
        ("Linger_MS", "unknown option 'Linger_MS'; did you mean 'linger_ms'?"),
        ("linger.ms", "unknown option 'linger.ms'; did you mean 'linger_ms'?"),
        ("partitioner_class", "unknown option 'partitioner_class'; did you mean 'partitioner'?"),
        ("max_batch_size", "unknown option 'max_batch_size'; did you mean 'batch_size'?"),
        ("message.timeout.ms", "unknown option 'message.timeout.ms': it is librdkafka's; Producer"),
        ("queue_buffering_max_messages", "unknown option 'queue_buffering_max_messages': it is"),
        ("zzz", "unknown option 'zzz'"),
        ("given", "unknown option 'given'"),
        ("group_id", "option 'group_id' belongs to Kafka's consumer, not to the producer"),
        ("ssl_cafile", "'ssl_cafile' is another client's option; use the file of ssl_"),
        ("sasl_plain_username", "'sasl_plain_username' is another client's option; use"),
        ("loop", "'loop' is another client's option; leave it out: start() takes the running"),
        ("api_version", "'api_version' is another client's option; leave it out: versions are"),
        ("metric_reporters", "option 'metric_reporters' has no effect: Java classes cannot"),
    ],
)
def test_unknown_keywords(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{name: "hunter2"})
    assert str(caught.value).startswith(message)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("liner.ms", "unknown option 'liner.ms'; did you mean 'linger.ms'?"),
        ("linger_ms", "unknown option 'linger_ms'; did you mean 'linger.ms'?"),
        ("partitioner", "unknown option 'partitioner'; did you mean 'partitioner.class'?"),
        ("zzz", "unknown option 'zzz'"),
        ("auto.offset.reset", "option 'auto.offset.reset' belongs to Kafka's consumer"),
        ("sasl.mechanisms", "'sasl.mechanisms' is another client's option; use sasl_"),
        (
            "transaction.two.phase.commit.enable",
            "option 'transaction.two.phase.commit.enable': two",
        ),
    ],
)
def test_unknown_properties(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_properties({**SERVERS, name: "hunter2"})
    assert str(caught.value).startswith(message)
    assert "hunter2" not in str(caught.value)


def test_immutable() -> None:
    made = config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.linger_ms = 5  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        made.unknown = 5  # type: ignore[attr-defined]


def test_equality_and_hash_go_by_effective_values() -> None:
    assert config() == config(linger_ms=None, acks=-1)
    assert hash(config()) == hash(config(linger_ms=None, acks=-1))
    assert config() != config(linger_ms=0)
    assert config(acks=1) == config(acks="1", enable_idempotence=False)


def test_replace_decides_anew_what_had_given_way() -> None:
    weak = config(acks=1, request_timeout_ms=200000, reconnect_backoff_ms=7)
    assert (weak.enable_idempotence, weak.delivery_timeout_ms) == (False, 200005)
    strong = weak.replace(acks="all", request_timeout_ms=100)
    assert (strong.enable_idempotence, strong.delivery_timeout_ms) == (True, 120000)
    assert strong.given == weak.given
    assert strong.reconnect_backoff_max_ms == 7
    with pytest.raises(ConfigError, match="did you mean 'acks'"):
        weak.replace(ack=1)  # type: ignore[call-arg]


def test_every_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match="'ackz'; did you mean 'acks'") as caught:
        config(ackz="all", linger=5, client_id="shop")
    assert "'linger'" in str(caught.value)
    assert "client_id" not in str(caught.value)


def test_pickle_and_copy() -> None:
    made = config(bootstrap_servers="a:1,[::1]:2", acks=1, partitioner="murmur3", linger_ms=3)
    for twin in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert twin == made
        assert twin.given == made.given
        assert twin.enable_idempotence is False


def test_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(config(linger_ms=3, acks="all")) == (
        "ProducerConfig(bootstrap_servers=(('a', 1),), linger_ms=3)"
    )


def test_a_secret_is_held_and_never_shown() -> None:
    made = config(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=JAAS)
    assert made.sasl_jaas_config == Secret(JAAS)
    shown = f"{made} {made!r} {made.replace(linger_ms=1)} {dataclasses.asdict(made)}"
    assert "hunter2" not in shown
    assert "alice" not in shown
    twin = pickle.loads(pickle.dumps(made))
    assert twin.sasl_jaas_config.reveal() == JAAS
    assert twin == made != made.replace(sasl_jaas_config=f"{JAAS} ")


@pytest.mark.parametrize("value", [JAAS[:-1], JAAS.encode(), [JAAS], "hunter2"])
@pytest.mark.parametrize("make", [from_keywords, ProducerConfig.from_properties])
def test_a_bad_secret_is_not_repeated(
    value: Any, make: Callable[[dict[str, Any]], ProducerConfig]
) -> None:
    with pytest.raises(ConfigError, match=r"sasl.jaas.config") as caught:
        make({**SERVERS, "sasl.jaas.config": value})
    assert "hunter2" not in f"{caught.value} {caught.value!r}"
    assert caught.value.__cause__ is None


FILE = r"""
# a Java producer's file
bootstrap.servers = a:1, \
                    [::1]:2
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.serializer=org.apache.kafka.common.serialization.ByteArraySerializer
acks:all
linger.ms 20
enable.idempotence=TRUE
compression.type=lz4
batch.size=+65536
client.id=caf\u00e9
partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner
enable.metrics.push=false
metric.reporters=
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    return path


def test_a_java_file(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = config(
        bootstrap_servers="a:1,[::1]:2",
        linger_ms=20,
        compression_type="lz4",
        batch_size=65536,
        client_id="café",
        partitioner="round_robin",
        enable_metrics_push=False,
    )
    for path in (file, str(file)):
        caplog.clear()
        assert ProducerConfig.from_properties(path) == expected
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "metric.reporters (Java classes" in record.getMessage()


STRATEGY = "buffer.memory.allocation.strategy"


@pytest.mark.parametrize("value", ["full", "incremental", "FULL", "Incremental"])
def test_a_strategy_of_memory_is_explained(value: str, caplog: pytest.LogCaptureFixture) -> None:
    assert ProducerConfig.from_properties({**SERVERS, STRATEGY: value}) == config()
    (record,) = caplog.records
    assert f"{STRATEGY} (batches begin with 16 KB and grow with the load" in record.getMessage()


@pytest.mark.parametrize("value", ["lazy", "", 1, None])
def test_a_strategy_that_kafka_does_not_know(value: object) -> None:
    with pytest.raises(ConfigError, match=rf"{STRATEGY}={value!r}.*'full' or 'incremental'"):
        ProducerConfig.from_properties({**SERVERS, STRATEGY: value})


def test_overrides_win_and_what_they_replace_is_not_looked_at(file: Path) -> None:
    properties = {**SERVERS, "linger.ms": "soon", "batch.size": "32768"}
    made = ProducerConfig.from_properties(properties, linger_ms=None, acks=1)
    assert (made.linger_ms, made.batch_size, made.acks) == (None, 32768, "1")
    with pytest.raises(ConfigError, match="did you mean 'linger_ms'"):
        ProducerConfig.from_properties(properties, liner_ms=1)  # type: ignore[call-arg]


def test_a_mapping_may_hold_python_values() -> None:
    properties = {"bootstrap.servers": ["a:1"], "linger.ms": 5, "acks": 1, "client.id": None}
    made = ProducerConfig.from_properties(properties)
    assert (made.linger_ms, made.acks, made.client_id) == (5, "1", None)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("linger.ms", "soon", "an int (milliseconds), at least 0"),
        ("linger.ms", 0.5, "an int (milliseconds), at least 0, or None"),
        ("linger.ms", "5.0", "an int (milliseconds), at least 0"),
        ("linger.ms", "", "an int (milliseconds), at least 0"),
        ("linger.ms", "1_000", "an int (milliseconds), at least 0"),
        ("linger.ms", "9" * 19, "an int (milliseconds), from 0 to"),
        ("batch.size", "9" * 5000, "an int (bytes), at least 0"),
        ("batch.size", "-1", "an int (bytes), at least 0"),
        ("batch.size", "2147483648", "an int (bytes), from 0 to 2147483647"),
        ("batch.size", True, "an int (bytes), at least 0"),
        ("enable.idempotence", "yes", "true or false"),
        ("enable.idempotence", 1, "True or False"),
        ("compression.type", "brotli", "'none', 'gzip', 'snappy', 'lz4' or 'zstd'"),
        ("client.id", 7, "a str of at most 32,767 bytes, or None"),
        ("transactional.id", "", "a str that is not empty"),
    ],
)
def test_property_errors_have_the_dotted_name(name: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_properties({**SERVERS, name: value})
    assert str(caught.value).startswith(f"{name}={value!r}"[:90])
    assert f"): expected {expected}" in str(caught.value)


@pytest.mark.parametrize("text", [" 5 ", "+5", "005"])
def test_ints_as_java_writes_them(text: str) -> None:
    assert ProducerConfig.from_properties({**SERVERS, "linger.ms": text}).linger_ms == 5


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.properties"):
        with pytest.raises(ConfigError, match=f"^cannot read {path}: ") as caught:
            ProducerConfig.from_properties(path)
        assert isinstance(caught.value.__cause__, OSError)
