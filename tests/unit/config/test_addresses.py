from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.config.addresses import parse_addresses
from aioproducer.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
        (["a:1,b:2", "c:3"], [("a", 1), ("b", 2), ("c", 3)]),
        ((("a", 1), ("::1", 2)), [("a", 1), ("::1", 2)]),
        (iter(["a:1"]), [("a", 1)]),
        ("[::1]:9092", [("::1", 9092)]),
        (
            "[2001:db8::1]:9092,[fe80::1%eth0]:65535",
            [("2001:db8::1", 9092), ("fe80::1%eth0", 65535)],
        ),
        ("10.0.0.1:1", [("10.0.0.1", 1)]),
        ("broker_1.my-net.example.:9092", [("broker_1.my-net.example.", 9092)]),
        ("PLAINTEXT://a:1,plaintext://[::1]:2", [("a", 1), ("::1", 2)]),
        ("a:1,b:2,a:1,A:1", [("a", 1), ("b", 2)]),
        ("a:1,a:2", [("a", 1), ("a", 2)]),
    ],
)
def test_addresses(given: str, expected: list[tuple[str, int]]) -> None:
    parsed = parse_addresses(given)
    assert parsed == tuple(expected)
    assert parse_addresses(parsed) == parsed


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "the list is empty"),
        (" , ,", "the list is empty"),
        ([], "the list is empty"),
        ("localhost", "'localhost' has no port; .* 'localhost:9092'"),
        ("a:1,b", "'b' has no port"),
        ("[::1]", r"'\[::1\]' has no port; .* '\[::1\]:9092'"),
        ("[::1]9092", "has no port"),
        ("::1:9092", r"IPv6 address in brackets, as in '\[::1\]:9092'"),
        ("a:9092;b:9092", "^'a:9092;b:9092' has ';' between addresses: write ','$"),
        ("a:9092 b:9092", "has ' ' between addresses: write ','"),
        ("fe80::1", "IPv6 address in brackets"),
        ("[::1:9092", "closing ']'"),
        ("[localhost]:9092", "'localhost' in .* is not an IPv6 address"),
        ("a:0", "from 1 to 65535, not '0'"),
        ("a:65536", "from 1 to 65535, not '65536'"),
        ("a:-1", "not '-1'"),
        ("a:", "^'a:' has to have a port from 1 to 65535, not ''$"),
        ("a:kafka", "not 'kafka'"),
        ("a:٣", "from 1 to 65535"),
        (":9092", "'' in ':9092' is not a host name"),
        ("a b:9092", "'a b' in 'a b:9092' is not a host name"),
        ("-a:9092", "is not a host name"),
        ("a/b:9092", "is not a host name"),
        ("SASL_SSL://a:9092", "the option security_protocol"),
        (
            "http://a:9092/",
            "^'http://a:9092/' names a protocol: write 'a:9092'; Kafka's protocol is the option "
            "security_protocol$",
        ),
        ([9092], "not int"),
        ([("a", True)], "not tuple"),
        ([("a", "1")], "not tuple"),
        ([("a", 99999)], "from 1 to 65535"),
    ],
)
def test_malformed_addresses(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_addresses(given)


def test_credentials_in_an_address_are_not_repeated() -> None:
    with pytest.raises(ValueError, match="contain credentials") as caught:
        parse_addresses("me:hunter2@broker:9092")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("form", [str, lambda text: [text], lambda text: ("a:1", text)])
@pytest.mark.parametrize(
    "make",
    [
        lambda servers: ProducerConfig(bootstrap_servers=servers),
        lambda servers: ProducerConfig.from_properties({"bootstrap.servers": servers}),
        lambda servers: ProducerConfig.from_librdkafka({"bootstrap.servers": servers}),
    ],
)
def test_credentials_are_neither_in_the_error_nor_in_its_frames(
    make: Callable[[Any], object], form: Callable[[str], Any]
) -> None:
    servers = form("sasl://u:s3cr3tPW@h:9092")
    with pytest.raises(ConfigError, match="contain credentials") as caught:
        make(servers)
    assert "s3cr3tPW" not in str(caught.value)
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        if frame.f_code.co_filename != __file__:
            assert "s3cr3tPW" not in repr(frame.f_locals)
