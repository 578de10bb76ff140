"""Sessions that end after two seconds: producers log in again, and nobody notices (KIP-368)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.engine.network import login
from aioproducer.errors import DeliveryTimeoutError, SaslAuthenticationFailedError
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
