"""Clients that reach their brokers through proxies that others wrote."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from aioproducer import AuthenticationError, BootstrapError, Producer, SslAuthenticationError
from aioproducer.admin import Admin
from aioproducer.reader import Reader
from aioproducer.testing import FaultProxy, MockCluster
from aioproducer.testing.certificates import Authority
from tests.support.real_proxies import KINDS, Microsocks, RealProxy, Squid
from tests.support.waiting import until

Kind = type[RealProxy]

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
with_logins = pytest.mark.parametrize(
    "kind", [each for each in KINDS.values() if each.login], ids=lambda kind: kind.program
)
with_schemes = pytest.mark.parametrize(
    ("kind", "scheme"), [(kind, scheme) for kind in KINDS.values() for scheme in kind.schemes]
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(2, {"orders": 2}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


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
async def test_a_refused_login_fails_records_at_once(
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
