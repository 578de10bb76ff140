"""A refusal is a new object at each call, so none of them gathers the frames of all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import Producer, ProducerBrokenError, sync
from aioproducer.engine.core.transaction_api import TransactionApi
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.errors import (
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
    TopicAuthorizationFailedError,
)
from tests.support.inside import engine_of

if TYPE_CHECKING:
    from tests.support.fake_kafka import FakeKafka

TOPIC_AUTHORIZATION_FAILED = 29
TIMES = 20
PATIENCE = 60.0


def explode(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a bug")


async def outcome(call: Callable[[], Any]) -> None:
    answer = call()
    if isinstance(answer, Awaitable):
        await asyncio.wait_for(answer, PATIENCE)


async def check(kind: type[ProducerError], call: Callable[[], Any]) -> None:
    """``call`` raises an error of its own each time, and none of them is longer than the first."""
    raised = []
    for _ in range(TIMES):
        with pytest.raises(kind) as caught:
            await outcome(call)
        raised.append(caught.value)
    assert len(set(map(id, raised))) == TIMES
    assert len({str(each) for each in raised}) == 1
    assert len({type(each.__cause__) for each in raised}) == 1
    lengths = [len(list(walk_tb(each.__traceback__))) for each in raised]
    assert lengths[-1] == lengths[0] < 20


async def test_calls_of_a_broken_producer(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="t")
    await producer.start()
    await producer.begin_transaction()
    await producer.send("orders", b"fine")
    monkeypatch.setattr(MetadataRefresher, "step", explode)
    with pytest.raises(ProducerBrokenError):
        await asyncio.wait_for(producer.send("unknown", b"v"), PATIENCE)
    monkeypatch.undo()
    calls: list[Callable[[], Any]] = [
        lambda: producer.send("orders", b"v"),
        producer.drain,
        producer.flush,
        lambda: producer.send_many("orders", [b"v"]),
        lambda: producer.partitions_for("unknown"),
        producer.begin_transaction,
        producer.commit_transaction,
        producer.abort_transaction,
        lambda: producer.send_offsets_to_transaction({("orders", 0): 3}, "group"),
        producer.transaction_handle,
    ]
    for call in calls:
        await check(ProducerBrokenError, call)
    await producer.close()


async def test_a_topic_that_is_refused(kafka: FakeKafka) -> None:
    kafka.topic_errors["secret"] = TOPIC_AUTHORIZATION_FAILED
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await check(TopicAuthorizationFailedError, lambda: producer.partitions_for("secret"))


async def test_waits_of_transactions_that_are_over(
    kafka: FakeKafka,
) -> None:
    """Calls that were let in before the producer was closed."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="t"
    ) as producer:
        calls = engine_of(producer).transactions
        assert isinstance(calls, TransactionApi)
        calls.close(ProducerClosedError("closed"))
        await check(
            ProducerClosedError, lambda: calls._until(lambda: False, None, "waiting", "Wait")
        )


def test_futures_of_the_blocking_shell_that_share_an_error() -> None:
    producer = sync.Producer(bootstrap_servers="127.0.0.1:1")
    producer.start()
    futures = [producer.send("orders", b"v") for _ in range(TIMES)]
    with pytest.raises(ProducerTimeoutError):
        producer.flush(0.1)  # they stand in line now
    assert producer.close(0) == TIMES
    assert len({id(each.exception()) for each in futures}) == 1, "or this test shows nothing"
    lengths = set()
    for future in futures:
        with pytest.raises(ProducerClosedError) as caught:
            future.result()
        lengths.add(len(list(walk_tb(caught.value.__traceback__))))
    assert len(lengths) == 1
