"""Bootstrap servers that are silent, or whose names the resolver does not know yet (KIP-909)."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

from aioproducer import BootstrapError, Producer, ProducerClosedError, sync
from aioproducer.admin import Admin
from aioproducer.testing import SimulatedWorld, simulate
from aioproducer.testing.fault_proxy import ApiKey, FaultScript, Rule, Throttle, Way

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka, StartProxy
    from tests.support.fake_kafka import FakeKafka


SILENT: Final = (2, 3)


async def first_record(servers: str, partition: int) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send("orders", b"one espresso", partition=partition)


async def first_question(servers: str, partition: int) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.list_topics()


@pytest.mark.parametrize("use", [first_record, first_question])
@pytest.mark.parametrize("seed", range(8))
def test_a_start_does_not_wait_for_silent_bootstrap_servers(
    seed: int, use: Callable[[str, int], Awaitable[None]]
) -> None:
    async def life(world: SimulatedWorld) -> float:
        cluster = world.cluster
        [partition, *_] = [n for n in range(6) if cluster.leader("orders", n) not in SILENT]
        for broker in SILENT:
            cluster.stall(broker)
        await use(cluster.bootstrap_servers, partition)
        return world.now

    assert simulate(life, seed=seed, brokers=3, topics={"orders": 6}) < 5.0


# --- brokers that send an answer byte by byte ----------------------------------------------------

BYTES_PER_SECOND: Final = 20
OPTIONS: Final[dict[str, Any]] = {
    "request_timeout_ms": 2_000,
    "max_block_ms": 5_000,
    "client_id": "an application whose name takes a while to pass",
}
STARTS: Final = 12


async def sends(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, delivery_timeout_ms=20_000, **OPTIONS) as it:
        await it.send("orders", b"one espresso", partition=0)


async def commits(servers: str) -> None:
    options = OPTIONS | {"delivery_timeout_ms": 20_000}
    name = f"bills-{uuid4()}"
    async with (
        Producer(bootstrap_servers=servers, transactional_id=name, **options) as it,
        it.transaction(),
    ):
        await it.send("orders", b"one espresso", partition=0)


async def describes(servers: str) -> None:
    async with Admin(bootstrap_servers=servers, **OPTIONS) as admin:
        await admin.describe_topics("orders")


@pytest.mark.parametrize(
    ("use", "api"),
    [
        (sends, ApiKey.METADATA),
        (sends, ApiKey.API_VERSIONS),
        (sends, ApiKey.INIT_PRODUCER_ID),
        (commits, ApiKey.FIND_COORDINATOR),
        (describes, ApiKey.METADATA),
    ],
)
@pytest.mark.parametrize("way", [Way.REQUEST, Way.RESPONSE])
async def test_a_start_does_not_wait_for_brokers_that_drip(
    start_kafka: StartKafka,
    start_proxy: StartProxy,
    use: Callable[[str], Awaitable[None]],
    api: ApiKey,
    way: Way,
) -> None:
    """Bytes pass all the time, so the request is not lost; but another broker has the answer."""
    script = FaultScript((Rule(Throttle(BYTES_PER_SECOND), api, way, count=None),))
    kafka = await start_kafka(3, {"orders": 1})
    servers = [kafka.servers[1].address]
    for number in (2, 3):
        proxy = await start_proxy(kafka.servers[number].port, script)
        kafka.advertised[number] = proxy.port
        servers.append(proxy.address)
    starts = (use(",".join(servers)) for _ in range(STARTS))
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert [each for each in outcomes if each is not None] == []


LATER, LOST, UNANSWERED = "later.test", "lost.test", "silent.test"
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
        if options.get("flags") or name not in (LATER, LOST, UNANSWERED):
            return self._real(host, port, **options)
        self.asked += 1
        if name == UNANSWERED:
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
    options["bootstrap_servers"] += f",{UNANSWERED}:9092"
    with pytest.raises(BootstrapError) as raised:
        await Producer(**options).start()
    assert f"the name '{LOST}' can't be resolved: [Errno -3] Temporary failure" in str(raised.value)
    assert str(raised.value).endswith(f"the name '{UNANSWERED}' is still being looked up")


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
    producer = sync.Producer(**options_of(UNANSWERED))
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
