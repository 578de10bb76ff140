"""What options demand of each other, and the warnings."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from aioproducer.auth.azure import AzureIdentity
from aioproducer.config import ProducerConfig
from aioproducer.errors import ConfigError


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(**{"bootstrap_servers": "a:1", **options})


@pytest.mark.parametrize(
    ("options", "effective"),
    [
        ({}, True),
        ({"acks": 1}, False),
        ({"acks": 0}, False),
        ({"acks": "all"}, True),
        ({"retries": 0}, False),
        ({"enable_idempotence": True, "acks": -1}, True),
        ({"enable_idempotence": False, "acks": "all"}, False),
        ({"enable_idempotence": False, "max_in_flight_requests_per_connection": 6}, False),
        ({"acks": 1, "max_in_flight_requests_per_connection": 5}, False),
    ],
)
def test_effective_idempotence(options: dict[str, Any], effective: bool) -> None:
    assert config(**options).enable_idempotence is effective


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"enable_idempotence": True, "acks": 1}, "needs acks='all', not '1';"),
        ({"enable_idempotence": True, "retries": 0}, "needs retries above 0, not 0;"),
        (
            {"enable_idempotence": True, "acks": 0, "retries": 0},
            "needs acks='all', not '0' and retries above 0, not 0;",
        ),
        (
            {"max_in_flight_requests_per_connection": 6},
            "needs max_in_flight_requests_per_connection of at most 5, not 6;",
        ),
        ({"max_in_flight_requests_per_connection": 6, "acks": 1}, "of at most 5, not 6;"),
        (
            {"max_in_flight_requests_per_connection": 6, "enable_idempotence": True},
            "of at most 5, not 6;",
        ),
    ],
)
def test_idempotence_conflicts(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**options)
    assert reason in str(caught.value)
    assert "or set enable_idempotence=False" in str(caught.value)


def test_disabled_idempotence_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aioproducer.config"):
        config(acks=1, retries=0)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        "idempotence is disabled: it needs acks='all', not '1' and retries above 0, not 0"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"delivery_timeout_ms": 30005},
        {"delivery_timeout_ms": 30000, "linger_ms": 0},
        {"delivery_timeout_ms": 30100, "linger_ms": 100},
        {"delivery_timeout_ms": 5, "request_timeout_ms": 0},
        {"delivery_timeout_ms": 2**31 - 1, "linger_ms": 2**40},
    ],
)
def test_delivery_timeout_that_suffices(options: dict[str, Any]) -> None:
    assert config(**options).delivery_timeout_ms == options["delivery_timeout_ms"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delivery_timeout_ms": 30004}, r"linger_ms \(adaptive: 5\) .* \(30000\) = 30005"),
        ({"delivery_timeout_ms": 30099, "linger_ms": 100}, r"linger_ms \(100\) .* = 30100"),
        ({"delivery_timeout_ms": 120000, "request_timeout_ms": 120000}, "= 120005"),
    ],
)
def test_delivery_timeout_too_short(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^delivery_timeout_ms=.* must be at least .*{reason}"):
        config(**options)


def test_default_delivery_timeout_grows(caplog: pytest.LogCaptureFixture) -> None:
    assert config(request_timeout_ms=200000, linger_ms=7).delivery_timeout_ms == 200007
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "delivery_timeout_ms is set to 200007" in caplog.text


@pytest.mark.parametrize(
    ("options", "maximum", "warning"),
    [
        ({}, 1000, None),
        ({"reconnect_backoff_ms": 2000}, 2000, "stays at 2000 ms"),
        ({"reconnect_backoff_ms": 10}, 10, "stays at 10 ms"),
        ({"reconnect_backoff_max_ms": 100}, 100, None),
        (
            {"reconnect_backoff_ms": 200, "reconnect_backoff_max_ms": 100},
            100,
            "reconnect_backoff_ms=200 is above reconnect_backoff_max_ms=100",
        ),
    ],
)
def test_reconnect_backoff(
    options: dict[str, Any],
    maximum: int,
    warning: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert config(**options).reconnect_backoff_max_ms == maximum
    assert len(caplog.records) == (warning is not None)
    assert warning is None or warning in caplog.text


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({"retry_backoff_ms": 2000}, "retry_backoff_ms=2000 is above retry_backoff_max_ms=1000"),
        ({"socket_connection_setup_timeout_ms": 40000}, "is above .*_max_ms=30000"),
        (
            {"partitioner": "murmur3", "partitioner_ignore_keys": True},
            "partitioner_ignore_keys has",
        ),
        (
            {"partitioner": "murmur3", "partitioner_availability_timeout_ms": 1},
            "partitioner_availability_timeout_ms has no effect: a partitioner is set",
        ),
        (
            {"partitioner": "murmur3", "partitioner_rack_aware": True, "client_rack": "a"},
            "partitioner_rack_aware has no effect: a partitioner is set",
        ),
        (
            {"partitioner_rack_aware": True},
            "partitioner_rack_aware has no effect: client_rack is not set",
        ),
    ],
)
def test_warnings(options: dict[str, Any], warning: str, caplog: pytest.LogCaptureFixture) -> None:
    made = config(**options)
    assert {name: getattr(made, name) for name in options} == options
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert re.search(warning, record.getMessage())


def test_batch_must_fit_into_three_quarters_of_the_memory() -> None:
    assert config(batch_size=75, buffer_memory=100).batch_size == 75
    with pytest.raises(ConfigError, match=r"batch_size=76 .* buffer_memory=100 \(75 bytes"):
        config(batch_size=76, buffer_memory=100)
    with pytest.raises(ConfigError, match="lower batch_size or raise buffer_memory"):
        config(batch_size=16384, buffer_memory=16384)
    assert config(buffer_memory=100).batch_size is None, (
        "a batch that adapts is as small as need be"
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"enable_idempotence": False}, "transactional_id needs enable_idempotence=True"),
        ({"acks": 1}, "transactional_id needs acks='all', not '1': change that"),
        ({"retries": 0}, "transactional_id needs retries above 0"),
        ({"max_in_flight_requests_per_connection": 6}, "transactional_id needs .* at most 5"),
    ],
)
def test_transactions_need_idempotence(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        config(transactional_id="t", **options)
    assert config(transactional_id="t").enable_idempotence


def test_a_contradiction_does_not_hide_a_malformed_one() -> None:
    with pytest.raises(ConfigError, match="security_protocol='TLS'"):
        config(security_protocol="TLS", transactional_id="t")


ALICE = {"sasl_username": "alice", "sasl_password": "hunter2"}
PEM = "-----BEGIN CERTIFICATE-----"


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "sasl_ssl", "SSL", "PLAINTEXT"])
def test_every_protocol_is_there(protocol: str) -> None:
    login = {"sasl_mechanism": "PLAIN", **ALICE} if protocol.lower().startswith("sasl") else {}
    assert config(security_protocol=protocol, **login).security_protocol == protocol.upper()


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize(
    "options",
    [
        {"sasl_mechanism": "PLAIN"},
        {"sasl_jaas_config": "M required;"},
        {"sasl_username": "alice"},
        {"sasl_oauthbearer_token_endpoint_url": "https://login.example"},
    ],
)
def test_a_login_needs_its_protocol(protocol: str, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=rf"^{name} needs a security_protocol .*'SASL_SSL'"):
        config(security_protocol=protocol, **options)
    assert config(security_protocol=protocol, **{name: None})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"ssl_enabled_protocols": "TLSv1.1"},
            "TLSv1.1 is insecure and not supported: use TLSv1.2",
        ),
        ({"ssl_enabled_protocols": ""}, "no TLS version is left: ssl_enabled_protocols"),
        ({"ssl_truststore_certificates": PEM}, "PEM text: set ssl_truststore_type='PEM'"),
        (
            {"ssl_keystore_key": "hunter2", "ssl_keystore_type": "PEM"},
            "ssl_keystore_key also needs ssl_keystore_certificate_chain",
        ),
        (
            {"ssl_keystore_certificate_chain": PEM, "ssl_keystore_type": "PEM"},
            "ssl_keystore_certificate_chain also needs ssl_keystore_key",
        ),
        (
            {
                "ssl_truststore_certificates": PEM,
                "ssl_truststore_type": "PEM",
                "ssl_truststore_location": "/ca.pem",
            },
            "ssl_truststore_location and ssl_truststore_certificates: give the file or the text",
        ),
        (
            {
                "ssl_keystore_key": "hunter2",
                "ssl_keystore_certificate_chain": PEM,
                "ssl_keystore_type": "PEM",
                "ssl_keystore_password": "hunter2",
            },
            "ssl_keystore_password does not apply to ssl_keystore_key: the password of an "
            "encrypted key is ssl_key_password",
        ),
    ],
)
def test_contradictions_of_tls(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        config(security_protocol="SSL", **options)
    assert "hunter2" not in str(caught.value)


def test_a_context_of_the_users_stands_alone() -> None:
    import ssl

    context = ssl.create_default_context()
    assert config(security_protocol="SSL", ssl_context=context).ssl_context is context
    assert config(security_protocol="SSL", ssl_context=context, ssl_crl_location=None)
    for name, value in (
        ("ssl_crl_location", "/crl.pem"),
        ("ssl_endpoint_identification_algorithm", "https"),  # the default; a context may differ
    ):
        with pytest.raises(
            ConfigError, match=f"^configure ssl_context itself, .* the options {name}$"
        ):
            config(security_protocol="SSL", ssl_context=context, **{name: value})


def warnings(caplog: pytest.LogCaptureFixture, **options: Any) -> list[str]:
    caplog.clear()
    config(**options)
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("protocol", "secured"), [("PLAINTEXT", "SSL"), ("SASL_PLAINTEXT", "SASL_SSL")]
)
def test_tls_options_without_tls_are_refused(
    protocol: str, secured: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sets them believes that the connections are encrypted."""
    options: dict[str, Any] = {
        "ssl_keystore_location": "/key.pem",
        "ssl_key_password": "hunter2",
    }
    login: dict[str, Any] = {"bootstrap_servers": "localhost:1"}
    if protocol.startswith("SASL"):
        login |= {"sasl_mechanism": "PLAIN", **ALICE}
    with pytest.raises(ConfigError) as caught:
        config(security_protocol=protocol, **login, **options)
    assert str(caught.value) == (
        f"ssl_keystore_location, ssl_key_password: security_protocol={protocol!r} sends "
        f"everything in the clear; set security_protocol={secured!r}, or remove these options"
    )
    assert not warnings(caplog, security_protocol=secured, **login, **options)
    assert not warnings(caplog, security_protocol=protocol, **login)


