"""Requests without a response in time, connections without use, and pauses (KIP-219)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aioproducer.engine.network.connection_states import ClientSettings
from aioproducer.engine.network.frames import MAX_THROTTLE
from aioproducer.errors import RequestTimeoutError
from tests.support.waiting import settle
from tests.unit.network.observed_client import (
    ONE,
    SETTINGS,
    TWO,
    Ask,
    ObservedClient,
    answer,
    asks_for_a_pause,
)


async def test_a_request_without_answer_in_time_ends_its_connection(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.send(1, Ask("slow"))
    world.now += 10
    world.send(1, Ask("later"))
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


async def test_a_late_request_whose_bytes_pass_is_looked_at_again(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.send(1, Ask("large"))
    world.now, connection.timeouts.look_again = 1030.0, 1033.75
    assert world.client.poll(world.now) == 1033.75
    assert connection.aborted == []
    world.now, connection.timeouts.look_again = 1060.0, None
    world.client.poll(world.now)
    said = "within 60 s (request_timeout_ms is 30 s, and bytes passed for longer), so its"
    assert said in str(connection.aborted[0])


async def test_a_connection_that_is_not_used_for_long_is_closed(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    assert world.client.poll(world.now) == 1001.0, "it might have been slow to open"
    world.now = 1001.0
    assert world.client.poll(world.now) == 1540.0
    world.now = 1100.0
    world.send(1, Ask("ask"))
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


def idle_after(seconds: float) -> ClientSettings:
    return replace(SETTINGS, connection=SETTINGS.connection._replace(max_idle=seconds))


async def test_waiting_for_an_answer_is_no_idleness() -> None:
    world = ObservedClient(idle_after(5.0))
    connection = await world.connected(ONE)
    world.send(1, Ask("ask"))
    world.now += 20
    assert world.client.poll(world.now) == 1030.0
    assert connection.aborted == []


async def test_idleness_may_be_without_end() -> None:
    world = ObservedClient(idle_after(float("inf")))
    connection = await world.connected(ONE)
    world.now += 1e9
    world.client.poll(world.now)
    assert connection.aborted == []


async def test_poll_leaves_a_connection_that_is_being_set_up_alone(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    assert world.client.poll(world.now + 1e9) is None
    assert world.connections[0].aborted == []


# --- after a stop of the process -------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1.0, 60.0, 500.0])
async def test_a_stop_does_not_make_a_request_late(world: ObservedClient, seconds: float) -> None:
    connection = await world.connected(ONE)
    world.send(1, Ask("ask"))
    world.now += 20.0
    world.stop(seconds)
    world.client.poll(world.clock())
    world.now += 9.999
    world.client.poll(world.clock())
    assert connection.aborted == []
    world.now += 0.001
    world.client.poll(world.clock())
    assert isinstance(connection.aborted[0], RequestTimeoutError)


async def test_a_connection_ages_while_the_process_is_stopped(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.client.poll(world.clock())
    world.stop(900.0)
    due = world.client.next_timeout()
    assert due is not None
    assert due <= world.clock(), "it is looked at now"
    world.client.poll(world.clock())
    assert "no request used the connection for 900 s" in str(connection.aborted[0])


async def test_a_request_that_nothing_can_answer_any_more_is_not_waited_for(
    world: ObservedClient,
) -> None:
    """A firewall forgets a connection as the broker does, and nothing tells the client."""
    connection = await world.connected(ONE)
    world.send(1, Ask("ask"))
    world.stop(900.0)
    world.client.poll(world.clock())
    assert connection.aborted


# --- where a connection is chosen --------------------------------------------------------------


@pytest.mark.parametrize("stopped", [True, False])
async def test_an_idle_connection_is_replaced_at_once(world: ObservedClient, stopped: bool) -> None:
    """Before anybody has looked for idle connections."""
    connection = await world.connected(ONE)
    if stopped:
        world.stop(540.0)
    else:
        world.now += 540.0
    assert not world.client.can_send(1, world.clock())
    assert world.client.least_loaded([ONE], world.clock()) == ONE
    assert not world.client.ready(ONE, world.clock())
    assert connection.aborted
    await settle()
    assert world.client.failures() == {}, "it is no failure"
    assert world.client.not_before(1, world.clock()) is None
    replacement = await world.connected(ONE)
    assert replacement is not connection
    assert world.client.ready(ONE, world.clock())


async def test_a_connection_that_is_not_idle_for_long_is_kept(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.stop(539.0)
    assert world.client.ready(ONE, world.clock())
    assert connection.aborted == []


async def test_a_broker_that_ends_an_unused_connection_is_reconnected_at_once(
    world: ObservedClient,
) -> None:
    connection = await world.connected(ONE)
    world.stop(60.0)
    await connection.breaks()
    assert world.client.not_before(1, world.clock()) is None
    again = await world.connected(ONE)
    await again.breaks()
    assert world.client.not_before(1, world.clock()) is not None, "it was used just now"


async def test_no_request_goes_before_a_login_that_is_due(world: ObservedClient) -> None:
    """The broker ends a connection that goes on after its session."""
    connection = await world.connected(ONE)
    connection.exchange.usable_until = world.now + 100.0
    assert world.client.can_send(1, world.clock())
    world.stop(100.0)
    assert not world.client.can_send(1, world.clock())
    assert not world.client.ready(ONE, world.clock())
    assert connection.aborted == [], "it logs in again"


async def test_a_throttled_broker_gets_nothing_for_as_long_as_it_asked(
    world: ObservedClient,
) -> None:
    await world.connected(ONE)
    await world.connected(TWO)
    asks_for_a_pause(world, 1, 2.0)
    assert not world.client.can_send(1, world.now)
    assert world.client.can_send(2, world.now)
    assert not world.client.ready(ONE, world.now)
    assert world.client.not_before(1, world.now) == 1002.0
    asks_for_a_pause(world, 1, 0.5)
    assert world.client.not_before(1, world.now) == 1002.0, "a shorter wish ends no longer one"
    assert not world.client.can_send(1, 1001.999)
    assert world.client.can_send(1, 1002.0)
    assert world.client.not_before(1, 1002.0) is None
    assert len(world.connections) == 2


@pytest.mark.parametrize("seconds", [0.0, -0.001, -2_000_000.0])
async def test_a_throttle_time_of_zero_or_less_is_none(
    world: ObservedClient, seconds: float
) -> None:
    await world.connected(ONE)
    asks_for_a_pause(world, 1, seconds)
    assert world.client.can_send(1, world.now)
    assert world.throttled() == 0.0


@pytest.mark.parametrize("seconds", [11.001, 185_000.0, 2_147_483.647])
async def test_no_broker_is_left_alone_for_longer_than_it_remembers(
    world: ObservedClient, seconds: float
) -> None:
    await world.connected(ONE)
    asks_for_a_pause(world, 1, seconds)
    assert not world.client.can_send(1, world.now + 10.999)
    assert world.client.can_send(1, world.now + MAX_THROTTLE)
    assert world.throttled() == 11_000.0


async def test_a_throttle_time_ends_with_its_connection(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    asks_for_a_pause(world, 1, 10.0)
    await connection.breaks()
    world.now += 2.0
    await world.connected(ONE)
    assert world.client.can_send(1, world.now)
