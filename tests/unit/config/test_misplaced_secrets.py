"""Secrets in options that are none: no error, ``repr`` or log line shows them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.config.configured_login import login_of
from aioproducer.errors import ConfigError


def secured(mechanism: str, **options: Any) -> ProducerConfig:
    made = {"bootstrap_servers": "kafka.example:9093", "security_protocol": "SASL_SSL", **options}
    return ProducerConfig(**made, sasl_mechanism=mechanism)  # type: ignore[arg-type]


def oauth(name: str) -> str:
    return f"sasl_oauthbearer_{name}"


@pytest.mark.parametrize("token", ["eyJhbGciOiJub25lIn0.hunter2.x", b"hunter2", ["hunter2"]])
def test_a_token_in_the_provider_s_place_is_not_shown(token: Any) -> None:
    wanted = rf"'package.module:function', or None; the value of type {type(token).__name__} is hid"
    with pytest.raises(ConfigError, match=wanted) as raised:
        secured("OAUTHBEARER", **{oauth("token_provider"): token})
    assert "hunter2" not in str(raised.value)


CREDENTIALS = {
    oauth("client_credentials_client_id"): "shop",
    oauth("client_credentials_client_secret"): "s",
}


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@login.example/token",
        "https://hunter2@login.example/token",
        "HTTPS://:hunter2@login.example",
        "user:hunter2@login.example/token",
        "file://user:hunter2@/run/token",
        b"https://user:hunter2@login.example/token",
    ],
)
def test_an_endpoint_with_a_password_in_its_url_is_refused(url: Any) -> None:
    wanted = r"token_endpoint_url: expected a URL without user name and password .*is hidden"
    with pytest.raises(ConfigError, match=wanted) as raised:
        secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert "hunter2" not in str(raised.value)


def test_so_is_one_behind_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_SECRET", "hunter2")
    url = "https://user:${env:AIOPRODUCER_TEST_SECRET}@login.example/token"
    with pytest.raises(ConfigError, match="is not a URL without user name and password") as raised:
        secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("url", ["https://login.example/a@b", "https://login.example?mail=a@b"])
def test_elsewhere_in_a_url_the_sign_of_a_user_is_none(url: str) -> None:
    config = secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert config.sasl_oauthbearer_token_endpoint_url == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://login.example/token?api_key=hunter2", "https://login.example/token?********"),
        ("https://login.example/token#hunter2\nhunter2", "https://login.example/token#********"),
        ("https://login.example/token", "https://login.example/token"),
        (
            "https://login.example/${env:AIOPRODUCER_TEST_SECRET}?key=hunter2",
            "https://login.example/${env:AIOPRODUCER_TEST_SECRET}?********",
        ),
    ],
)
def test_the_query_of_an_endpoint_is_used_and_not_shown(
    url: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_SECRET", "hunter3")
    config = secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert f"{oauth('token_endpoint_url')}={shown!r}" in repr(config)
    assert "hunter" not in repr(config) + repr(login_of(config))
    used = config.sasl_oauthbearer_token_endpoint_url
    assert used == url.replace("${env:AIOPRODUCER_TEST_SECRET}", "hunter3")


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    "password",
    [
        "${ENV:hunter2}",
        "${vault:hunter2:b}",
        "${HUNTER2}",
        "x${hunter2}x",
        "$HUNTER2",
        "$(cat hunter2)",
        "%HUNTER2%",
        "{{ hunter2 }}",
    ],
)
@pytest.mark.parametrize("by_line", [False, True])
def test_a_placeholder_that_nobody_reads_is_warned_of(
    password: str, by_line: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if by_line:
        line = f'{JAAS} username="alice" password="{password}";'
        secured("PLAIN", sasl_jaas_config=line)
    else:
        secured("PLAIN", sasl_username="alice", sasl_password=password)
    (warning,) = warnings(caplog)
    name = "password of sasl_jaas_config" if by_line else "sasl_password"
    assert warning.startswith(f"{name} looks like a placeholder")
    assert "hunter2" not in warning.lower()


@pytest.mark.parametrize("password", ["hunter2\n", " hunter2", "hunter2\r\n", "\thunter2"])
def test_white_space_around_a_password_is_warned_of(
    password: str, caplog: pytest.LogCaptureFixture
) -> None:
    secured("PLAIN", sasl_username="alice", sasl_password=password)
    (warning,) = warnings(caplog)
    assert warning.startswith("sasl_password begins or ends with white space")
    assert "hunter2" not in warning


def test_so_is_the_white_space_that_a_placeholder_brings(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_SECRET", "hunter2\n")
    secured("PLAIN", sasl_username="a", sasl_password="${env:AIOPRODUCER_TEST_SECRET}")
    (warning,) = warnings(caplog)
    assert "white space" in warning


@pytest.mark.parametrize(
    "password", ["hunter2", "hun ter2", "$ecret", "pa$$word", "a$B", "100%", "{hunter2}", "$", ""]
)
def test_an_ordinary_password_is_not_warned_of(
    password: str, caplog: pytest.LogCaptureFixture
) -> None:
    secured("PLAIN", sasl_username="alice", sasl_password=password)
    assert not warnings(caplog)


def test_a_placeholder_that_is_read_is_not_warned_of(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    secured("PLAIN", sasl_username="alice", sasl_password=f"${{dir:{tmp_path}:password}}")
    assert not warnings(caplog)


def test_a_property_s_placeholder_without_provider_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.key.password": "${env:NAME}",
    }
    ProducerConfig.from_properties(properties)
    (warning,) = warnings(caplog)
    assert warning.startswith("ssl_key_password looks like a placeholder")
    assert "config.providers" in warning