ENDPOINT = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "https://login.example/token",
    "sasl_oauthbearer_client_credentials_client_id": "shop",
    "sasl_oauthbearer_client_credentials_client_secret": "hunter2",
}


def test_a_token_endpoint_has_a_truststore_without_tls_to_brokers() -> None:
    authorities = {"ssl_truststore_location": "/ca.pem", "ssl_truststore_type": "PEM"}
    identity = {"sasl_oauthbearer_token_provider": AzureIdentity("api://kafka")}
    for login in (ENDPOINT, {**dict(list(ENDPOINT.items())[:2]), **identity}):
        assert config(**login, **authorities).ssl_truststore_location == "/ca.pem"
    with pytest.raises(ConfigError, match=r"^ssl_keystore_location: security_protocol="):
        config(**ENDPOINT, **authorities, ssl_keystore_location="/key.pem")
    of_a_file = ENDPOINT | {"sasl_oauthbearer_token_endpoint_url": "file:///token"}
    with pytest.raises(ConfigError, match=r"^ssl_truststore_location: security_protocol="):
        config(**of_a_file, **authorities)


@pytest.mark.parametrize(
    "options",
    [
        {"ssl_endpoint_identification_algorithm": "https"},
        {"ssl_endpoint_identification_algorithm": ""},
        {"ssl_truststore_type": "JKS", "ssl_protocol": "TLSv1.3"},
        {"ssl_truststore_type": "PEM", "ssl_truststore_location": None},
        {"ssl_key_password": "", "ssl_cipher_suites": ""},
        {"ssl_enabled_protocols": "TLSv1.2,TLSv1.3"},
    ],
)
def test_what_asks_for_no_tls_is_accepted_without_it(options: dict[str, Any]) -> None:
    assert config(**options).security_protocol == "PLAINTEXT"


