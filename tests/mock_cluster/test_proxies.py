"""Clients that reach their brokers through a proxy, SOCKS5 or CONNECT: ours, and others'."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from aioproducer import AuthenticationError, BootstrapError, Producer, SslAuthenticationError
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
from tests.support.real_proxies import KINDS, Microsocks, RealProxy, Squid
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


Kind = type[RealProxy]

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
with_logins = pytest.mark.parametrize(
    "kind", [each for each in KINDS.values() if each.login], ids=lambda kind: kind.program
)
with_schemes = pytest.mark.parametrize(
    ("kind", "scheme"), [(kind, scheme) for kind in KINDS.values() for scheme in kind.schemes]
)


async def send_and_read(cluster: MockCluster, proxy: RealProxy, url: str) -> None:
    """Send records, read them and ask for topics; the proxy's log has both brokers then."""
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "proxy_url": url,
    }
    values = [b"%d " % number + bytes(1000) for number in range(2000)]
    async with Producer(**options) as producer:
        first = (await producer.send("orders", b"first", partition=0)).offset
        await producer.send("orders", b"first", partition=1)
        report = await producer.send_many("orders", values, partition=0)
        assert report.delivered == len(values)
    async with Reader({("orders", 0): first + 1}, **options) as reader:
        records = aiter(reader)
        assert [(await anext(records)).value for _ in values] == values
    async with Admin(**options) as admin:
        assert "orders" in await admin.list_topics()
    for address in cluster.bootstrap_servers.split(","):
        # Also 127.0.0.1.9092, as Dante writes it, and "host 127.0.0.1 port 9092", as OpenSSH does.
        logged = re.escape(address).replace(":", r"(?:[:.]| port )") + r"\b"
        await until(
            lambda logged=logged: re.search(logged, proxy.log()), "the connection is in its log"
        )


@with_schemes
async def test_records_lead_through_it(cluster: MockCluster, kind: Kind, scheme: str) -> None:
    with kind() as proxy:
        await send_and_read(cluster, proxy, proxy.url(scheme))


@with_logins
async def test_a_login(cluster: MockCluster, kind: Kind) -> None:
    with kind(asks_for_login=True) as proxy:
        await send_and_read(cluster, proxy, proxy.url(login=kind.login))


@with_logins
@pytest.mark.parametrize(
    ("login", "said"),
    [
        (("orders-app", "hunter2"), "refused the login: check the user name and password in"),
        (None, "asks for a login: write it in proxy_url, as in"),
    ],
)
async def test_a_refused_login_at_a_real_proxy_fails_records_at_once(
    cluster: MockCluster,
    kind: Kind,
    login: tuple[str, str] | None,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with kind(asks_for_login=True) as proxy:
        options: Any = {"proxy_url": proxy.url(login=login)}
        async with Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
            with pytest.raises(AuthenticationError) as raised:
                await producer.send("orders", b"value")
            shown = (str(raised.value), caplog.text, repr(producer.health()))
    assert f"proxy 127.0.0.1:{proxy.port} {said}" in shown[0]
    assert "hunter2" not in "".join(shown)


@pytest.mark.parametrize("kind", [each for each in KINDS.values() if each.has_rules])
async def test_a_destination_that_its_rules_refuse(kind: Kind) -> None:
    with MockCluster(1, {"orders": 1}) as cluster:
        address = cluster.bootstrap_servers
        with kind(refused_port=int(address.rpartition(":")[2])) as proxy:
            async with Producer(
                bootstrap_servers=address, proxy_url=proxy.url(), max_block_ms=200
            ) as producer:
                with pytest.raises(BootstrapError) as raised:
                    await producer.send("orders", b"value")
    assert f"proxy 127.0.0.1:{proxy.port} can't connect to {address}: " in str(raised.value)
    assert "Configure the proxy to allow" in str(raised.value)


@kinds
async def test_a_broker_that_is_down_behind_it(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    with MockCluster(1, {"orders": 1}) as cluster, kind() as proxy:
        options: Any = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 20}
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, proxy_url=proxy.url(), **options
        ) as producer:
            await producer.send("orders", b"first")
            cluster.set_broker_down(1)
            sent = producer.send("orders", b"second")
            await until(lambda: kind.down in str(producer.health().brokers) + caplog.text)
            assert not sent.done()
            cluster.set_broker_up(1)
            assert (await sent).offset >= 1


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [*((kind, kind.schemes[0]) for kind in KINDS.values()), (Microsocks, "socks5")],
)
async def test_names_and_certificates(
    kind: Kind, scheme: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is looked up where the scheme says, and TLS is between client and broker."""
    looked_up: list[object] = []
    look_up = socket.getaddrinfo

    def record(host: Any, *arguments: Any, **options: Any) -> Any:
        looked_up.append(host.decode() if isinstance(host, bytes) else host)
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", record)
    context = authority.issue("broker", hosts=(kind.known_name,)).server_context()
    with MockCluster(1, {"orders": 1}) as cluster, kind() as proxy:
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
        async with FaultProxy(port, tls=context) as broker:
            cluster.set_broker_address(1, kind.known_name, broker.port)
            options: dict[str, Any] = {
                "bootstrap_servers": f"{kind.known_name}:{broker.port}",
                "proxy_url": proxy.url(scheme),
                "security_protocol": "SSL",
                "ssl_truststore_type": "PEM",
                "ssl_truststore_certificates": authority.pem,
            }
            async with Producer(**options) as producer:
                assert (await producer.send("orders", b"value")).offset == 0
            assert (kind.known_name in looked_up) == (scheme == "socks5")
            wrong_authority = {"ssl_truststore_certificates": Authority().pem}
            wrong_name = {"bootstrap_servers": f"127.0.0.1:{broker.port}"}
            for changes, said in (
                (wrong_authority, "isn't trusted here"),
                (wrong_name, "127.0.0.1"),
            ):
                async with Producer(**options | changes) as producer:
                    with pytest.raises(SslAuthenticationError, match=said):
                        await producer.send("orders", b"value")


@kinds
async def test_no_record_is_lost_when_it_is_killed(kind: Kind) -> None:
    with MockCluster(1, {"orders": 1}) as cluster, kind() as proxy:
        values = [b"%d" % number for number in range(300)]
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            proxy_url=proxy.url(),
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=20,
        ) as producer:
            sent = []
            for number, value in enumerate(values):
                sent.append(producer.send("orders", value))
                await asyncio.sleep(0.001)
                if number == 100:
                    proxy.kill()
                elif number == 200:
                    await until(lambda: "refused" in str(producer.health().brokers))
                    assert not sent[-1].done()
                    proxy.start()
            await asyncio.gather(*sent)
            assert sent[0].result().offset == 0
        async with Reader(
            {("orders", 0): 0}, bootstrap_servers=cluster.bootstrap_servers
        ) as reader:
            found: list[bytes | None] = []
            async for record in reader:
                found.append(record.value)
                if record.value == values[-1]:
                    break
    # A batch whose response was cut off may be there twice: a mock cluster does not refuse it.
    assert list(dict.fromkeys(found)) == values


async def test_an_idle_connection_that_it_ends_is_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with MockCluster(1, {"orders": 1}) as cluster, Squid(idle_seconds=1) as proxy:
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, proxy_url=proxy.url()
        ) as producer:
            await producer.send("orders", b"value")
            await until(lambda: producer.health().brokers[0].state != "connected")
            assert (await producer.send("orders", b"value")).offset == 1
    assert caplog.text == ""
