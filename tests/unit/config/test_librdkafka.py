"""librdkafka's options in terms of ours; ``tests/mock_cluster`` asks librdkafka itself."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest

from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.librdkafka import BY_NAME, OF_CONSUMERS, ROWS, OauthCallback
from aioproducer.config.options import OPTIONS
from aioproducer.errors import ConfigError
from tests.documentation import librdkafka_table

LOGIN = {"security.protocol": "sasl_ssl", "bootstrap.servers": "kafka.example:9093"}


def made(config: dict[Any, Any], **overrides: Any) -> ProducerConfig:
    return ProducerConfig.from_librdkafka({"bootstrap.servers": "a", **config}, **overrides)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({}, {"bootstrap_servers": (("a", 9092),), "partitioner": "consistent_random"}),
        (
            {"bootstrap.servers": "a, b:1,[::1]"},
            {"bootstrap_servers": (("a", 9092), ("b", 1), ("::1", 9092))},
        ),
        ({"metadata.broker.list": "a:9092"}, {"bootstrap_servers": (("a", 9092),)}),
        ({"acks": -1}, {"acks": "all"}),
        ({"request.required.acks": "1"}, {"acks": "1", "enable_idempotence": False}),
        ({"linger.ms": 5.0}, {"linger_ms": 5}),
        ({"queue.buffering.max.ms": "7"}, {"linger_ms": 7}),
        ({"queue.buffering.max.kbytes": 2048}, {"buffer_memory": 2 << 20}),
        ({"batch.size": 100_000}, {"batch_size": 100_000}),
        (
            {"compression.codec": "zstd", "compression.level": "5"},
            {"compression_type": "zstd", "compression_zstd_level": 5},
        ),
        ({"compression.type": "lz4", "compression.level": 0}, {"compression_lz4_level": 9}),
        ({"compression.type": "gzip", "compression.level": -1}, {"compression_gzip_level": -1}),
        ({"compression.type": "snappy", "compression.level": 3}, {"compression_type": "snappy"}),
        ({"compression.codec": "inherit"}, {"compression_type": "none"}),
        ({"message.send.max.retries": 3}, {"retries": 3}),
        ({"enable.idempotence": "False"}, {"enable_idempotence": False}),
        ({"enable.idempotence": "t"}, {"enable_idempotence": True}),
        (
            {"max.in.flight": 100},
            {"enable_idempotence": False, "max_in_flight_requests_per_connection": 100},
        ),
        ({"max.in.flight": 2}, {"enable_idempotence": True}),
        (
            {"message.timeout.ms": 0},
            {"delivery_timeout_ms": 2**31 - 1, "request_timeout_ms": 30_000},
        ),
        ({"message.timeout.ms": 5000}, {"delivery_timeout_ms": 5000, "request_timeout_ms": 4995}),
        (
            {"delivery.timeout.ms": 5000, "linger.ms": 100, "socket.timeout.ms": 60_000},
            {"request_timeout_ms": 4900},
        ),
        ({"delivery.timeout.ms": 5000, "socket.timeout.ms": 100}, {"request_timeout_ms": 100}),
        ({"socket.timeout.ms": 3000, "request.timeout.ms": 3000}, {"request_timeout_ms": 3000}),
        ({"socket.send.buffer.bytes": 0}, {"send_buffer_bytes": -1}),
        ({"socket.receive.buffer.bytes": 9}, {"receive_buffer_bytes": 9}),
        ({"connections.max.idle.ms": 0}, {"connections_max_idle_ms": -1}),
        ({"topic.metadata.refresh.interval.ms": -1}, {"metadata_max_age_ms": 2**63 - 1}),
        (
            {"metadata.recovery.strategy": "same_cluster"},
            {"metadata_recovery_strategy": "same_cluster"},
        ),
        (
            {"reconnect.backoff.ms": 20},
            {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 10_000},
        ),
        (
            {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 30},
            {"reconnect_backoff_max_ms": 30},
        ),
        (
            {"socket.connection.setup.timeout.ms": 60_000},
            {
                "socket_connection_setup_timeout_ms": 60_000,
                "socket_connection_setup_timeout_max_ms": 60_000,
            },
        ),
        ({"partitioner": "murmur2"}, {"partitioner": None}),
        ({"partitioner": "murmur2_random"}, {"partitioner": None}),
        ({"partitioner": "fnv1a_random"}, {"partitioner": "fnv1a"}),
        ({"default.topic.config": {"acks": 0}}, {"acks": "0"}),
        ({"acks": None, "stats_cb": None}, {"acks": "all"}),
        ({"client.id": "${env:HOME}"}, {"client_id": "${env:HOME}"}),
        ({"statistics.interval.ms": 0, "api.version.request": True, "log_cb": None}, {}),
        ({**LOGIN, "sasl.mechanism": "GSSAPI"}, {"sasl_kerberos_service_name": "kafka"}),
        (
            {**LOGIN, "sasl.kerberos.keytab": "k"},
            {"sasl_kerberos_service_name": "kafka", "sasl_mechanism": "GSSAPI"},
        ),
        (
            {**LOGIN, "sasl.mechanisms": "plain", "sasl.username": "u", "sasl.password": "p"},
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_password": Secret("p"),
            },
        ),
        (
            {"security.protocol": "ssl", "ssl.ca.location": "ca.pem"},
            {"ssl_truststore_location": "ca.pem", "ssl_truststore_type": "PEM"},
        ),
        (
            {"security.protocol": "ssl", "ssl.ca.location": "probe"},
            {"ssl_truststore_location": None},
        ),
        (
            {
                "security.protocol": "ssl",
                "ssl.keystore.location": "k.p12",
                "ssl.keystore.password": "p",
            },
            {"ssl_keystore_type": "PKCS12"},
        ),
        (
            {"security.protocol": "ssl", "ssl.key.pem": "k", "ssl.certificate.pem": "c"},
            {"ssl_keystore_key": Secret("k"), "ssl_keystore_type": "PEM"},
        ),
        (
            {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"},
            {"ssl_endpoint_identification_algorithm": ""},
        ),
        (
            {"security.protocol": "ssl", "ssl.cipher.suites": "AES128-SHA:AES256-SHA"},
            {"ssl_cipher_suites": ("AES128-SHA", "AES256-SHA")},
        ),
    ],
)
def test_values(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    config = made(theirs)
    assert {name: getattr(config, name) for name in ours} == ours


def test_tokens_of_an_endpoint() -> None:
    config = made(
        {
            **LOGIN,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "shop",
            "sasl.oauthbearer.client.secret": "hunter2",
            "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
            "sasl.oauthbearer.grant.type": "client_credentials",
        }
    )
    assert config.sasl_oauthbearer_client_credentials_client_secret == Secret("hunter2")
    assert config.sasl_oauthbearer_extensions == (("logicalCluster", "lkc-1"),)
    assert config.sasl_oauthbearer_jwt_retriever_class.endswith(".ClientCredentialsJwtRetriever")
    with pytest.raises(ConfigError, match="not one of client_credentials, urn:"):
        made({**LOGIN, "sasl.oauthbearer.grant.type": "password"})


def answer(config: str | None) -> tuple[str, float]:
    return f"token of {config}", 1e10


def test_oauth_cb_is_a_token_provider() -> None:
    config = made(
        {
            **LOGIN,
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": answer,
            "sasl.oauthbearer.config": "hunter2",
        }
    )
    provider = config.sasl_oauthbearer_token_provider
    assert isinstance(provider, OauthCallback)
    assert provider() == ("token of hunter2", 1e10)
    assert "hunter2" not in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config
    without = made({**LOGIN, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": answer})
    provider = without.sasl_oauthbearer_token_provider
    assert isinstance(provider, OauthCallback)
    assert provider() == ("token of None", 1e10)
    with pytest.raises(ConfigError, match=r"'sasl\.oauthbearer\.config': no counterpart without"):
        made({**LOGIN, "sasl.oauthbearer.config": "hunter2"})


def test_files_of_their_own_are_read_by_placeholders(tmp_path: Path) -> None:
    for name in ("client.key", "client.pem"):
        (tmp_path / name).write_text(f"hunter2 of {name}")
    config = made(
        {
            "security.protocol": "ssl",
            "ssl.key.location": str(tmp_path / "client.key"),
            "ssl.certificate.location": str(tmp_path / "client.pem"),
        }
    )
    assert config.ssl_keystore_key == Secret("hunter2 of client.key")
    assert config.ssl_keystore_certificate_chain == Secret("hunter2 of client.pem")
    assert "hunter2" not in repr(config)
    assert b"hunter2" not in pickle.dumps(config)
    with pytest.raises(ConfigError, match="put key and certificate into one PEM file"):
        made({"ssl.key.location": "C:/keys/client.key"})


def test_all_obstacles_are_in_one_error() -> None:
    with pytest.raises(ConfigError) as raised:
        made(
            {
                "queue.buffering.max.messages": 1000,
                "liner.ms": 3,
                "stats_cb": print,
                "group.id": "readers",
                "acks": 5,
                "linger.ms": 0.5,
                "sasl.pasword": "hunter2",
                "sasl.password": ["hunter2"],
                "ssl.key.pem": b"hunter2",
                "linger_ms": 3,
                "drain": 1,
                "compression.type": "gzip",
                "compression.level": 12,
                5: 5,
            }
        )
    assert str(raised.value).splitlines() == [
        "13 of librdkafka's options can't be used:",
        "  'queue.buffering.max.messages': no counterpart; use buffer_memory, in bytes: the number"
        " of records is not limited here",
        "  'liner.ms': unknown; did you mean 'linger.ms'?",
        "  'stats_cb': no counterpart; call Producer.metrics() at any time",
        "  'group.id': an option of consumers; omit it",
        "  'acks': acks='5' (type str): expected 'all' (or -1), 1 or 0",
        "  'linger.ms': it must be whole milliseconds here: round it up or down",
        "  'sasl.pasword': unknown; did you mean 'sasl.password'?",
        "  'sasl.password': expected a str, or None; the value of type list is hidden",
        "  'ssl.key.pem': expected a str, or None; the value of type bytes is hidden",
        "  'linger_ms': unknown; did you mean 'linger.ms'?",
        "  'drain': unknown",
        "  5: not the name of an option: it is not a str",
        "  'compression.level': compression_gzip_level here: expected an int, from 1 to 9, or -1",
    ]


def test_two_names_of_one_option() -> None:
    with pytest.raises(ConfigError) as raised:
        made({"socket.timeout.ms": 1, "request.timeout.ms": 2})
    assert str(raised.value) == (
        "librdkafka's option 'request.timeout.ms': request_timeout_ms here, and so is"
        " socket.timeout.ms with another value: keep one"
    )
    assert made({"linger.ms": 1, "queue.buffering.max.ms": 1}).linger_ms == 1


@pytest.mark.parametrize(
    ("theirs", "overrides"),
    [
        ({"linger.ms": 0.5}, {"linger_ms": None}),
        ({"queue.buffering.max.messages": 9}, {"buffer_memory": 1 << 20}),
        ({"partitioner": "mine"}, {"partitioner": "murmur3"}),
        ({}, {"partitioner": None}),
        (
            {"oauth_cb": answer, **LOGIN},
            {"sasl_oauthbearer_token_provider": print, "sasl_mechanism": "OAUTHBEARER"},
        ),
    ],
)
def test_overrides_count_instead(theirs: dict[str, Any], overrides: dict[str, Any]) -> None:
    config = made(theirs, **overrides)
    assert {name: getattr(config, name) for name in overrides} == overrides


def test_a_context_replaces_the_options_of_tls() -> None:
    import ssl

    context = ssl.create_default_context()
    theirs = {
        "security.protocol": "ssl",
        "ssl.ca.location": "ca.pem",
        "ssl.key.location": "/nowhere/key.pem",
        "enable.ssl.certificate.verification": False,
        "ssl.curves.list": "P-256",
    }
    assert made(theirs, ssl_context=context).ssl_context is context


@pytest.mark.parametrize(
    "theirs",
    [
        {"sasl.password": "hunter2", "acks": 7},
        {"sasl.pasword": "hunter2"},
        {"sasl.oauthbearer.assertion.private.key.pem": "hunter2"},
        {"ssl.key.pem": "hunter2", "acks": 7},
        {"sasl.oauthbearer.config": "secret=hunter2"},
        {"default.topic.config": {"my.password": "hunter2"}},
    ],
)
def test_no_secret_in_the_frames_of_an_error(theirs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        ProducerConfig.from_librdkafka({"bootstrap.servers": "a", **theirs})
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    inside = [each for each in shown.stack if "/tests/" not in each.filename]
    assert inside
    assert not [each for each in inside if "hunter2" in str(each.locals)]
    assert "hunter2" not in str(raised.value)


def test_the_table_is_consistent() -> None:
    names = [name for row in ROWS for name in row.names]
    assert len(names) == len(set(names)) == len(BY_NAME)
    assert not OF_CONSUMERS & set(names)
    for row in ROWS:
        assert set(row.options) <= set(OPTIONS)
        assert row.options or row.note
        assert row.instead is None or row.instead in OPTIONS
    page = librdkafka_table.markdown()
    assert all(page.count(f"`{name}`") >= 1 for name in [*names, *OF_CONSUMERS])


@pytest.mark.parametrize("row", [row for row in ROWS if not row.options], ids=lambda row: row.names)
def test_options_without_counterpart_are_refused(row: Any) -> None:
    for name in row.names:
        if row.harmless:
            assert made({name: row.harmless[0]}) == made({})
        with pytest.raises(ConfigError, match=rf"'{name}': no counterpart; "):
            made({name: "something"})


def test_whole_floats_and_capital_letters_are_taken_as_librdkafka_takes_them() -> None:
    made = ProducerConfig.from_librdkafka(
        {
            "bootstrap.servers": "a:1",
            "acks": 1.0,
            "delivery.timeout.ms": 6e4,
            "socket.keepalive.enable": "TRUE",
            "enable.gapless.guarantee": "False",
        }
    )
    assert (made.acks, made.delivery_timeout_ms) == ("1", 60_000)
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms"):
        ProducerConfig.from_librdkafka({"bootstrap.servers": "a:1", "delivery.timeout.ms": 1.5})


@pytest.mark.parametrize("name", ["rando", "round_robin", "org.apache.kafka.clients.producer.X"])
def test_names_of_partitioners_are_librdkafkas(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_librdkafka({"bootstrap.servers": "a:1", "partitioner": name})
    assert str(caught.value) == (
        f"librdkafka's option 'partitioner': {name!r} is not one of random, consistent,"
        " consistent_random, murmur2, murmur2_random, fnv1a, fnv1a_random; pass another one as a"
        " keyword: from_librdkafka(…, partitioner=…)"
    )
