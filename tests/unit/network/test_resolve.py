from __future__ import annotations

import socket
from typing import Any

import pytest

from aioproducer.engine.network.transport import canonical_names, resolve
from aioproducer.errors import BrokerConnectionError


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A name service: addresses by name; the canonical name of ``a.b`` is ``host-a.b``."""
    known: dict[str, list[str]] = {}

    def getaddrinfo(host: bytes, port: int, **options: Any) -> list[Any]:
        name = host.decode()
        if name not in known or options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (each, port, 0, 0))
            if ":" in each
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in known[name]
        ]

    def getnameinfo(address: Any, flags: int) -> tuple[str, str]:
        return f"host-{address[0]}", str(address[1])

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    return known


async def test_every_address_once_in_the_resolvers_order(names: dict[str, list[str]]) -> None:
    names["kafka"] = ["10.0.0.2", "::1", "10.0.0.1", "10.0.0.2", "fe80::1%eth0"]
    assert await resolve("kafka", 9092) == [
        ("10.0.0.2", 9092),
        ("::1", 9092),
        ("10.0.0.1", 9092),
        ("fe80::1%eth0", 9092),
    ]


async def test_a_name_that_nobody_knows(names: dict[str, list[str]]) -> None:
    with pytest.raises(BrokerConnectionError, match="'nobody' can't be resolved") as caught:
        await resolve("nobody", 9092)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "a\0b", "\ud800", ""])
async def test_a_name_that_is_none(host: str) -> None:
    """A broker may advertise anything; it must not be what breaks the producer."""
    with pytest.raises(BrokerConnectionError, match="can't be resolved"):
        await resolve(host, 9092)


@pytest.mark.parametrize("port", [70_000, -1, 2**31 - 1])
async def test_a_port_that_is_none(port: int) -> None:
    with pytest.raises(BrokerConnectionError, match=str(port)):
        await resolve("127.0.0.1", port)


async def test_canonical_names_of_every_address(names: dict[str, list[str]]) -> None:
    names["alias"] = ["10.0.0.1", "10.0.0.2"]
    names["other"] = ["10.0.0.2", "::1"]
    assert await canonical_names([("alias", 9092), ("other", 9093), ("alias", 9092)]) == [
        ("host-10.0.0.1", 9092),
        ("host-10.0.0.2", 9092),
        ("host-10.0.0.2", 9093),
        ("host-::1", 9093),
    ]


async def test_a_bootstrap_server_that_cannot_be_resolved_does_not_hide_the_others(
    names: dict[str, list[str]],
) -> None:
    """Kafka's ClientUtils warns and goes on while at least one is left."""
    names["alias"] = ["10.0.0.1"]
    assert await canonical_names([("gone", 9092), ("alias", 9092)]) == [("host-10.0.0.1", 9092)]


async def test_no_bootstrap_server_can_be_resolved(names: dict[str, list[str]]) -> None:
    with pytest.raises(BrokerConnectionError, match=r"'gone'.*'lost'"):
        await canonical_names([("gone", 9092), ("lost", 9092)])
