"""``simulate()`` runs a life as ``asyncio.run()`` does, in a world that its seed decides."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import socket
from collections.abc import AsyncIterator
from itertools import count
from threading import Thread
from time import monotonic
from typing import Any
from weakref import ref

import pytest

from aioproducer import Producer, RecordMetadata, sync
from aioproducer.errors import BootstrapError, IllegalStateError, ProducerBrokenError
from aioproducer.testing import DeadlockError, MockProducer, SimulatedWorld, simulate
from aioproducer.testing.simulation import loop
from tests.support.simulated_world import model_of, run_in

TOPICS = {"orders": 3}


def notes(error: BaseException) -> list[str]:
    return error.__notes__


# --- a life -------------------------------------------------------------------------------------


def test_the_result_is_that_of_the_life() -> None:
    async def life(world: SimulatedWorld) -> str:
        return f"seed {world.seed}"

    assert simulate(life, seed=4) == "seed 4"


def test_time_is_virtual() -> None:
    async def life(world: SimulatedWorld) -> tuple[float, float]:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(86_400)
        return world.now, asyncio.get_running_loop().time() - began

    assert simulate(life, timeout=100_000) == pytest.approx((86_400, 86_400))


def test_a_failure_tells_the_seed() -> None:
    async def life(world: SimulatedWorld) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        simulate(life, seed=77)
    assert notes(raised.value) == ["simulated with seed=77: the same seed repeats this run"]


def test_tasks_that_are_left_are_cancelled_and_generators_are_closed() -> None:
    ended: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(1)
            ended.append("task")

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            ended.append("generator")

    async def life(world: SimulatedWorld) -> Any:
        tasks.append(asyncio.create_task(background()))
        await asyncio.sleep(1)
        generator = numbers()
        assert await anext(generator) == 1
        return generator

    left = simulate(life)
    assert ended == ["task", "generator"]
    assert left.ag_frame is None


def test_an_error_that_nobody_handles_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    async def life(world: SimulatedWorld) -> None:
        task = asyncio.create_task(fails())
        await asyncio.wait([task])

    with caplog.at_level(logging.ERROR, "asyncio"):
        simulate(life)
    assert "Task exception was never retrieved" in caplog.text


async def test_it_refuses_to_run_inside_of_an_event_loop() -> None:
    async def life(world: SimulatedWorld) -> None:
        """It is never called."""

    with pytest.raises(RuntimeError, match="while an event loop runs"):
        simulate(life)
    assert asyncio.get_running_loop().is_running()


def test_nothing_of_the_world_is_left_behind() -> None:
    async def life(world: SimulatedWorld) -> None:
        random.random()

    state = random.getstate()
    simulate(life)
    assert random.getstate() == state
    assert gc.isenabled()
    assert asyncio.run(asyncio.sleep(0, "another loop")) == "another loop"
    clock = Producer(bootstrap_servers="localhost:9092")._core._environment.clock
    assert clock is monotonic


# --- lives without an end -----------------------------------------------------------------------


async def wait_for_a_courier(arrived: asyncio.Event) -> None:
    await arrived.wait()


def test_a_deadlock_names_what_waits() -> None:
    async def life(world: SimulatedWorld) -> None:
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send("orders", b"one espresso")
            await wait_for_a_courier(asyncio.Event())

    with pytest.raises(DeadlockError) as raised:
        simulate(life, seed=5, topics=TOPICS)
    first = str(raised.value).splitlines()[1]
    line = wait_for_a_courier.__code__.co_firstlineno + 1
    assert first.startswith("  main: test_a_deadlock_names_what_waits.<locals>.life() in")
    assert f"-> wait_for_a_courier() in test_simulate.py:{line} -> Event.wait()" in first
    assert "aioproducer-sender: Sender.run() in sender.py" in str(raised.value)
    assert "seed=5" in notes(raised.value)[0]


def test_a_life_that_takes_too_long_names_what_waits() -> None:
    async def ticks() -> None:
        for _ in count():
            await asyncio.sleep(1)

    async def life(world: SimulatedWorld) -> None:
        await asyncio.gather(ticks(), wait_for_a_courier(asyncio.Event()))

    with pytest.raises(TimeoutError, match="no end after 60") as raised:
        simulate(life, timeout=60)
    assert "wait_for_a_courier() in test_simulate.py" in str(raised.value)
    assert "ticks() in test_simulate.py" in str(raised.value)


def test_a_life_that_never_waits_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def life(world: SimulatedWorld) -> None:
        for _ in count():
            await asyncio.sleep(0)

    monkeypatch.setattr(loop, "MOST_STEPS", 1_000)
    with pytest.raises(TimeoutError, match=r"1,000 callbacks of the event loop"):
        simulate(life)


# --- the seed -----------------------------------------------------------------------------------


async def trace(world: SimulatedWorld) -> list[Any]:
    """Records in trouble, and when each was delivered, and where."""
    story: list[Any] = []
    servers = world.cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers) as producer:
        world.at(world.random.uniform(0, 2), lambda: world.cluster.crash(1))
        for number in range(30):
            future = producer.send("orders", b"%d" % number)
            future.add_done_callback(lambda done: story.append((world.now, done.result())))
            await asyncio.sleep(random.uniform(0, 0.1))
        await producer.flush()
    return [*story, *world.cluster.records("orders")]


def test_a_seed_gives_the_same_run() -> None:
    runs = [simulate(trace, seed=seed, topics=TOPICS) for seed in (1, 2, 1, 2)]
    assert runs[0] == runs[2]
    assert runs[1] == runs[3]
    assert runs[0] != runs[1]


# --- the machine --------------------------------------------------------------------------------


def test_a_mock_producer_lives_in_virtual_time() -> None:
    async def life(world: SimulatedWorld) -> float:
        async with MockProducer(auto_complete=False, delivery_timeout_ms=40_000) as producer:
            with pytest.raises(TimeoutError):
                await producer.send("orders", b"one espresso")
        return world.now

    assert 40 <= simulate(life) < 50


def test_executors_run_in_the_loop() -> None:
    async def life(world: SimulatedWorld) -> tuple[int, int]:
        def call() -> int:
            return random.getrandbits(32)

        return await asyncio.to_thread(call), await asyncio.to_thread(call)

    assert simulate(life, seed=1) == simulate(life, seed=1) != simulate(life, seed=2)


def test_threads_are_refused() -> None:
    refusals: list[str] = []

    async def life(world: SimulatedWorld) -> None:
        running = asyncio.get_running_loop()

        def call() -> None:
            try:
                running.call_soon_threadsafe(print)
            except RuntimeError as error:
                refusals.append(str(error))

        thread = Thread(target=call)
        thread.start()
        thread.join()

    simulate(life)
    assert refusals == ["threads are not simulated: run_in_executor() and to_thread() are"]


def test_sockets_and_processes_are_refused() -> None:
    async def life(world: SimulatedWorld) -> None:
        running = asyncio.get_running_loop()
        with socket.socket() as real, pytest.raises(NotImplementedError, match="not simulated"):
            await running.sock_connect(real, ("127.0.0.1", 1))
        with pytest.raises(NotImplementedError, match="not simulated"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotImplementedError, match="not simulated"):
            await running.getaddrinfo("localhost", 1)
        with pytest.raises(NotImplementedError, match="nothing serves"):
            await asyncio.open_connection("127.0.0.1", 1)

    simulate(life)


def test_servers_of_the_life_are_simulated() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def life(world: SimulatedWorld) -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"one espresso\n")
        line = await reader.readline()
        writer.close()
        server.close()
        return line

    assert simulate(life) == b"one espresso\n"


def test_a_blocking_producer_is_refused() -> None:
    async def life(world: SimulatedWorld) -> None:
        with pytest.raises(IllegalStateError, match="a blocking Producer can't be simulated"):
            sync.Producer(bootstrap_servers=world.cluster.bootstrap_servers).start()

    simulate(life)


def test_other_brokers_are_refused() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with Producer(bootstrap_servers="kafka.example:9092") as producer:
            await producer.send("orders", b"one espresso")

    with pytest.raises(BootstrapError, match=r"use world\.cluster\.bootstrap_servers"):
        simulate(life)


def test_tls_is_refused() -> None:
    async def life(world: SimulatedWorld) -> None:
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers, security_protocol="SSL") as producer:
            await producer.send("orders", b"one espresso")

    with pytest.raises(ProducerBrokenError, match="simulated connections have no TLS"):
        simulate(life)


def test_a_producer_from_outside_is_refused() -> None:
    outside = Producer(bootstrap_servers="127.0.0.1:9092")

    async def life(world: SimulatedWorld) -> None:
        async with outside as producer:
            await producer.send("orders", b"one espresso")

    with pytest.raises(ProducerBrokenError, match="make producers inside of the life"):
        simulate(life)


def test_a_future_that_is_kept_keeps_no_world() -> None:
    world = SimulatedWorld(0)
    world.cluster.create_topic("orders")

    async def send(servers: str) -> asyncio.Future[RecordMetadata]:
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send("orders", b"0")
            return producer.send("orders", b"1")

    future = run_in(world, send(world.cluster.bootstrap_servers))
    model = ref(model_of(world))
    del world
    gc.collect()
    assert future.result().offset == 1
    assert model() is None
