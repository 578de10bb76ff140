"""The wait for a name of ``bootstrap_servers`` (KIP-909), in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

from aioproducer import BootstrapError, Producer, ProducerClosedError
from aioproducer.admin import Admin
from aioproducer.engine.client.environment import current_environment, use_environment
from aioproducer.errors import BrokerConnectionError, ClientClosedError
from aioproducer.reader import Reader
from aioproducer.testing import SimulatedWorld, simulate
from tests.support.inside import all_tasks
from tests.support.waiting import settle

Client: TypeAlias = Producer | Admin | Reader
NEVER = float("inf")


class NameServer:
    """Knows a name from the start, or from a second on. Gives no answer about ``silent``."""

    def __init__(self, world: SimulatedWorld, known_from: dict[str, float]) -> None:
        self._world = world
        self.known_from = known_from
        self.asked: dict[str, list[float]] = {}
        """The seconds of the look-ups of each name."""
        self.waiting = 0
        """Look-ups without an answer."""

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        self.asked.setdefault(host, []).append(self._world.now)
        if host == "silent":
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.waiting -= 1
        if self._world.now < self.known_from.get(host, 0):
            raise BrokerConnectionError(f"the name {host!r} can't be resolved: it is unknown")
        return [(host, port)]


Life: TypeAlias = Callable[[SimulatedWorld, NameServer], Coroutine[Any, Any, None]]


def run(life: Life, known_from: dict[str, float]) -> None:
    async def with_names(world: SimulatedWorld) -> None:
        names = NameServer(world, known_from)
        with use_environment(current_environment()._replace(resolve=names.resolve)):
            await life(world, names)

    simulate(with_names, topics={"orders": 1})


def clients(servers: str, **options: Any) -> list[Client]:
    options |= {"bootstrap_servers": servers}
    return [Producer(**options), Admin(**options), Reader("orders", **options)]


FIRST = "broker-1.simulated"


def test_a_start_waits_for_a_name_and_the_wait_grows() -> None:
    async def life(world: SimulatedWorld, names: NameServer) -> None:
        for client in clients(f"{FIRST}:9092", bootstrap_resolve_timeout_ms=60_000):
            names.asked.clear()
            began = world.now
            names.known_from[FIRST] = began + 5
            async with client:
                assert 5 <= world.now - began < 6.2
                waits = [after - before for before, after in pairwise(names.asked[FIRST])]
                for wait, usual in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0), strict=False):
                    assert 0.8 * usual <= wait <= 1.2 * usual
                assert len(waits) >= 6
                if isinstance(client, Producer):
                    await client.send("orders", b"one espresso")
        assert world.cluster.records("orders").values == [b"one espresso"]

    run(life, {FIRST: NEVER})


def test_one_name_is_enough() -> None:
    async def life(world: SimulatedWorld, names: NameServer) -> None:
        servers = f"gone:9092,silent:9092,{FIRST}:9092"
        async with Producer(
            bootstrap_servers=servers, bootstrap_resolve_timeout_ms=60_000
        ) as producer:
            assert round(world.now, 2) == 0
            assert {name: len(times) for name, times in names.asked.items()} == {
                "gone": 1,
                "silent": 1,
                FIRST: 1,
            }
            await settle()
            assert names.waiting == 0
            await producer.send("orders", b"one espresso")

    run(life, {"gone": NEVER})


def test_without_the_option_no_name_is_looked_up_at_the_start() -> None:
    async def life(world: SimulatedWorld, names: NameServer) -> None:
        for client in clients("gone:9092")[:2]:
            async with client:
                assert not names.asked

    run(life, {"gone": NEVER})


def test_a_start_fails_when_the_time_is_over_and_names_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def life(world: SimulatedWorld, names: NameServer) -> None:
        for client in clients(
            "gone:9092,silent:9092,gone:9093",
            client_id="shop",
            bootstrap_resolve_timeout_ms=2_500,
        ):
            began = world.now
            with pytest.raises(BootstrapError) as raised:
                await client.start()
            assert round(world.now - began, 1) == 2.5
            assert str(raised.value) == (
                "no name in bootstrap_servers could be resolved within 2.5 s "
                "(bootstrap_resolve_timeout_ms). Check the names and the name server, or raise the "
                "timeout; then start a new client. the name 'gone' can't be resolved: it is "
                "unknown; the name 'silent' is still being looked up"
            )
            await settle()
            assert names.waiting == 0
            assert len(all_tasks()) == 1
            await client.close()
        assert caplog.messages.count(
            "[shop] the name 'gone' can't be resolved: it is unknown. The start waits for a name "
            "that can be, for up to 2.5 s (bootstrap_resolve_timeout_ms)"
        ) == len(clients(FIRST + ":1"))

    run(life, {"gone": NEVER})


@pytest.mark.parametrize("lost", ["gone", "silent"])
def test_close_ends_a_start_that_waits(lost: str) -> None:
    async def life(world: SimulatedWorld, names: NameServer) -> None:
        for client in clients(f"{lost}:9092", bootstrap_resolve_timeout_ms=60_000):
            began = world.now
            starting = asyncio.ensure_future(client.start())
            await asyncio.sleep(1)
            assert not starting.done()
            await client.close()
            with pytest.raises((ProducerClosedError, ClientClosedError), match="closed"):
                await starting
            assert round(world.now - began, 2) == 1
            assert len(all_tasks()) == 1

    run(life, {"gone": NEVER})


@pytest.mark.parametrize("lost", ["gone", "silent"])
def test_a_start_that_waits_can_be_cancelled(lost: str) -> None:
    async def life(world: SimulatedWorld, names: NameServer) -> None:
        for client in clients(f"{lost}:9092", bootstrap_resolve_timeout_ms=60_000):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.start(), 1)
            await settle()
            assert names.waiting == 0
            assert len(all_tasks()) == 1
            await client.close()

    run(life, {"gone": NEVER})


def test_the_time_does_not_bound_later_look_ups() -> None:
    """The option is about the start; a name that is lost later is looked up as any other."""

    async def life(world: SimulatedWorld, names: NameServer) -> None:
        options: dict[str, Any] = {"bootstrap_resolve_timeout_ms": 1, "max_block_ms": 30_000}
        async with Producer(bootstrap_servers=f"{FIRST}:9092", **options) as producer:
            names.known_from |= {f"broker-{number}.simulated": 10 for number in (1, 2, 3)}
            await producer.send("orders", b"one espresso")
            assert 10 <= world.now < 12

    run(life, {})
