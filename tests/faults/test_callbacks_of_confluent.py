"""confluent-kafka's interface on brokers that throttle and wait, beside the original."""

from __future__ import annotations

import asyncio
import threading
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from aioproducer.compat import confluent
from tests.support.fake_kafka.brokers import PRODUCE
from tests.support.fake_kafka.logins import PASSWORD, USER, FakeLogins

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka

FOR_LIBRDKAFKA = {PRODUCE: (3, 10), 1: (4, 11)}
"""Versions without which librdkafka takes a broker for an old one: those of Fetch, too."""
BOTH = pytest.mark.parametrize("client", [confluent_kafka, confluent], ids=["theirs", "ours"])


@pytest.fixture
async def kafka(start_kafka: StartKafka) -> FakeKafka:
    """One broker with the topic ``orders`` of one partition."""
    return await start_kafka(1, {"orders": 1}, FOR_LIBRDKAFKA)


@BOTH
async def test_a_broker_is_told_how_long_it_may_wait_for_replicas(
    kafka: FakeKafka, client: ModuleType
) -> None:
    def program(**timeouts: int) -> None:
        named = {name.replace("_", "."): value for name, value in timeouts.items()}
        producer = client.Producer({"bootstrap.servers": kafka.bootstrap_servers, **named})
        producer.produce("orders", "v")
        assert producer.flush(10) == 0

    await asyncio.to_thread(program)
    await asyncio.to_thread(program, request_timeout_ms=12_345, socket_timeout_ms=9_000)
    told = [each.body.timeout_ms / 1000 for each in kafka.requests(PRODUCE)]
    assert told == [30.0, 12.345]


@BOTH
async def test_throttle_cb_is_told_of_each_pause_and_of_the_end(
    kafka: FakeKafka, client: ModuleType
) -> None:
    """Pauses that are shorter than a turn of the producer's own clock count as well."""
    told: list[Any] = []
    threads: set[int] = set()

    def throttled(event: Any) -> None:
        told.append((str(event), event.broker_name, event.broker_id, event.throttle_time))
        threads.add(threading.get_ident())

    def program() -> int:
        producer = client.Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "throttle_cb": throttled}
        )
        for _ in range(4):
            producer.produce("orders", "v")
            assert producer.flush(10) == 0
        deadline = time.monotonic() + 10
        while len(told) < 3 and time.monotonic() < deadline:
            producer.poll(1)
        producer.poll(0.05)
        return threading.get_ident()

    kafka.answers.extend(map(kafka.Answer, (0, 0)))
    kafka.answers[0].throttle_ms, kafka.answers[1].throttle_ms = 30, 250
    caller = await asyncio.to_thread(program)
    name = f"127.0.0.1:{kafka.port(1)}"
    assert told == [
        (f"{name}/1 throttled for 30 ms", name, 1, 0.03),
        (f"{name}/1 throttled for 250 ms", name, 1, 0.25),
        (f"{name}/1 throttled for 0 ms", name, 1, 0.0),
    ]
    assert threads == {caller}


def with_tokens(callback: Any, **options: str) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": callback,
        "log_level": 0,
        **named,
    }


@BOTH
def test_oauth_cb_is_called_once_before_the_producer_is_there(client: ModuleType) -> None:
    told: list[tuple[Any, bool]] = []

    def token(config: Any) -> tuple[str, float]:
        told.append((config, threading.current_thread() is threading.main_thread()))
        return "token", time.time() + 300

    for options in ({}, {"sasl_oauthbearer_config": "a=b"}):
        client.Producer(with_tokens(token, **options))
    assert told == [(None, False), ("a=b", False)]


def test_without_a_token_there_is_no_producer() -> None:
    """confluent-kafka waits for ten seconds before it says so, without the reason."""

    def fails(config: Any) -> Any:
        raise KeyError("mine")

    before = {*threading.enumerate()}
    for callback, reason in ((fails, "mine"), (lambda _: ("token", 4.0), "expired")):
        with pytest.raises(confluent.KafkaException, match=reason) as raised:
            confluent.Producer(with_tokens(callback))
        assert raised.value.args[0] == confluent.KafkaError.SASL_AUTHENTICATION_FAILED
    for thread in {*threading.enumerate()} - before:
        thread.join(10)
    assert {*threading.enumerate()} <= before


async def test_an_asynchronous_producer_tells_at_its_first_call() -> None:
    told: list[Any] = []

    def fails(config: Any) -> Any:
        told.append(config)
        raise KeyError("mine")

    producer = confluent.AIOProducer(with_tokens(fails))
    with pytest.raises(confluent.KafkaException, match="mine"):
        await producer.produce("orders", "v")
    assert told == [None]
    await producer.close()


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_refused_login_fails_no_record_before_its_time(
    start_kafka: StartKafka, is_late: bool
) -> None:
    """The next login may have other credentials."""
    kafka = await start_kafka(1, {"orders": 1}, logins=FakeLogins(("PLAIN",)))
    options = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": USER,
        "sasl.password": "wrong",
        "message.timeout.ms": 1_500 if is_late else 30_000,
    }
    producer, began = confluent.AIOProducer(options), time.monotonic()
    future = await producer.produce("orders", "v")
    if is_late:
        with pytest.raises(confluent.KafkaException) as raised:
            await future
        assert time.monotonic() - began > 1.4
        assert raised.value.args[0] == confluent.KafkaError._MSG_TIMED_OUT
    else:
        await asyncio.wait([future], timeout=1)
        assert not future.done()
        await producer.set_sasl_credentials(USER, PASSWORD)
        assert (await future).offset() == 0
    await producer.close()
