"""Sessions that end after two seconds, and passwords that change, while clients run (KIP-368)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Producer, RecordMetadata
from aioproducer.admin import Admin
from aioproducer.auth.passwords import Scram
from aioproducer.config import ProducerConfig, Secret
from aioproducer.engine.network import login
from aioproducer.errors import DeliveryTimeoutError, SaslAuthenticationFailedError
from aioproducer.errors.broker import ErrorCode
from aioproducer.reader import Reader
from tests.kafka.sasl_wire import log_in
from tests.kafka.secured.relay import gate_before
from tests.kafka.secured.secured_kafka import (
    PASSWORD,
    SESSION_SECONDS,
    SHORT_ISSUER,
    SecuredKafka,
    Stopwatch,
)
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The mechanism's name of each login that has succeeded."""
    ended: list[str] = []
    log_in = login.log_in

    async def counted(mechanism: Any, *args: Any) -> float | None:
        session = await log_in(mechanism, *args)
        ended.append(mechanism.name)
        return session

    monkeypatch.setattr(login, "log_in", counted)
    return ended


async def flow(producer: Producer, topic: str, goes_on: Callable[[], bool]) -> int:
    """Records in a row, as many as there is room for, until all are acknowledged; how many."""
    sent: list[asyncio.Future[Any]] = []
    while goes_on():
        sent.append(producer.send(topic, b"%d" % len(sent)))
        if len(sent) % 20 == 0:
            await asyncio.sleep(0.01)
        await producer.drain()
    await asyncio.gather(*sent)
    return len(sent)


async def test_records_flow_while_sessions_end(
    world: SecuredKafka, logins: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    issuer = f"{world.tokens.of(SHORT_ISSUER)}/token"
    with gate_before(issuer) as gate:
        scram = world.login("SCRAM-SHA-512", "alice", PASSWORD, listener="SHORT")
        oauth = world.oauth(
            issuer=SHORT_ISSUER,
            listener="SHORT",
            sasl_oauthbearer_token_endpoint_url=gate.url,
            sasl_login_refresh_window_factor=0.5,
        )
        watch = Stopwatch()

        def renewed() -> dict[str, int]:
            return {name: logins.count(name) for name in ("SCRAM-SHA-512", "OAUTHBEARER")}

        async def run(options: dict[str, Any]) -> tuple[str, int]:
            topic = await world.topic()
            async with Producer(**options) as producer:
                await producer.check(30, topics=[topic])
                opened = producer.metrics()["producer-metrics"]["connection-creation-total"]
                count = await flow(
                    producer,
                    topic,
                    lambda: watch.seconds < 4 * SESSION_SECONDS or min(renewed().values()) < 3,
                )
                metrics = producer.metrics()["producer-metrics"]
                assert metrics["connection-creation-total"] == opened
                assert metrics["record-error-total"] == 0
                assert metrics["record-retry-total"] == 0
            return topic, count

        for topic, count in await asyncio.gather(run(scram), run(oauth)):
            assert await world.written(topic) == [b"%d" % number for number in range(count)]
        assert gate.asked >= 2
    assert not [record for record in caplog.records if "ended" in record.getMessage()]


async def test_a_token_serves_on_while_its_endpoint_is_down(
    world: SecuredKafka, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await world.topic()
    with gate_before(f"{world.tokens.of(SHORT_ISSUER)}/token") as gate:
        options = world.oauth(
            issuer=SHORT_ISSUER,
            listener="SHORT",
            sasl_oauthbearer_token_endpoint_url=gate.url,
            sasl_login_refresh_window_factor=0.5,
        )
        async with Producer(**options) as producer:
            await producer.send(topic, b"0")
            gate.shut.set()

            count = await flow(producer, topic, lambda: not gate.refused.is_set())
            await until(lambda: "is valid for another" in caplog.text, "the old token serves on")
            later = producer.send(topic, b"later")
            gate.shut.clear()
            await asyncio.wait_for(later, 60)
    expected = [b"0", *(b"%d" % number for number in range(count)), b"later"]
    assert await world.written(topic) == expected


async def test_a_user_who_is_deleted_is_cut_off(world: SecuredKafka) -> None:
    topic, name = await world.topic(), uuid.uuid4().hex
    await asyncio.to_thread(world.add_user, name, PASSWORD)
    options = world.login("SCRAM-SHA-256", name, PASSWORD, listener="SHORT")
    sent: list[asyncio.Future[Any]] = []
    async with Producer(**options, delivery_timeout_ms=4000, request_timeout_ms=2000) as producer:

        async def is_known() -> bool:
            with suppress(SaslAuthenticationFailedError):
                await producer.check(30, topics=[topic])
                return True
            return False

        await until(is_known, "the brokers know the user")
        await producer.send(topic, b"first")
        await asyncio.to_thread(world.delete_user, name)
        async with asyncio.timeout(60):
            while not (sent and sent[-1].done() and sent[-1].exception() is not None):
                sent.append(producer.send(topic, b"%d" % len(sent)))
                await asyncio.sleep(0.01)
        ends = await asyncio.gather(*sent, return_exceptions=True)
        with pytest.raises(SaslAuthenticationFailedError, match="invalid credentials"):
            await producer.check(30, topics=[topic])
    written = await world.written(topic)
    delivered = [end for end in ends if not isinstance(end, BaseException)]
    in_order = [b"first", *(b"%d" % number for number in range(len(written) - 1))]
    assert written == in_order
    assert len(written) > len(delivered)
    for end in ends[len(delivered) :]:
        assert isinstance(end, SaslAuthenticationFailedError | DeliveryTimeoutError)
        assert "SCRAM-SHA-256 login refused" in str(end)


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