def test_a_copy_of_a_configuration_with_tls_can_be_one_without() -> None:
    secured = config(
        security_protocol="SSL", ssl_truststore_location="/ca.pem", ssl_truststore_type="PEM"
    )
    plain = secured.replace(security_protocol="PLAINTEXT", ssl_truststore_location=None)
    assert plain.security_protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("servers", "mechanism", "said"),
    [
        ("kafka.example:9092", "PLAIN", "PLAIN: the password and all records are readable"),
        ("localhost:1,10.0.0.1:2", "PLAIN", "PLAIN: the password"),
        ("kafka.example:9092", "SCRAM-SHA-512", "SCRAM-SHA-512: all records are readable"),
        ("localhost:1,127.0.0.2:2,[::1]:3", "PLAIN", None),
    ],
)
def test_a_login_that_others_can_read(
    servers: str, mechanism: str, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    login = {"bootstrap_servers": servers, "sasl_mechanism": mechanism, **ALICE}
    heard = warnings(caplog, security_protocol="SASL_PLAINTEXT", **login)
    assert len(heard) == (said is not None)
    assert said is None or said in heard[0]
    assert "hunter2" not in caplog.text
    assert "alice" not in caplog.text
    assert not warnings(caplog, security_protocol="SASL_SSL", **login)


def test_kerberos_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    kerberos = {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"}
    assert not warnings(caplog, security_protocol="SASL_PLAINTEXT", **kerberos)


FITTING = {
    "max_request_size": 1_000_000,
    "metadata_max_age_ms": 180_000,
    "connections_max_idle_ms": 180_000,
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"max_request_size": 1_046_528}, "max_request_size=1046528 (set 1000000)"),
        ({"metadata_max_age_ms": 240_000}, "metadata_max_age_ms=240000 (set 180000)"),
        ({"connections_max_idle_ms": 240_000}, "connections_max_idle_ms=240000 (set 180000)"),
        ({"connections_max_idle_ms": -1}, "connections_max_idle_ms=-1 (set 180000)"),
    ],
)
def test_limits_of_event_hubs(
    change: dict[str, int], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**FITTING, **change}
    heard = warnings(caplog, bootstrap_servers="shop.servicebus.windows.net:9093", **options)
    assert len(heard) == (said is not None)
    assert said is None or heard[0].endswith(f"outside its limits: {said}")
    assert not warnings(caplog, **options)


def test_kafkas_defaults_are_not_those_of_event_hubs(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = warnings(caplog, bootstrap_servers="shop.servicebus.windows.net:9093")
    assert said.count("(set ") == 3
