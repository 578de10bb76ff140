"""Requests without a response in time, and connections without use."""

from __future__ import annotations

from aioproducer.errors import (
    RequestTimeoutError,
)
from tests.support.settling import settle
from tests.unit.network.observed_client import ONE, SETTINGS, Ask, ObservedClient, answer


async def test_a_request_without_answer_in_time_ends_its_connection(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.client.send(1, Ask("slow"))
    world.now += 10
    world.client.send(1, Ask("later"))
    assert world.client.poll(world.now) == 1030.0
    world.now = 1029.999
    world.client.poll(world.now)
    assert connection.aborted == []
    world.now = 1030.0
    world.client.poll(world.now)
    await settle()
    outcomes = world.outcomes()
    assert [name for name, _ in outcomes] == ["slow", "later"]
    error = outcomes[0][1]
    assert isinstance(error, RequestTimeoutError)
    for part in ("broker 1 (host1:9092)", "METADATA v9", "30 s", "request_timeout_ms"):
        assert part in str(error)


async def test_a_connection_that_is_not_used_for_long_is_closed(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    assert world.client.poll(world.now) == 1540.0
    world.now = 1100.0
    world.client.send(1, Ask("ask"))
    assert world.client.poll(world.now) == 1130.0
    answer(connection)
    assert world.client.poll(world.now) == 1130.0, "it does not look again before"
    world.now = 1130.0
    assert world.client.poll(world.now) == 1640.0, "using it counts"
    world.now = 1639.999
    world.client.poll(world.now)
    assert connection.aborted == []
    world.now = 1640.0
    world.client.poll(world.now)
    assert "no request used the connection" in str(connection.aborted[0])


async def test_waiting_for_an_answer_is_no_idleness() -> None:
    world = ObservedClient(SETTINGS._replace(max_idle=5.0))
    connection = await world.connected(ONE)
    world.client.send(1, Ask("ask"))
    world.now += 20
    assert world.client.poll(world.now) == 1030.0
    assert connection.aborted == []


async def test_idleness_may_be_without_end() -> None:
    world = ObservedClient(SETTINGS._replace(max_idle=float("inf")))
    connection = await world.connected(ONE)
    world.now += 1e9
    world.client.poll(world.now)
    assert connection.aborted == []


async def test_poll_leaves_a_connection_that_is_being_set_up_alone(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    assert world.client.poll(world.now + 1e9) is None
    assert world.connections[0].aborted == []
