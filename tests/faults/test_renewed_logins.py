"""Logins that are renewed on a connection (KIP-368), and passwords that change meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import AuthenticationError, Producer, ProducerConfig, sync
from tests.support.fake_kafka.logins import (
    API_VERSIONS,
    LOGIN,
    PASSWORD,
    REFUSED,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    USER,
    Conversation,
    FakeLogins,
    Login,
    Said,
    Scripted,
    converse,
)
from tests.support.inside import in_environment, quick_logins

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka


PATIENCE = 60.0
PRODUCE = 0
SESSION_MS = 250
OPTIONS: dict[str, Any] = LOGIN | {
    "reconnect_backoff_ms": 10,
    "retry_backoff_ms": 10,
    "metadata_max_age_ms": 1_000_000,
}


async def secured(start_kafka: StartKafka, logins: FakeLogins) -> FakeKafka:
    return await start_kafka(1, {"orders": 1}, logins=logins)


QuickProducer = in_environment(quick_logins(0.05, 60.0))


def producer_of(kafka: FakeKafka, **options: Any) -> Producer:
    return QuickProducer(bootstrap_servers=kafka.bootstrap_servers, **(OPTIONS | options))


def in_use(kafka: FakeKafka) -> int:
    """The connection that records take."""
    return kafka.requests(PRODUCE)[0].connection


async def test_a_login_is_renewed_on_its_connection_and_nothing_is_lost(
    start_kafka: StartKafka,
) -> None:
    kafka = await secured(start_kafka, logins := FakeLogins(lifetime_ms=SESSION_MS))
    futures: list[asyncio.Future[Any]] = []
    async with asyncio.timeout(PATIENCE), producer_of(kafka) as producer:
        await producer.send("orders", b"first")
        while logins.of(in_use(kafka)) < 4:
            futures.append(producer.send("orders", b"%d" % len(futures)))
            await asyncio.sleep(0.001)
        await asyncio.gather(*futures)
    assert kafka.values("orders") == [b"first", *(b"%d" % n for n in range(len(futures)))]
    assert {each.connection for each in kafka.requests(PRODUCE)} == {in_use(kafka)}


@pytest.mark.parametrize("lifetime_ms", [0, -1, -(2**63)])
async def test_a_session_without_end_is_not_renewed(
    start_kafka: StartKafka, lifetime_ms: int
) -> None:
    kafka = await secured(start_kafka, logins := FakeLogins(lifetime_ms=lifetime_ms))
    async with asyncio.timeout(PATIENCE), producer_of(kafka) as producer:
        for _ in range(3):
            await producer.send("orders", b"v")
            await asyncio.sleep(0.05)
    assert logins.of(in_use(kafka)) == 1


@pytest.mark.parametrize("lifetime_ms", [10**10, 10**14, 10**17, 2**63 - 1])
async def test_a_session_of_ages_is_one_as_well(start_kafka: StartKafka, lifetime_ms: int) -> None:
    kafka = await secured(start_kafka, logins := FakeLogins(lifetime_ms=lifetime_ms))
    async with asyncio.timeout(PATIENCE), producer_of(kafka, max_block_ms=2_000) as producer:
        await producer.send("orders", b"v")
    assert logins.of(in_use(kafka)) == 1


@pytest.mark.parametrize("lifetime_ms", [1, 20])
async def test_sessions_of_no_length_keep_nobody_busy(
    start_kafka: StartKafka, lifetime_ms: int
) -> None:
    kafka = await secured(start_kafka, logins := FakeLogins(lifetime_ms=lifetime_ms))
    sent = 0
    async with asyncio.timeout(PATIENCE), producer_of(kafka) as producer:
        await producer.send("orders", b"v")
        before, began = len(logins.begun), monotonic()
        while (took := monotonic() - began) < 1.0:
            await producer.send("orders", b"v")
            await asyncio.sleep(0.001)
            sent += 1
        begun = len(logins.begun) - before
    assert 1 < begun / took < 25, "for each of two connections"
    assert sent > 2 * begun, "the logins leave room for records"


async def test_a_connection_cut_while_its_login_is_renewed(start_kafka: StartKafka) -> None:
    """The answer to a record that was written is lost with it."""
    kafka = await secured(start_kafka, FakeLogins(lifetimes=deque([0, SESSION_MS])))
    async with asyncio.timeout(PATIENCE), producer_of(kafka) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(kafka.Answer(silent_after_writing=True))
        in_flight = [producer.send("orders", b"second")]
        await kafka.until_received(PRODUCE, 2)
        await kafka.until_received(SASL_HANDSHAKE, 3)
        in_flight.append(producer.send("orders", b"third"))
        await kafka.servers[1].cut()
        await asyncio.gather(*in_flight)
    assert kafka.values("orders") == [b"first", b"second", b"third"]


@pytest.mark.parametrize("api", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
async def test_a_renewal_that_is_not_answered_ends_its_connection(
    start_kafka: StartKafka, api: int
) -> None:
    kafka = await secured(start_kafka, logins := FakeLogins(lifetimes=deque([0, SESSION_MS])))
    async with asyncio.timeout(PATIENCE), producer_of(kafka, request_timeout_ms=300) as producer:
        await producer.send("orders", b"first")
        logins.mute.add(api)
        await kafka.until_received(SASL_HANDSHAKE, 3)
        began = monotonic()
        second = producer.send("orders", b"second")
        await kafka.until_received(API_VERSIONS, 3)
        logins.mute.clear()
        await second
        assert monotonic() - began < 5.0
    assert kafka.values("orders") == [b"first", b"second"]
    assert len({each.connection for each in kafka.requests(PRODUCE)}) == 2


async def test_requests_in_flight_time_out_as_ever_while_a_login_is_renewed(
    start_kafka: StartKafka,
) -> None:
    kafka = await secured(start_kafka, logins := FakeLogins(lifetimes=deque([0, SESSION_MS])))
    async with asyncio.timeout(PATIENCE), producer_of(kafka, request_timeout_ms=500) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(kafka.Answer(silent_after_writing=True))
        second = producer.send("orders", b"second")
        await kafka.until_received(PRODUCE, 2)
        logins.open.clear()
        await kafka.until_received(SASL_HANDSHAKE, 3)
        began = monotonic()
        await kafka.until_received(API_VERSIONS, 3)
        logins.open.set()
        await second
        assert monotonic() - began < 5.0
    assert kafka.values("orders") == [b"first", b"second"]


async def test_a_refused_renewal_retries_what_is_in_flight(start_kafka: StartKafka) -> None:
    logins = FakeLogins(lifetimes=deque([0, SESSION_MS]))

    def make(mechanism: str) -> Conversation:
        if len(logins.begun) == 3:
            return Scripted([Said(error=REFUSED, message="not any more")])
        return converse(mechanism)

    logins.make = make
    kafka = await secured(start_kafka, logins)
    async with asyncio.timeout(PATIENCE), producer_of(kafka) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(kafka.Answer(silent_after_writing=True))
        second = producer.send("orders", b"second")
        await kafka.until_received(PRODUCE, 2)
        await kafka.until_received(SASL_HANDSHAKE, 3)
        third = producer.send("orders", b"third")
        await asyncio.gather(second, third)
    assert kafka.values("orders") == [b"first", b"second", b"third"]
    assert len({each.connection for each in kafka.requests(PRODUCE)}) == 2


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}
PROVIDER = "org.apache.kafka.common.config.provider"
VARIABLE = "AIOPRODUCER_TEST_ROTATED"


@dataclass
class Account:
    """The user's password at the brokers."""

    password: str = PASSWORD

    def logins(self, **options: Any) -> FakeLogins:
        return FakeLogins(MECHANISMS, make=self.converse, **options)

    def converse(self, mechanism: str) -> Conversation:
        return converse(mechanism, self.password)


