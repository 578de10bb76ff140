"""What the options of security demand of each other, and the warnings."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aioproducer.auth.azure import AzureIdentity
from aioproducer.config import ProducerConfig
from aioproducer.errors import ConfigError

ALICE = {"sasl_username": "alice", "sasl_password": "hunter2"}
PEM = "-----BEGIN CERTIFICATE-----"


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(**{"bootstrap_servers": "kafka.example:9092", **options})


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
        ({"ssl_enabled_protocols": "TLSv1.1"}, "ssl_enabled_protocols has 'TLSv1.1'; use TLSv1.2"),
        ({"ssl_enabled_protocols": ""}, "ssl_enabled_protocols is empty"),
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
            "ssl_keystore_password is not for PEM text .* the password of an "
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
    with pytest.raises(
        ConfigError, match=r"^ssl_context and ssl_crl_location: configure the context"
    ):
        config(security_protocol="SSL", ssl_context=context, ssl_crl_location="/crl.pem")


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
        "ssl_truststore_location": "/ca.pem",
        "ssl_key_password": "hunter2",
    }
    login: dict[str, Any] = {"bootstrap_servers": "localhost:1"}
    if protocol.startswith("SASL"):
        login |= {"sasl_mechanism": "PLAIN", **ALICE}
    with pytest.raises(ConfigError) as caught:
        config(security_protocol=protocol, **login, **options)
    assert str(caught.value) == (
        f"ssl_truststore_location, ssl_key_password: security_protocol={protocol!r} sends "
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
