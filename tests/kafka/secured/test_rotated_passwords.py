"""Passwords that are changed at a real Kafka while clients run, and the files that hold them."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Producer, RecordMetadata
from aioproducer.admin import Admin
from aioproducer.auth.scram import Scram
from aioproducer.config import ProducerConfig, Secret
from aioproducer.errors.broker import ErrorCode
from aioproducer.reader import Reader
from tests.kafka.sasl_wire import log_in
from tests.kafka.secured.secured_kafka import SecuredKafka
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

ROTATIONS = 3
BURST = 50
"""Records that are sent at a time, some thousands in a second."""


class User:
    """A user of SCRAM whose password stands in a file."""

    def __init__(self, world: SecuredKafka, directory: Path) -> None:
        self._world = world
        self._file = directory / "password"
        self.name = uuid.uuid4().hex

    @property
    def reference(self) -> str:
        return f"${{dir:{self._file.parent}:{self._file.name}}}"

    async def provided(self) -> tuple[str, str]:
        return self.name, self._file.read_text()

    async def rotate(self, *, file_first: bool = False) -> str:
        """Change the password in the cluster and in the file; the one before."""
        before = self._file.read_text() if self._file.exists() else ""
        password = uuid.uuid4().hex
        if file_first:
            self._file.write_text(password)
        await asyncio.to_thread(self._world.add_user, self.name, password)
        self._file.write_text(password)
        return before

    async def refused(self, password: str) -> None:
        """Until the broker lets nobody in by ``password``; it learns of a change a moment later."""
        mechanism = Scram("SCRAM-SHA-256", self.name, Secret(password))
        address = self._world.cluster.bootstrap_servers_of("CLEAR")

        async def is_dead() -> bool:
            told = await asyncio.to_thread(log_in, address, mechanism)
            return told.error == ErrorCode.SASL_AUTHENTICATION_FAILED

        await until(is_dead, "the old password is dead", 60)


@pytest.fixture
async def user(world: SecuredKafka, tmp_path: Path) -> User:
    made = User(world, tmp_path)
    await made.rotate()
    return made


@pytest.mark.parametrize("file_first", [True, False])
@pytest.mark.parametrize("provided", [True, False])
async def test_no_record_fails_while_passwords_rotate(
    world: SecuredKafka, user: User, file_first: bool, provided: bool
) -> None:
    """The listener ends a session after two seconds (``connections.max.reauth.ms``), so the
    connection logs in again and again; the old password is dead before it does."""
    topic = await world.topic()
    login: dict[str, Any] = {"sasl_username": user.name, "sasl_password": user.reference}
    if provided:
        login = {"sasl_credentials_provider": user.provided}
    sent: list[asyncio.Future[RecordMetadata]] = []
    rotated = asyncio.Event()

    async def logged_in_since(producer: Producer[Any, Any]) -> None:
        """Twice, for the first of them may have begun before."""

        def logins() -> float:
            found = producer.metrics()["producer-metrics"]
            return (
                found["successful-authentication-total"]
                + found["successful-reauthentication-total"]
            )

        before = logins()
        async with asyncio.timeout(60):
            while logins() < before + 2:  # noqa: ASYNC110 -- no event tells of it
                await asyncio.sleep(0.05)

    options = world.login("SCRAM-SHA-256", listener="SHORT", **login)
    async with Producer(**options) as producer:
        await producer.send(topic, b"first")

        async def send() -> None:
            while not rotated.is_set():
                for _ in range(BURST):
                    sent.append(producer.send(topic, b"%d" % len(sent)))
                await producer.drain()
                await asyncio.sleep(0.005)

        sending = asyncio.create_task(send())
        for _ in range(ROTATIONS):
            old = await user.rotate(file_first=file_first)
            await user.refused(old)
            await logged_in_since(producer)
        rotated.set()
        await sending
        await asyncio.gather(*sent)
        assert producer.metrics()["producer-metrics"]["record-error-total"] == 0
    expected = [b"first", *(b"%d" % number for number in range(len(sent)))]
    assert await world.written(topic) == expected


async def test_clients_that_start_after_the_rotation_of_their_configuration(
    world: SecuredKafka, user: User
) -> None:
    topic = await world.topic()
    options = world.login("SCRAM-SHA-512", sasl_username=user.name, sasl_password=user.reference)
    config = ProducerConfig(**options)
    await user.rotate()
    async with Producer(config) as producer, Admin(config) as admin:
        await producer.send(topic, b"value")
        assert topic in await admin.list_topics()
        async with Reader(topic, end="end", **options) as reader:
            await user.rotate()
            assert [record.value async for record in reader] == [b"value"]
