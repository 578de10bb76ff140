"""Logins that are renewed on a connection (KIP-368) while something goes wrong beside them."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import Producer
from tests.support.fake_kafka.logins import (
    API_VERSIONS,
    LOGIN,
    REFUSED,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Conversation,
    FakeLogins,
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