class Place:
    """A place outside of the configuration where the password stands."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self._patch = patch
        self.write(PASSWORD)

    def write(self, password: str) -> None:
        (self.directory / "password").write_text(f"{password}\n")
        (self.directory / "secrets.properties").write_text(f"password={password}\n")
        self._patch.setenv(VARIABLE, password)

    async def provided(self) -> tuple[str, str]:
        return USER, (self.directory / "password").read_text().strip()

    def provided_by_a_thread(self) -> tuple[str, str]:
        return USER, (self.directory / "password").read_text().strip()

    def jaas(self, mechanism: str) -> str:
        module = MODULES.get(mechanism, MODULES["SCRAM-SHA-256"])
        return (
            f"org.apache.kafka.common.security.{module} required"
            f' username="{USER}" password="${{dir:{self.directory}:password}}";'
        )

    def properties_file(self, mechanism: str) -> Path:
        path = self.directory / "client.properties"
        path.write_text(
            "bootstrap.servers=localhost:1\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\nsasl.jaas.config={self.jaas(mechanism)}\n"
            f"config.providers=dir\nconfig.providers.dir.class={PROVIDER}.DirectoryConfigProvider\n"
        )
        return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def configured(kafka: FakeKafka, mechanism: str = "SCRAM-SHA-256", **login: Any) -> ProducerConfig:
    options: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "reconnect_backoff_ms": 1,
        "retry_backoff_ms": 1,
        "request_timeout_ms": 10_000,
        "delivery_timeout_ms": 20_000,
        **login,
    }
    return ProducerConfig(bootstrap_servers=kafka.bootstrap_servers, **options)


def by_file(place: Place) -> dict[str, Any]:
    reference = f"${{file:{place.directory}/secrets.properties:password}}"
    return {"sasl_username": USER, "sasl_password": reference}


WAYS: dict[str, Callable[[Place, str], dict[str, Any]]] = {
    "file": lambda place, _: by_file(place),
    "dir": lambda place, _: {
        "sasl_username": USER,
        "sasl_password": f"${{dir:{place.directory}:password}}",
    },
    "env": lambda place, _: {"sasl_username": USER, "sasl_password": f"${{env:{VARIABLE}}}"},
    "JAAS line": lambda place, mechanism: {"sasl_jaas_config": place.jaas(mechanism)},
    "provider": lambda place, _: {"sasl_credentials_provider": place.provided},
    "provider in a thread": lambda place, _: {
        "sasl_credentials_provider": place.provided_by_a_thread
    },
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("way", WAYS)
async def test_the_next_login_has_the_new_password(
    start_kafka: StartKafka, place: Place, way: str, mechanism: str
) -> None:
    account = Account()
    kafka = await start_kafka(1, {"orders": 1}, logins=(logins := account.logins()))
    config = configured(kafka, mechanism, **WAYS[way](place, mechanism))
    async with asyncio.timeout(PATIENCE), Producer(config) as producer:
        for number in range(3):
            await producer.send("orders", b"%d" % number)
            account.password = f"the new one, {number}"
            place.write(account.password)
            await kafka.servers[1].cut()
        await producer.send("orders", b"last")
    assert kafka.values("orders") == [b"0", b"1", b"2", b"last"]
    assert len(logins.begun) == len(logins.ended), "no login was refused"


async def test_a_properties_file_is_like_keywords(start_kafka: StartKafka, place: Place) -> None:
    account = Account()
    kafka = await start_kafka(1, {"orders": 1}, logins=account.logins())
    config = ProducerConfig.from_properties(
        place.properties_file("SCRAM-SHA-512"), bootstrap_servers=kafka.bootstrap_servers
    )
    async with asyncio.timeout(PATIENCE), Producer(config) as producer:
        await producer.send("orders", b"first")
        account.password = "the new one"
        place.write(account.password)
        await kafka.servers[1].cut()
        await producer.send("orders", b"second")
    assert kafka.values("orders") == [b"first", b"second"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("way", ["file", "provider"])
async def test_a_rotation_between_reading_and_judging_is_one_more_login(
    start_kafka: StartKafka, place: Place, way: str, mechanism: str
) -> None:
    """The first record would fail at once if its login were refused."""
    account = Account()

    def rotate(login: Login) -> None:
        if len(logins.begun) == 1:
            account.password = "changed after it was read"
            place.write(account.password)

    logins = account.logins(on_begin=rotate)
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    config = configured(kafka, mechanism, **WAYS[way](place, mechanism))
    async with asyncio.timeout(PATIENCE), Producer(config) as producer:
        await producer.send("orders", b"v")
    assert kafka.values("orders") == [b"v"]
    assert len(logins.begun) - len(logins.ended) == 1


async def test_a_renewed_login_has_the_new_password(start_kafka: StartKafka, place: Place) -> None:
    account = Account()
    logins = account.logins(lifetime_ms=200)
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    async with asyncio.timeout(PATIENCE), Producer(configured(kafka, **by_file(place))) as producer:
        await producer.send("orders", b"first")
        for number in range(3):
            account.password = f"the new one, {number}"
            place.write(account.password)
            ended = len(logins.ended)
            while len(logins.ended) < ended + 2:
                await producer.send("orders", b"v")
                await asyncio.sleep(0.01)
    assert len(logins.begun) == len(logins.ended), "no login was refused"


async def test_a_renewed_login_that_was_refused_is_followed_by_a_connection(
    start_kafka: StartKafka, place: Place
) -> None:
    account = Account()

    def rotate(login: Login) -> None:
        if logins.of(login.connection):
            account.password = "changed after it was read"
            place.write(account.password)

    logins = account.logins(lifetimes=deque([0, 200]), on_begin=rotate)
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    async with asyncio.timeout(PATIENCE), Producer(configured(kafka, **by_file(place))) as producer:
        await producer.send("orders", b"first")
        while len(logins.ended) < 3:
            await producer.send("orders", b"v")
            await asyncio.sleep(0.01)
    assert logins.of(logins.begun[-1].connection) == 1
    assert len(logins.begun) - len(logins.ended) == 1, "the renewal"


async def refused(config: ProducerConfig) -> AuthenticationError:
    async with asyncio.timeout(PATIENCE), Producer(config) as producer:
        with pytest.raises(AuthenticationError) as caught:
            await producer.send("orders", b"v")
    return caught.value


async def test_a_password_that_stays_wrong_is_tried_once(
    start_kafka: StartKafka, place: Place
) -> None:
    logins = Account("another one").logins()
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    await refused(configured(kafka, **by_file(place)))
    assert len(logins.begun) == 1


async def test_a_provider_that_never_repeats_itself_is_tried_twice(
    start_kafka: StartKafka,
) -> None:
    logins = Account().logins()
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    numbers = itertools.count()
    config = configured(kafka, sasl_credentials_provider=lambda: (USER, f"guess {next(numbers)}"))
    assert "guess" not in str(await refused(config))
    assert len(logins.begun) == 2


@pytest.mark.parametrize("damage", ["gone", "empty", "another key"])
async def test_a_file_that_is_half_written_leaves_the_old_password_in_use(
    start_kafka: StartKafka, place: Place, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = await start_kafka(1, {"orders": 1}, logins=Account().logins())
    path = place.directory / "secrets.properties"
    caplog.set_level(logging.INFO)
    async with asyncio.timeout(PATIENCE), Producer(configured(kafka, **by_file(place))) as producer:
        await producer.send("orders", b"first")
        if damage == "gone":
            path.unlink()
        else:
            path.write_text("password=" if damage == "empty" else "pass")
        for number in range(3):
            await kafka.servers[1].cut()
            await producer.send("orders", b"%d" % number)
    assert caplog.text.count("so the old ones stay in use") == 1
    assert PASSWORD not in caplog.text


async def test_a_provider_that_fails_leaves_the_last_password_in_use(
    start_kafka: StartKafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = await start_kafka(1, {"orders": 1}, logins=Account().logins())
    calls = 0

    def provider() -> tuple[str, str]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError("the vault is sealed")
        return USER, PASSWORD

    config = configured(kafka, sasl_credentials_provider=provider)
    async with asyncio.timeout(PATIENCE), Producer(config) as producer:
        for number in range(3):
            await producer.send("orders", b"%d" % number)
            await kafka.servers[1].cut()
        await producer.send("orders", b"last")
    assert calls > 1
    assert caplog.text.count("The last credentials stay in use") == 1
    assert "OSError: the vault is sealed" in caplog.text
    assert PASSWORD not in caplog.text


async def test_the_blocking_producer_is_like_the_producer(
    start_kafka: StartKafka, place: Place
) -> None:
    account = Account()
    kafka = await start_kafka(1, {"orders": 1}, logins=account.logins())
    config = configured(kafka, **by_file(place))

    blocking = sync.Producer(config)
    blocking.start()

    def write(value: bytes) -> None:
        blocking.send("orders", value).result(PATIENCE)

    async with asyncio.timeout(PATIENCE):
        for value in (b"first", b"second"):
            await asyncio.to_thread(write, value)
            account.password = "the new one"
            place.write(account.password)
            await kafka.servers[1].cut()
        await asyncio.to_thread(blocking.close)
    assert kafka.values("orders") == [b"first", b"second"]


async def test_the_old_password_is_refused_with_the_brokers_words(
    start_kafka: StartKafka, place: Place
) -> None:
    logins = FakeLogins(
        ("PLAIN",), make=lambda _: Scripted([Said(error=REFUSED, message="the account is locked")])
    )
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    error = await refused(configured(kafka, "PLAIN", **by_file(place)))
    assert "the account is locked" in str(error)
