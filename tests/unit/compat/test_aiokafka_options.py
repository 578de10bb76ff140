"""aiokafka's options, and the configuration that comes of them."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import pytest

from aioproducer import ConfigError
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.compat.aiokafka.options import AIOKafkaOptions, Options, addresses
from aioproducer.config import ProducerConfig, Secret


def config(**options: Any) -> ProducerConfig:
    given = Options(**options)
    given.check()
    return given.config()


def test_the_signature_is_aiokafkas_with_one_more_option() -> None:
    own = inspect.signature(AIOKafkaProducer).parameters
    known = inspect.signature(aiokafka.AIOKafkaProducer).parameters
    assert list(own) == [*known, "metadata_recovery_strategy"]
    assert set(own) == {"loop", *AIOKafkaOptions.__annotations__}
    for name, parameter in known.items():
        if name not in ("acks", "partitioner"):  # theirs are private objects
            assert own[name].default == parameter.default, name
            assert own[name].kind == parameter.kind


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1,b", [("a", 1), ("b", 9092)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
        ("[::1]", [("::1", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        (["::1"], [("::1", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        (["a:1", ""], [("a", 1)]),
    ],
)
def test_servers_are_a_text_or_a_list(given: Any, expected: list[tuple[str, int]]) -> None:
    assert list(config(bootstrap_servers=given).bootstrap_servers) == expected
    assert len(addresses(given)) == len(expected)


def test_the_defaults_are_aiokafkas() -> None:
    made = config()
    assert made.acks == "1"
    assert not made.enable_idempotence
    assert made.max_in_flight_requests_per_connection == 1
    assert (made.request_timeout_ms, made.max_block_ms) == (40_000, 40_000)
    assert made.delivery_timeout_ms == 80_005
    assert made.compression_type == "none"
    assert (made.batch_size, made.linger_ms) == (None, None)
    assert made.max_request_size == 1_048_576
    assert str(made.client_id).startswith("aiokafka-producer-")
    assert made.client_id != config().client_id


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"acks": 0}, {"acks": "0"}),
        ({"acks": 1}, {"acks": "1"}),
        ({"acks": -1}, {"acks": "all", "enable_idempotence": False}),
        ({"acks": "all"}, {"acks": "all", "enable_idempotence": False}),
        ({"enable_idempotence": True}, {"acks": "all", "enable_idempotence": True}),
        (
            {"enable_idempotence": True},
            {"max_in_flight_requests_per_connection": 5, "enable_idempotence": True},
        ),
        ({"transactional_id": "t"}, {"acks": "all", "enable_idempotence": True}),
        ({"transactional_id": "t"}, {"transactional_id": "t", "transaction_timeout_ms": 60_000}),
        ({"compression_type": "zstd"}, {"compression_type": "zstd"}),
        ({"max_batch_size": 1000}, {"batch_size": 1000}),
        ({"max_batch_size": 2**26}, {"batch_size": 2**26, "buffer_memory": 2**28}),
        ({"linger_ms": 20}, {"linger_ms": 20}),
        ({"retry_backoff_ms": 7}, {"retry_backoff_ms": 7, "retry_backoff_max_ms": 1000}),
        ({"retry_backoff_ms": 5000}, {"retry_backoff_ms": 5000, "retry_backoff_max_ms": 5000}),
        ({"connections_max_idle_ms": None}, {"connections_max_idle_ms": -1}),
        ({"metadata_max_age_ms": 5}, {"metadata_max_age_ms": 5}),
        ({"client_id": "me"}, {"client_id": "me"}),
        ({}, {"metadata_recovery_strategy": "rebootstrap"}),
        (
            {"metadata_recovery_strategy": "same_cluster"},
            {"metadata_recovery_strategy": "same_cluster"},
        ),
        ({"max_request_size": 5}, {"max_request_size": 5}),
        ({"enable_idempotence": 1}, {"enable_idempotence": True}),
        ({"enable_idempotence": None}, {"enable_idempotence": False}),
        ({"linger_ms": 0.5}, {"linger_ms": 1}),
        ({"linger_ms": 0.0}, {"linger_ms": None}),
        ({"request_timeout_ms": 1e3}, {"request_timeout_ms": 1000, "max_block_ms": 1000}),
        ({"request_timeout_ms": 1}, {"request_timeout_ms": 1}),
        ({"metadata_max_age_ms": 3e5}, {"metadata_max_age_ms": 300_000}),
        ({"retry_backoff_ms": 1500.5}, {"retry_backoff_ms": 1501, "retry_backoff_max_ms": 1501}),
        ({"connections_max_idle_ms": 1e5}, {"connections_max_idle_ms": 100_000}),
        ({"transaction_timeout_ms": 1e4}, {"transaction_timeout_ms": 10_000}),
    ],
)
def test_options_have_their_counterparts(given: Any, expected: dict[str, Any]) -> None:
    made = config(**given)
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acks": 122}, "acks"),
        ({"acks": 1, "enable_idempotence": True}, "acks=1 not supported"),
        ({"acks": 0, "transactional_id": "t"}, "acks=0 not supported"),
        ({"compression_type": "brotli"}, "compression_type"),
        ({"security_protocol": "SOME"}, "`security_protocol` should be SSL or PLAINTEXT"),
        ({"security_protocol": "SSL"}, "`ssl_context` is mandatory"),
        ({"security_protocol": "SASL_SSL"}, "`ssl_context` is mandatory"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl_plain_username"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "X"}, "sasl_mechanism"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"},
            "sasl_plain_username and sasl_plain_password",
        ),
        ({"linger_ms": float("nan")}, "linger_ms"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}, "token"),
        ({"bootstrap_servers": ""}, "bootstrap_servers"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        AIOKafkaProducer(**options)
    assert isinstance(caught.value, ConfigError)
    assert "secret" not in str(caught.value)


def test_an_unknown_option_is_a_wrong_call() -> None:
    with pytest.raises(TypeError, match="acknowledgements"):
        AIOKafkaProducer(acknowledgements=1)  # type: ignore[call-arg]


def test_unhashable_acks_are_refused() -> None:
    with pytest.raises(ValueError, match="acks"):
        AIOKafkaProducer(acks=[1])


def test_what_aiokafka_has_deprecated_is_still_taken() -> None:
    loop = asyncio.new_event_loop()
    with pytest.warns(DeprecationWarning, match="loop"):
        producer = AIOKafkaProducer(loop=loop)
    loop.run_until_complete(producer.stop())
    with pytest.warns(DeprecationWarning, match="api_version"):
        producer = AIOKafkaProducer(api_version="auto")
    loop.run_until_complete(producer.stop())
    loop.close()


def test_logins_by_password() -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        made = config(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="ann",
            sasl_plain_password="secret",
        )
        assert (made.sasl_mechanism, made.sasl_username) == (mechanism, "ann")
        assert isinstance(made.sasl_password, Secret)
        assert "secret" not in repr(made)


def test_a_login_is_ignored_where_there_is_none() -> None:
    made = config(sasl_plain_username="ann", sasl_plain_password="secret", sasl_mechanism="GSSAPI")
    assert made.sasl_mechanism is None


def test_tls_takes_the_context() -> None:
    context = ssl.create_default_context()
    assert config(security_protocol="SSL", ssl_context=context).ssl_context is context
    assert config(ssl_context=context).ssl_context is None


def test_kerberos() -> None:
    made = config(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="brokers",
    )
    assert made.sasl_kerberos_service_name == "brokers"
    with pytest.raises(ConfigError, match="sasl_kerberos_domain_name"):
        config(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            sasl_kerberos_domain_name="elsewhere",
        )


async def test_tokens_come_from_a_provider_of_aiokafka() -> None:
    class Provider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return "header.payload.signature"

        def extensions(self) -> dict[str, str]:
            return {"logicalCluster": "lkc-1"}

    made = config(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    provider: Any = made.sasl_oauthbearer_token_provider
    assert await provider() == ("header.payload.signature", None, None, {"logicalCluster": "lkc-1"})
