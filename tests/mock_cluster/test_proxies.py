"""Clients that reach their brokers through a proxy: SOCKS5 and CONNECT."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from aioproducer import AuthenticationError, Producer, SslAuthenticationError
from aioproducer.admin import Admin
from aioproducer.cli.app import run
from aioproducer.consumer import Consumer
from aioproducer.reader import Reader
from aioproducer.sync import Producer as SyncProducer
from aioproducer.testing import FaultProxy, MockCluster
from aioproducer.testing.certificates import Authority
from tests.documentation.pages import ROOT, Block, blocks
from tests.documentation.test_blocks import run as run_block
from tests.support.fake_kafka import FakeKafka
from tests.support.proxies import LoopbackProxy
from tests.support.waiting import until

NAME = "kafka.test"
PAGE = ROOT / "docs" / "how-to" / "proxies.md"
LOGINS = {"socks5": ("us:er", "p@ss/w%"), "http": ("user", "p@ss:w%")}
WRITTEN = {"socks5": "us%3Aer:p%40ss%2Fw%25@", "http": "user:p%40ss%3Aw%25@"}

schemes = pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])


def proxy_for(scheme: str, **changes: Any) -> LoopbackProxy:
    return LoopbackProxy("http" if scheme == "http" else "socks5", **changes)


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(2, {"orders": 2}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


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
        assert len(proxy.asked) >= 3
        assert {f"{each.host}:{each.port}" for each in proxy.asked} <= {
            *cluster.bootstrap_servers.split(",")
        }
        assert set(proxy.logins) == ({login} if login else set())
        assert not login or len(proxy.logins) >= len(proxy.asked)


@schemes
async def test_names_and_certificates_through_the_proxy(scheme: str, authority: Authority) -> None:
    """The brokers have a name that the proxy alone knows, and a certificate for that name."""
    context = authority.issue("broker", hosts=(NAME,)).server_context()
    names = {NAME: "127.0.0.1"}
    with MockCluster(1, {"orders": 1}) as cluster:
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
        async with FaultProxy(port, tls=context) as broker, proxy_for(scheme, names=names) as proxy:
            cluster.set_broker_address(1, NAME, broker.port)
            options: dict[str, Any] = {
                "bootstrap_servers": f"{NAME}:{broker.port}",
                "proxy_url": proxy.url("socks5h" if scheme == "socks5" else scheme),
                "security_protocol": "SSL",
                "ssl_truststore_type": "PEM",
                "ssl_truststore_certificates": authority.pem,
                "bootstrap_resolve_timeout_ms": 20_000,
            }
            async with Producer(**options) as producer:
                sent = await producer.send("orders", b"value")
                assert sent.offset == 0
            assert all(each.by_name for each in proxy.asked)
            cluster.set_broker_address(1, "other.test", broker.port)
            proxy.names["other.test"] = "127.0.0.1"
            options["bootstrap_servers"] = f"other.test:{broker.port}"
            async with Producer(**options) as producer:
                with pytest.raises(SslAuthenticationError, match=r"other\.test"):
                    await producer.send("orders", b"value")


@schemes
async def test_a_refused_login_fails_records_at_once(cluster: MockCluster, scheme: str) -> None:
    async with proxy_for(scheme, login=("alice", "right")) as proxy:
        url = proxy.url(scheme, "alice:hunter2@")
        options: Any = {"bootstrap_servers": cluster.bootstrap_servers, "proxy_url": url}
        async with Producer(**options) as producer:
            with pytest.raises(AuthenticationError) as raised:
                await producer.send("orders", b"value")
            assert f"proxy 127.0.0.1:{proxy.port} refused the login" in str(raised.value)
            for text in (str(raised.value), repr(producer.health()), repr(producer.config)):
                assert "hunter2" not in text
                assert "alice" not in text
        assert proxy.accepted <= 2


@schemes
async def test_a_refused_destination_is_tried_again(
    cluster: MockCluster, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The rules of a proxy may change, so the record waits for its timeout."""
    async with proxy_for(scheme) as proxy:
        proxy.refusal = "403 Forbidden" if scheme == "http" else 2
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            proxy_url=proxy.url(scheme, "alice:hunter2@" if scheme == "http" else ""),
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=20,
        ) as producer:
            sent = producer.send("orders", b"value")
            await until(lambda: proxy.accepted >= 3)
            refused = str(producer.health().brokers)
            assert "Configure the proxy to allow" in refused + caplog.text
            proxy.refusal = None
            await sent
    assert "hunter2" not in caplog.text


