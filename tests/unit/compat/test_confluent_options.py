"""The options of confluent-kafka's Producer: librdkafka's defaults, the errors of wrong ones."""

from __future__ import annotations

import logging
from typing import Any

import confluent_kafka as theirs
import pytest

from aioproducer.compat.confluent import KafkaError, KafkaException, Producer
from aioproducer.compat.confluent.options import settings_of
from aioproducer.compat.confluent.partitions import consistent_random
from aioproducer.config.librdkafka import TUNING_ROWS
from aioproducer.foundation.secret import Secret


def test_defaults_are_librdkafkas_where_a_program_would_notice() -> None:
    settings = settings_of({"bootstrap.servers": "localhost"})
    assert settings.config.linger_ms == 5
    assert settings.config.delivery_timeout_ms == 300_000
    assert settings.config.max_request_size == 1_000_000
    assert settings.max_messages == 100_000
    assert settings.max_bytes == 1024**3
    assert settings.choice is consistent_random
    assert not settings.offline
    assert settings_of({}).offline


@pytest.mark.parametrize(
    "options",
    [
        {"should.fail": False},
        {"partitioner": "murmur"},
        {"request.timeout.ms": 0},
        {"request.timeout.ms": "x"},
        {"request.timeout.ms": True},
        {"message.timeout.ms": 5, "linger.ms": 5},
        {"transactional.id": "t", "message.timeout.ms": 60_001},
        {"transactional.id": "t", "transaction.timeout.ms": 5_000, "socket.timeout.ms": 5_101},
    ],
)
def test_a_wrong_option_has_the_error_of_the_original(options: dict[str, Any]) -> None:
    with pytest.raises(theirs.KafkaException) as original:
        theirs.Producer(dict(options))
    with pytest.raises(KafkaException) as raised:
        Producer(dict(options))
    mine, expected = raised.value.args[0], original.value.args[0]
    assert (mine.code(), mine.str()) == (expected.code(), expected.str())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"transactional.id": "t", "transaction.timeout.ms": "x"}, "option 'transaction.timeout"),
        ({"message.timeout.ms": -1}, "option 'message.timeout.ms'"),
    ],
)
def test_a_wrong_timeout_is_the_only_one_that_is_wrong(options: dict[str, Any], says: str) -> None:
    """The timeouts that depend on it are no second error."""
    with pytest.raises(KafkaException, match=f"^[^\n]*{says}[^\n]*$") as raised:
        Producer(options)
    assert raised.value.args[0] == KafkaError._INVALID_ARG


@pytest.mark.parametrize(
    "options",
    [{"acks": 7}, {"security.protocol": "ssl", "ssl.engine.id": "x"}, {"compression.type": "x"}],
)
def test_what_has_no_counterpart_is_refused(options: dict[str, Any]) -> None:
    *_, name = options
    with pytest.raises(KafkaException, match=name) as raised:
        Producer(options)
    assert raised.value.args[0] == KafkaError._INVALID_ARG


def test_tuning_and_options_of_consumers_are_dropped_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "aioproducer.compat.confluent")
    settings_of({"socket.keepalive.enable": True, "group.id": "x", "debug": "all"})
    [line] = [each.getMessage() for each in caplog.records]
    assert line.endswith("without effect here: debug, group.id, socket.keepalive.enable")


def test_every_option_that_tunes_librdkafka_is_dropped() -> None:
    given = {name: "x" for row in TUNING_ROWS for name in row.names}
    assert settings_of(given | {"client.id": "x"}).config == settings_of({"client.id": "x"}).config


def test_a_fraction_of_a_millisecond_is_no_obstacle() -> None:
    assert settings_of({"linger.ms": 0.5}).config.linger_ms == 1
    assert settings_of({"queue.buffering.max.ms": 7.5}).config.linger_ms == 7


