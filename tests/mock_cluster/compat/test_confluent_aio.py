"""confluent-kafka's AIOProducer on a real wire."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from aioproducer.compat.confluent import AIOProducer, KafkaError, KafkaException
from aioproducer.testing.mock_cluster import MockCluster

PRODUCE = 0
TOPIC_AUTHORIZATION_FAILED = 29


async def test_a_future_has_the_message() -> None:
    async with (
        MockCluster(brokers=1, topics={"t": 4}) as cluster,
        AIOProducer({"bootstrap.servers": cluster.bootstrap_servers}) as producer,
    ):
        futures = [await producer.produce("t", f"{n}", key=f"{n}") for n in range(2_000)]
        assert await producer.flush() == 0
        messages = await asyncio.gather(*futures)
        assert [each.value() for each in messages] == [b"%d" % n for n in range(2_000)]
        places = {(each.partition(), each.offset()) for each in messages}
        assert len(places) == 2_000
        assert messages[0].error() is None
        assert len(producer) == 0
        assert (await producer.list_topics("t", timeout=10)).topics["t"].partitions.keys() == {
            *range(4)
        }
    with pytest.raises(RuntimeError, match="closed"):
        await producer.produce("t", "x")


async def test_a_futures_error_is_a_kafka_exception() -> None:
    async with MockCluster(brokers=1, topics={"t": 4}) as cluster:
        await asyncio.to_thread(cluster.push_request_errors, PRODUCE, TOPIC_AUTHORIZATION_FAILED)
        async with AIOProducer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            future = await producer.produce("t", "x")
            with pytest.raises(KafkaException) as raised:
                await future
            assert raised.value.args[0] == TOPIC_AUTHORIZATION_FAILED
            lost = await producer.produce("t", "x", partition=9)
            with pytest.raises(KafkaException) as raised:
                await lost
            assert raised.value.args[0] == KafkaError._UNKNOWN_PARTITION


async def test_transactions_and_purges() -> None:
    async with MockCluster(brokers=1, topics={"t": 4}) as cluster:
        options = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "tx"}
        async with AIOProducer(options) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            future = await producer.produce("t", "x")
            await producer.commit_transaction()
            assert (await future).offset() == 0
            await producer.begin_transaction()
            future = await producer.produce("other", "x")
            await producer.purge()
            with pytest.raises(KafkaException) as raised:
                await future
            assert raised.value.args[0] == KafkaError._PURGE_QUEUE
            await producer.abort_transaction()


async def test_knobs_of_workers_have_no_effect_and_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "aioproducer.compat.confluent")
    producer = AIOProducer({}, max_workers=2, batch_size=1)
    await producer.close()
    assert [each.getMessage().split(" have")[0] for each in caplog.records] == [
        "max_workers, executor, batch_size and buffer_timeout"
    ]


async def test_lines_for_the_logger_come_on_the_event_loop() -> None:
    told: list[tuple[str, int]] = []
    came = asyncio.Event()

    class Lines:
        def log(self, level: int, text: str, *arguments: object) -> None:
            told.append((text % arguments, threading.get_ident()))
            came.set()

    options = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 200}
    producer = AIOProducer({**options, "logger": Lines(), "client.id": "logged"})
    async with asyncio.timeout(10):
        await came.wait()
    await producer.close()
    assert "127.0.0.1:1" in told[0][0]
    assert {thread for _, thread in told} == {threading.get_ident()}
    told.clear()
    logging.getLogger("aioproducer").warning("later", extra={"client_id": "logged"})
    await asyncio.sleep(0)
    assert told == []