async def test_connections_that_a_proxy_cuts_are_made_again(cluster: MockCluster) -> None:
    async with proxy_for("socks5h") as proxy:
        options: Any = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "proxy_url": proxy.url("socks5h"),
        }
        async with Producer(**options, reconnect_backoff_ms=10) as producer:
            offsets = set()
            for _ in range(5):
                offsets.add((await producer.send("orders", b"value", partition=0)).offset)
                await proxy.cut()
            assert len(offsets) == 5


async def test_blocking_code_and_uvloop(cluster: MockCluster) -> None:
    async with proxy_for("http") as proxy:
        options: Any = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "proxy_url": proxy.url("http"),
        }

        def in_a_thread() -> None:
            with SyncProducer(**options) as producer:
                producer.send("orders", b"value").result(timeout=60)

        async def on_uvloop() -> None:
            async with Producer(**options) as producer:
                await producer.send("orders", b"value")

        await asyncio.to_thread(in_a_thread)
        accepted = proxy.accepted
        await asyncio.to_thread(uvloop.run, on_uvloop())
        assert proxy.accepted > accepted > 0


async def test_a_member_of_a_group_connects_through_the_proxy() -> None:
    kafka = FakeKafka(1, topics={"orders": 2})  # a mock cluster has no groups
    await kafka.start()
    try:
        async with proxy_for("socks5h") as proxy:
            options: Any = {
                "bootstrap_servers": kafka.bootstrap_servers,
                "proxy_url": proxy.url("socks5h"),
            }
            async with Consumer("orders", group_id="billing", **options) as consumer:
                await until(lambda: len(proxy.asked) >= 2)
                assert consumer.config.proxy_url is not None
            # A closing client gives up connections that it is still opening,
            # so the proxy may accept more than it is asked to pass on.
            assert 0 < kafka.servers[1].accepted <= len(proxy.asked)
    finally:
        await kafka.stop()


@pytest.mark.parametrize("block", blocks(PAGE, "python"), ids=lambda block: str(block.line))
async def test_the_programs_of_the_page(
    cluster: MockCluster, block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", "hunter2")
    scheme, written = re.findall(r'proxy_url="(\w+)://.*?([\w.]+:[0-9]+)"', block.text)[0]
    login = ("orders-app", "hunter2") if "@" in block.text else None
    port = cluster.bootstrap_servers.rpartition(":")[2]
    names = {"kafka-1.example": "127.0.0.1"}
    async with proxy_for(scheme, login=login, names=names) as proxy:
        text = block.text.replace(written, f"127.0.0.1:{proxy.port}").replace("9092", port)
        await run_block(PAGE, block._replace(text=text), {})
        assert proxy.asked[0].host == "kafka-1.example"
        assert set(proxy.logins) == ({login} if login else set())


async def test_the_command_line_takes_it(
    cluster: MockCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async with proxy_for("socks5h", login=("alice", "hunter2")) as proxy:
        arguments = ["topics", "list", "-b", cluster.bootstrap_servers, "-X"]
        url = proxy.url("socks5h", "alice:hunter2@")
        code = await asyncio.to_thread(run, [*arguments, f"proxy_url={url}"])
        assert code == 0
        assert proxy.accepted > 0
        wrong = url.replace("socks5h", "socks9")
        assert await asyncio.to_thread(run, [*arguments, f"proxy_url={wrong}"]) == 2
        shown = capsys.readouterr()
        assert "orders" in shown.out
        assert "not the scheme 'socks9'" in shown.err
        assert "hunter2" not in shown.out + shown.err


def test_without_a_proxy_nothing_of_it_is_imported() -> None:
    code = """
import asyncio, sys
from aioproducer import Producer

async def main():
    async with Producer(bootstrap_servers=sys.argv[1]) as producer:
        await producer.send("orders", b"value")

asyncio.run(main())
print(*sys.modules)
"""
    with MockCluster(1, {"orders": 1}) as cluster:
        command = [sys.executable, "-c", code, cluster.bootstrap_servers]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert "aioproducer.engine.network.transport" in loaded
    assert not {each for each in loaded if "proxy" in each or "tunnel" in each}