def test_brokers_wait_for_replicas_and_the_client_for_brokers() -> None:
    """librdkafka has an option for each; Java's producer has one for both."""
    settings = settings_of({})
    assert (settings.ack_timeout_ms, settings.config.request_timeout_ms) == (30_000, 60_000)
    settings = settings_of({"request.timeout.ms": 40_000, "socket.timeout.ms": "20000"})
    assert (settings.ack_timeout_ms, settings.config.request_timeout_ms) == (40_000, 20_000)
    settings = settings_of({"default.topic.config": None, "request.timeout.ms": 1.5})
    assert (settings.ack_timeout_ms, settings.config.request_timeout_ms) == (1, 60_000)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (60_000, 59_900)),
        ({"transaction.timeout.ms": 2_000}, (2_000, 1_900)),
        ({"transaction.timeout.ms": 5_000, "socket.timeout.ms": 100}, (5_000, 100)),
        ({"delivery.timeout.ms": 50_000}, (50_000, 49_995)),
        ({"message.timeout.ms": 0}, (2**31 - 1, 59_900)),
    ],
)
def test_records_and_requests_end_with_their_transaction(
    options: dict[str, Any], expected: tuple[int, int]
) -> None:
    named = {"transactional.id": "t", **options}
    theirs.Producer(dict(named))  # it takes them
    config = settings_of(named).config
    assert (config.delivery_timeout_ms, config.request_timeout_ms) == expected


def test_a_record_may_have_less_time_than_the_default_linger() -> None:
    config = settings_of({"message.timeout.ms": 5}).config
    assert (config.delivery_timeout_ms, config.linger_ms) == (5, 4)


def test_no_records_in_the_queue_mean_no_limit() -> None:
    """librdkafka: "A value of 0 disables this limit"."""
    assert settings_of({"queue.buffering.max.messages": 0}).max_messages == 2**31 - 1
    kinds: list[Any] = [theirs.Producer, Producer]
    for kind in kinds:
        producer = kind({"queue.buffering.max.messages": 0})
        producer.produce("t", "x")
        producer.purge()
        assert producer.flush(10) == 0
        producer.close()


def test_there_is_no_producer_without_a_configuration() -> None:
    wrong: list[tuple[Any, ...]] = [(), ("x",), ({}, {})]
    for arguments in wrong:
        with pytest.raises(TypeError, match="expected configuration dict"):
            Producer(*arguments)
    with pytest.raises(TypeError, match="on_delivery"):
        Producer({"on_delivery": 3})


def test_credentials_can_be_replaced_and_are_not_shown() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    settings = settings_of(given | {"sasl.username": "a", "sasl.password": "hidden"})
    assert settings.credentials() == ("a", "hidden")
    settings.credentials.replace("b", Secret("other"))
    provider: object = settings.config.sasl_credentials_provider
    assert provider is settings.credentials
    assert settings.credentials() == ("b", "other")
    assert "hidden" not in repr(settings) + repr(vars(settings.credentials))


def test_a_producer_is_not_configured_twice() -> None:
    """Its records would stay with a worker that nobody knows."""
    kinds: list[Any] = [theirs.Producer, Producer]
    for kind in kinds:
        producer = kind({})
        with pytest.raises(RuntimeError, match="already __init__:ialized"):
            producer.__init__({})
        producer.close()


def test_options_of_tls_without_tls_are_dropped_as_by_the_original(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "aioproducer.compat.confluent")
    options = {
        "bootstrap.servers": "localhost",
        "ssl.ca.location": "/nowhere.pem",
        "ssl.key.password": "hunter2",
        "enable.ssl.certificate.verification": "false",
    }
    theirs.Producer(dict(options))
    assert settings_of(dict(options)).config.ssl_truststore_location is None
    [line] = [each.getMessage() for each in caplog.records]
    assert line.endswith(
        "here: enable.ssl.certificate.verification, ssl.ca.location, ssl.key.password"
    )
    with pytest.raises(KafkaException, match=r"certificate\.verification"):
        settings_of({**options, "security.protocol": "ssl"})


def test_the_authorities_of_a_token_endpoint_stay_without_tls() -> None:
    settings = settings_of(
        {
            "bootstrap.servers": "localhost",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "shop",
            "sasl.oauthbearer.client.secret": "hunter2",
            "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            "ssl.ca.location": "/ca.pem",
            "ssl.key.password": "hunter2",
        }
    )
    assert settings.config.ssl_truststore_location == "/ca.pem"
    assert settings.config.ssl_key_password is None
