"""Addresses of a broker, sockets, and names that nobody knows."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from aioproducer.errors import BrokerConnectionError
from aioproducer.model import BootstrapId, BootstrapServer, Node
from aioproducer.network.transport import SocketSettings
from tests.unit.network.scripted_broker import LONG, SHORT, Owner, Peer, broker, resolves_to

UNUSED = (1, 2)
"""Ports that nobody listens at."""


async def run(owner: Owner) -> BrokerConnectionError:
    reason = await asyncio.wait_for(owner.run(), LONG)
    assert type(reason) is BrokerConnectionError
    return reason


async def test_a_refused_port() -> None:
    reason = await run(Owner(BootstrapServer(BootstrapId("-1"), "127.0.0.1", UNUSED[0])))
    assert "bootstrap server 127.0.0.1:" in str(reason)
    assert "refused" in str(reason)


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
async def test_a_name_that_is_none(host: str) -> None:
    reason = await run(Owner(Node(3, host, 9092)))
    assert f"broker 3 ({host}:9092)" in str(reason)
    assert "can't be resolved" in str(reason)


async def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    reason = await run(Owner(Node(3, "kafka.test", 9092)))
    assert "broker 3 (kafka.test:9092)" in str(reason)
    assert "can't be resolved" in str(reason)


async def test_a_port_that_is_none() -> None:
    assert "70000" in str(await run(Owner(Node(3, "127.0.0.1", 70_000))))


async def test_each_address_is_tried_until_one_answers() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        ports = [*UNUSED, node.port]
        socket = resolves_to(*(("127.0.0.1", port) for port in ports))
        owner = Owner(Node(1, "kafka", 9092), socket=socket)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        running.cancel()


async def test_when_no_address_answers_each_has_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    socket = resolves_to(("10.0.0.1", 1), ("127.0.0.1", 1), ("10.0.0.2", 1))
    owner = Owner(Node(1, "kafka", 9092), socket=socket)

    async def create_connection(make_protocol: Any, host: str, port: int, **_: Any) -> Any:
        if host.startswith("10."):
            await asyncio.get_running_loop().create_future()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    owner.connection._setup_timeout = SHORT
    reason = str(await run(owner))
    assert "10.0.0.1: no connection within 0" in reason
    assert "10.0.0.2: no connection within" in reason
    assert "127.0.0.1: " in reason
    assert "refused" in reason


async def test_a_resolver_that_hangs_ends_after_the_setup_timeout() -> None:
    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    owner = Owner(Node(1, "kafka", 9092), socket=SocketSettings(-1, -1, resolve=resolve))
    owner.connection._setup_timeout = SHORT
    assert "'kafka' was not resolved" in str(await run(owner))
