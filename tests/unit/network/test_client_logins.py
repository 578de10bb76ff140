"""Logins in the metrics, and the backoff after one that was refused."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from aioproducer.auth.mechanism import Mechanism
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
)
from aioproducer.model import Node
from tests.support.waiting import settle
from tests.unit.network.observed_client import ONE, SETTINGS, THREE, TWO, Ask, ObservedClient


class Login(Mechanism):
    """A mechanism that nobody asks for a step here."""

    name = "TEST"

    async def begin(self, host: str) -> NoReturn:
        raise NotImplementedError


def logins(world: ObservedClient) -> dict[str, float]:
    names = ("successful", "failed")
    return {
        f"{name}-{what}": world.metric(f"{name}-{what}-total")
        for name in names
        for what in ("authentication", "reauthentication")
    }


NO_LOGINS = dict.fromkeys(
    (
        "successful-authentication",
        "successful-reauthentication",
        "failed-authentication",
        "failed-reauthentication",
    ),
    0.0,
)


WITH_LOGIN = replace(SETTINGS, connection=SETTINGS.connection._replace(mechanism=Login()))


async def test_connections_that_were_let_in_are_counted() -> None:
    world = ObservedClient(WITH_LOGIN)
    await world.connected(ONE)
    connection = await world.connected(TWO)
    woken = world.woken
    connection.events.renewed(connection)
    assert world.woken == woken + 1
    assert logins(world) == {
        **NO_LOGINS,
        "successful-authentication": 2.0,
        "successful-reauthentication": 1.0,
    }
    assert world.metric("reauthentication-latency-max") == 250.0


async def test_logins_that_were_refused_are_counted() -> None:
    world = ObservedClient(WITH_LOGIN)
    connection = await world.connected(ONE)
    await connection.breaks(AuthenticationError("no more"))
    world.client.connect(TWO, world.now)
    await settle()
    await world.connections[-1].breaks(AuthenticationError("never"))
    assert logins(world) == {
        "successful-authentication": 1.0,
        "successful-reauthentication": 0.0,
        "failed-authentication": 1.0,
        "failed-reauthentication": 1.0,
    }


async def test_connections_without_tls_or_login_count_as_no_login(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    await connection.breaks()
    assert logins(world) == NO_LOGINS


REFUSED = AuthenticationError("wrong password")


QUICK = replace(SETTINGS, reconnect_backoff=0.05, reconnect_backoff_max=1.0)


async def refused(world: ObservedClient, node: Node = ONE) -> float:
    """A login that fails; for how many seconds the broker is left alone then."""
    world.client.connect(node, world.now)
    await settle()
    await world.connections[-1].breaks(REFUSED)
    moment = world.client.not_before(node.id, world.now)
    assert moment is not None
    return moment - world.now


async def test_refused_logins_back_off_for_longer_and_longer_until_one_succeeds() -> None:
    world = ObservedClient(QUICK)
    waits = []
    for _ in range(9):
        waits.append(await refused(world))
        world.now += waits[-1]
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])
    connection = await world.connected(ONE)
    assert not world.client.has_refused_logins
    await connection.breaks()
    assert world.client.not_before(1, world.now) == pytest.approx(world.now + 0.05)
    world.now += 1
    assert await refused(world) == pytest.approx(1), "it begins anew"


@pytest.mark.parametrize("unused", [0, 30, 600], ids="{} s without a request".format)
async def test_a_refused_renewal_backs_off_as_a_refused_login(
    world: ObservedClient, unused: int
) -> None:
    connection = await world.connected(ONE)
    world.now += unused
    await connection.breaks(REFUSED)
    assert world.client.has_refused_logins
    assert world.client.not_before(1, world.now) == pytest.approx(world.now + 1)


async def test_what_was_in_flight_is_not_refused_with_the_login(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.send(1, Ask("first"))
    await connection.breaks(REFUSED)
    ((name, error),) = world.outcomes()
    assert name == "first"
    assert type(error) is BrokerConnectionError
    assert "wrong password" in str(error)


async def test_a_refusal_counts_when_no_broker_is_left_to_try() -> None:
    world = ObservedClient(QUICK)
    assert world.client.refusal([ONE, TWO]) is None
    await refused(world, ONE)
    assert world.client.refusal([ONE]) is REFUSED
    assert world.client.refusal([ONE, TWO]) is None, "the other one may let it in"
    world.client.connect(TWO, world.now)
    await settle()
    assert world.client.refusal([ONE, TWO]) is None, "the same, while it is tried"
    await world.connections[-1].breaks()
    assert world.client.refusal([ONE, TWO]) is REFUSED, "nobody is reached there"
    await world.connected(THREE)
    assert world.client.refusal([ONE, TWO]) is None, "a broker has let it in"


async def test_a_broker_that_let_the_producer_in_before_is_still_to_be_tried(
    world: ObservedClient,
) -> None:
    connection = await world.connected(TWO)
    await connection.breaks()
    await refused(world, ONE)
    assert world.client.refusal([ONE, TWO]) is None, "its connection was cut, not refused"


async def test_the_refusals_of_all_brokers_count_for_the_wait(world: ObservedClient) -> None:
    """They have the same accounts, which may be locked."""
    waits = [await refused(world, node) for node in (ONE, TWO, THREE)]
    assert waits == pytest.approx([1, 2, 4])


async def test_brokers_that_are_not_reached_refuse_nobody(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    await world.connections[-1].breaks()
    assert world.client.refusal([ONE]) is None
    assert not world.client.has_refused_logins


async def test_a_refusal_is_forgotten_with_its_broker(world: ObservedClient) -> None:
    await refused(world)
    world.client.forget_except([2])
    assert not world.client.has_refused_logins
    assert world.client.refusal([ONE]) is None
