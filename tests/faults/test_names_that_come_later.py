"""Names of bootstrap servers that the machine's resolver does not know yet (KIP-909)."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import BootstrapError, Producer, ProducerClosedError, sync
from aioproducer.admin import Admin

if TYPE_CHECKING:
    from tests.support.fake_kafka import FakeKafka

LATER, LOST, SILENT = "later.test", "lost.test", "silent.test"
LONG = 10 * 60 * 1000


class Resolver:
    """``getaddrinfo``: ``later.test`` is this machine from the fourth look-up on."""

    def __init__(self) -> None:
        self.asked = 0
        self.hangs = threading.Event()
        """A look-up of ``silent.test`` has begun."""
        self.end = threading.Event()
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: Any, port: int, **options: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if options.get("flags") or name not in (LATER, LOST, SILENT):
            return self._real(host, port, **options)
        self.asked += 1
        if name == SILENT:
            self.hangs.set()
            self.end.wait()
        if name != LATER or self.asked < 4:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self._real("127.0.0.1", port, **options)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", lambda address, _: ("127.0.0.1", str(address[1])))
    yield resolver
    resolver.end.set()


def options_of(host: str, port: int = 9092, wait: int = LONG) -> dict[str, Any]:
    return {
        "bootstrap_servers": f"{host}:{port}",
        "bootstrap_resolve_timeout_ms": wait,
        "retry_backoff_ms": 1,
    }


@pytest.mark.parametrize("lookup", ["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"])
async def test_a_producer_starts_when_its_name_is_known(
    lookup: Any, kafka: FakeKafka, resolver: Resolver
) -> None:
    options = options_of(LATER, kafka.servers[1].port)
    async with Producer(**options, client_dns_lookup=lookup) as producer:
        assert resolver.asked >= 4
        assert (await producer.send("orders", b"one espresso")).offset == 0


async def test_an_admin_starts_when_its_name_is_known(resolver: Resolver) -> None:
    async with Admin(**options_of(LATER)):
        assert resolver.asked >= 4


async def test_a_look_up_that_hangs_ends_with_the_time(resolver: Resolver) -> None:
    options = options_of(LOST, wait=200)
    options["bootstrap_servers"] += f",{SILENT}:9092"
    with pytest.raises(BootstrapError) as raised:
        await Producer(**options).start()
    assert f"the name '{LOST}' can't be resolved: [Errno -3] Temporary failure" in str(raised.value)
    assert str(raised.value).endswith(f"the name '{SILENT}' is still being looked up")


async def test_a_name_that_is_known_and_leads_nowhere_does_not_hold_up_the_start(
    resolver: Resolver,
) -> None:
    options = options_of(LATER, 1) | {"max_block_ms": 100}
    async with Producer(**options) as producer:
        with pytest.raises(BootstrapError, match=r"no bootstrap server answered.*max_block_ms"):
            await producer.send("orders", b"one espresso")


def test_a_blocking_producer_says_why_it_did_not_start(resolver: Resolver) -> None:
    producer = sync.Producer(**options_of(LOST, wait=50))
    with pytest.raises(BootstrapError, match=r"within 0.05 s \(bootstrap_resolve_timeout_ms\)"):
        producer.start()
    assert producer.close() == 0


def test_close_ends_the_start_of_a_blocking_producer(
    resolver: Resolver, caplog: pytest.LogCaptureFixture
) -> None:
    producer = sync.Producer(**options_of(SILENT))
    errors: list[BaseException] = []

    def start() -> None:
        try:
            producer.start()
        except ProducerClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    assert resolver.hangs.wait(60)
    assert producer.close() == 0
    thread.join(60)
    assert "closed" in str(errors)
    gc.collect()
    assert "never retrieved" not in caplog.text
