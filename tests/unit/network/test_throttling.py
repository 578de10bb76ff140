"""Brokers that ask for a pause (KIP-219)."""

from __future__ import annotations

import pytest

from aioproducer.engine.network.frames import MAX_THROTTLE
from tests.unit.network.observed_client import ONE, TWO, ObservedClient, asks_for_a_pause


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
