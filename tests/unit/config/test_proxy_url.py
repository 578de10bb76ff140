"""The option ``proxy_url``: what it accepts, what it refuses, and that nobody sees the login."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.proxy_url import Proxy, ProxyLogin, parse_proxy_url
from aioproducer.errors import ConfigError

LOGIN = "al%69ce:hunter2%40%2F%3a@"


def config(url: Any, **options: Any) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="kafka:9092", proxy_url=url, **options)


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port"),
    [
        ("socks5://gate", "socks5", "gate", 1080),
        ("SOCKS5H://gate.example.:1081/", "socks5h", "gate.example.", 1081),
        ("socks5h://gate:", "socks5h", "gate", 1080),
        ("http://10.0.0.1:3128", "http", "10.0.0.1", 3128),
        ("http://[::1]:8080/", "http", "::1", 8080),
        ("socks5://[2001:DB8:0::1]", "socks5", "2001:db8::1", 1080),
    ],
)
def test_the_parts_of_a_url(url: str, scheme: str, host: str, port: int) -> None:
    assert parse_proxy_url(Secret(url)) == Proxy(scheme, host, port, None)
    before = url.partition("//")[0]
    login = ProxyLogin(Secret("alice"), Secret("hunter2@/:"))
    with_login = Secret(url.replace("//", f"//{LOGIN}"))
    assert parse_proxy_url(with_login) == Proxy(scheme, host, port, login), before


def test_names_are_resolved_where_the_scheme_says() -> None:
    at_proxy = {
        scheme: parse_proxy_url(Secret(f"{scheme}://gate:1")).resolves_names
        for scheme in ("socks5", "socks5h", "http")
    }
    assert at_proxy == {"socks5": False, "socks5h": True, "http": True}


@pytest.mark.parametrize(
    ("written", "user", "password"),
    [
        ("alice@", "alice", ""),
        ("alice:@", "alice", ""),
        ("a:b:c@", "a", "b:c"),
        ("a:b@c@", "a", "b@c"),
    ],
)
def test_logins(written: str, user: str, password: str) -> None:
    proxy = parse_proxy_url(Secret(f"http://{written}gate:1"))
    assert proxy.login == (Secret(user), Secret(password))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://gate:443", "TLS to the proxy itself is not supported"),
        ("socks4://gate:1080", "'http://host:port' (CONNECT), not the scheme 'socks4'"),
        ("ftp://gate", "not the scheme 'ftp'"),
        ("gate:1080", "begins with its scheme"),
        ("http://gate", "a port, as in 'http://host:3128'"),
        ("socks5://gate:0", "from 1 to 65535"),
        ("socks5://gate:65536", "from 1 to 65535"),
        ("socks5://gate:http", "from 1 to 65535"),
        ("socks5://::1:1080", "'socks5h://host:port'"),
        ("socks5://[gate]:1080", "an IPv6 address between"),
        ("socks5://ga te:1080", "'socks5h://host:port'"),
        ("socks5://gate:1080/path", "'socks5h://host:port'"),
        ("socks5://gate:1080\r\n", "from 1 to 65535"),
        ("socks5://", "'socks5h://host:port'"),
        ("", "'socks5h://host:port'"),
        ("http://a%3Ab:c@gate:1", "no ':'"),
        ("http://:hunter2@gate:1", "a user name before the password"),
        ("http://alice:%ff@gate:1", "percent-encoded UTF-8"),
        (f"socks5://alice:{'x' * 256}@gate", "at most 255 bytes"),
        ("socks5://alice:hunt/er2@gate", "Percent-encode"),
        (5, "'socks5h://host:port'"),
        (b"socks5://alice:hunter2@gate", "'socks5h://host:port'"),
    ],
)
def test_a_refused_url_has_its_reason(url: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(url)
    message = str(raised.value)
    assert message.startswith("proxy_url")
    assert said in message
    for secret in ("alice", "hunt", "er2", "xxx"):
        assert secret not in message


@pytest.mark.parametrize(
    "url",
    [
        "socks6://alice:hunter2@gate:1080",
        "socks5://alice:hunter2",
        "alice:hunter2@gate",
        "socks5//alice:hunter2@gate",
        "https://alice:hunter2@gate:443",
    ],
)
def test_no_traceback_shows_the_login_of_a_refused_url(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(url)
    assert "hunter2" not in str(raised.value)
    traceback = raised.value.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename != __file__:
            assert "hunter2" not in repr(traceback.tb_frame.f_locals.get("options"))
        traceback = traceback.tb_next


def test_a_plain_url_is_named_in_its_error() -> None:
    with pytest.raises(
        ConfigError, match=r"^proxy_url='socks4://gate:1080' \(type str\): expected"
    ):
        config("socks4://gate:1080")


def test_repr_masks_the_login_alone() -> None:
    assert "proxy_url='socks5h://gate:1080'" in repr(config("socks5h://gate:1080"))
    shown = repr(config(f"socks5h://{LOGIN}gate:1080"))
    assert "proxy_url='socks5h://********@gate:1080'" in shown
    assert "hunter2" not in repr(parse_proxy_url(Secret(f"socks5h://{LOGIN}gate:1080")))


def test_a_pickle_and_a_copy_have_it() -> None:
    made = config(f"socks5h://{LOGIN}gate:1080")
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.replace(linger_ms=1).proxy_url == made.proxy_url
    assert made.replace(proxy_url=None).proxy_url is None


def test_a_login_counts_as_a_plain_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", "hunter2")
    assert config(f"http://{LOGIN}gate:1").plain_secrets() == ("proxy_url",)
    assert config("http://gate:1").plain_secrets() == ()
    by_reference = config("http://alice:${env:PROXY_PASSWORD}@gate:1")
    assert by_reference.plain_secrets() == ()
    assert by_reference.proxy_url == Secret("http://alice:hunter2@gate:1")
    assert "hunter2" not in repr(by_reference)
    assert "${env:PROXY_PASSWORD}" in repr(by_reference)


def test_properties_have_it_by_a_dotted_name(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=kafka:9092\nproxy.url=socks5://gate\n", "utf-8")
    made = ProducerConfig.from_properties(file)
    assert made.proxy_url == Secret("socks5://gate")


def test_the_name_of_kafka_python_2_is_known() -> None:
    with pytest.raises(ConfigError, match="is another client's option; use proxy_url"):
        ProducerConfig(bootstrap_servers="k:1", socks5_proxy="x")  # type: ignore[call-arg]


def test_names_that_the_proxy_resolves_are_not_looked_up_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    canonical: Any = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}
    for url in ("socks5h://gate", "http://gate:1"):
        with pytest.raises(ConfigError, match="use socks5:// in proxy_url"):
            config(url, **canonical)
    config("socks5://gate", **canonical)
    with caplog.at_level(logging.WARNING):
        config("socks5://gate", bootstrap_resolve_timeout_ms=5)
        assert caplog.messages == []
        config("socks5h://gate", bootstrap_resolve_timeout_ms=5)
    assert "bootstrap_resolve_timeout_ms has no effect" in caplog.text
