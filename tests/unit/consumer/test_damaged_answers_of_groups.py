"""Damaged answers of coordinators: a member goes on, or says what is wrong, and can be closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from aioproducer.consumer import Consumer
from aioproducer.errors import ProducerError
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.simulation.network import Connection
from tests.support.simulated_world import consumer, each_protocol, fill, live, network_of

FIND_COORDINATOR = 10
GROUP_APIS = {8, 9, 11, 12, 13, 14, 68}
"""Commits and their offsets, joins, heartbeats and farewells."""
HEAD = 8
"""Bytes of the size and the correlation id, which stay: a wrong frame is another matter."""
OFTEN, SELDOM = 0.3, 0.03
"""The share of damaged answers."""
DAMAGED = 100.0
"""Seconds in which answers are damaged."""

Damage = Callable[[bytes, Random], bytes]


def cut_off(answer: bytes, random: Random) -> bytes:
    """The end is missing."""
    body = answer[4 : random.randint(HEAD, len(answer) - 1)]
    return len(body).to_bytes(4, "big") + body


def scrambled(answer: bytes, random: Random) -> bytes:
    """Some bytes are others."""
    found = bytearray(answer)
    for _ in range(random.randint(1, 8)):
        found[random.randrange(HEAD, len(found))] = random.randrange(256)
    return bytes(found)


class DamagedAnswers:
    """Damages some of the answers about groups, from its making until :meth:`end`."""

    def __init__(
        self, world: SimulatedWorld, random: Random, damage: Damage, apis: set[int], share: float
    ) -> None:
        self._random = random
        self._damage = damage
        self.apis = apis
        self._share = share
        self.count = 0
        self._is_over = False
        network_of(world).on_connection = self._watch

    def end(self) -> None:
        self._is_over = True

    def damaged(self, answer: bytes) -> bytes:
        if self._is_over or len(answer) <= HEAD or self._random.random() > self._share:
            return answer
        self.count += 1
        return self._damage(answer, self._random)

    def _watch(self, connection: Connection) -> None:
        connection.responses.receiver = _Receiver(self, connection)


class _Receiver:
    """The client's end of a connection, behind the damage."""

    def __init__(self, damage: DamagedAnswers, connection: Connection) -> None:
        self._damage = damage
        self._to = connection.responses.receiver
        self._asked_for: set[bytes] = set()
        connection.requests.on_put = self._ask

    def _ask(self, data: bytes) -> None:
        if int.from_bytes(data[4:6], "big") in self._damage.apis:
            self._asked_for.add(bytes(data[8:12]))

    def arrived(self, data: bytes) -> None:
        self._to.arrived(self._damage.damaged(data) if data[4:8] in self._asked_for else data)

    def ended(self, error: OSError | None) -> None:
        self._to.ended(error)


async def read(reader: Consumer, found: set[tuple[int, int]]) -> None:
    async for record in reader:
        found.add((record.partition, record.offset))
        await asyncio.sleep(0.1)


def lived(
    protocol: str, damage: Damage, apis: set[int], share: float, seed: int
) -> tuple[int, int, list[str]]:
    """The number of damaged answers, of records that were read, and the errors of members."""
    found: set[tuple[int, int]] = set()
    errors: list[str] = []
    damaged = 0

    async def life(world: SimulatedWorld) -> None:
        nonlocal damaged
        await fill(world, 400, 4)
        answers = DamagedAnswers(world, Random(seed), damage, apis, share)
        options: dict[str, Any] = {"group_protocol": protocol}
        members = [consumer(world, client_id=name, **options) for name in "ab"]
        for member in members:
            await member.start()
        tasks = [asyncio.create_task(read(member, found)) for member in members]
        await asyncio.sleep(DAMAGED)
        answers.end()
        await asyncio.sleep(200)
        for member, task in zip(members, tasks, strict=True):
            if task.done():
                with pytest.raises(ProducerError) as error:
                    await task
                errors.append(str(error.value))
            task.cancel()
            await asyncio.wait([task])
            began = world.now
            await member.close()
            assert world.now - began < 15
        damaged = answers.count

    live(life, 4, seed=seed)
    return damaged, len(found), errors


@each_protocol
def test_answers_that_are_cut_off_cost_time_alone(protocol: str) -> None:
    for seed in range(6):
        damaged, read_records, errors = lived(
            protocol, cut_off, GROUP_APIS | {FIND_COORDINATOR}, OFTEN, seed
        )
        assert damaged > 5, seed
        assert (read_records, errors) == (400, []), seed


@each_protocol
def test_scrambled_answers_neither_hang_nor_kill_a_member(protocol: str) -> None:
    """They may hold any error or offset, so a member may end with an error of its next read."""
    damaged = going_on = 0
    for seed in range(12):
        count, _, errors = lived(protocol, scrambled, GROUP_APIS, SELDOM, seed)
        damaged += count
        going_on += 2 - len(errors)
        assert not [error for error in errors if "died" in error], (seed, errors)
    assert damaged > 20
    assert going_on


@each_protocol
def test_a_coordinator_whose_address_is_another_broker_s_is_looked_for_again(protocol: str) -> None:
    """Since Kafka 4.4 brokers refuse clients that look for another one."""

    def named_otherwise(answer: bytes, _: Random) -> bytes:
        place = answer.index(b"broker-1.simulated") - 5  # its id, and the length of its name
        return answer[:place] + (99).to_bytes(4, "big") + answer[place + 4 :]

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 4)
        answers = DamagedAnswers(world, Random(1), named_otherwise, {FIND_COORDINATOR}, 1.0)
        async with consumer(world, group_protocol=protocol) as reader:
            await asyncio.sleep(3)
            assert answers.count
            answers.end()
            async with asyncio.timeout(30):
                await anext(aiter(reader))
            assert reader.health().state == "joined"

    live(life, 4)
