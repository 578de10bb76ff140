"""Clients that reach their brokers through a proxy: SOCKS5 and CONNECT."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.reader import Reader
from aioproducer.testing import MockCluster
from tests.support.proxies import LoopbackProxy

LOGINS = {"socks5": ("us:er", "p@ss/w%"), "http": ("user", "p@ss:w%")}
WRITTEN = {"socks5": "us%3Aer:p%40ss%2Fw%25@", "http": "user:p%40ss%3Aw%25@"}

schemes = pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])


def proxy_for(scheme: str, **changes: Any) -> LoopbackProxy:
    return LoopbackProxy("http" if scheme == "http" else "socks5", **changes)


@pytest.fixture(scope="module")
def cluster() -> Any:
    with MockCluster(2, {"orders": 2}) as cluster:
        yield cluster


@schemes
@pytest.mark.parametrize("with_login", [False, True])
@pytest.mark.parametrize("byte_by_byte", [False, True])
async def test_every_connection_leads_through_the_proxy(
    cluster: MockCluster, scheme: str, with_login: bool, byte_by_byte: bool
) -> None:
    kind = "http" if scheme == "http" else "socks5"
    login = LOGINS[kind] if with_login else None
    async with proxy_for(scheme, login=login, byte_by_byte=byte_by_byte) as proxy:
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "proxy_url": proxy.url(scheme, WRITTEN[kind] if with_login else ""),
        }
        async with Producer(**options) as producer:
            sent = await producer.send("orders", b"value", partition=1)
        async with Reader({("orders", 1): sent.offset}, **options) as reader:
            record = await anext(aiter(reader))
        assert (record.value, record.offset) == (b"value", sent.offset)
        async with Admin(**options) as admin:
            assert "orders" in await admin.list_topics()
        assert proxy.accepted == len(proxy.asked) >= 3
        assert {f"{each.host}:{each.port}" for each in proxy.asked} <= {
            *cluster.bootstrap_servers.split(",")
        }
        assert proxy.logins == ([login] * proxy.accepted if login else [])
