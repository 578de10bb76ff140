"""What is wrong with a call raises at the call, says so, and leaves the producer as it was."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from aioproducer import (
    ConfigError,
    IllegalStateError,
    Producer,
    ProducerClosedError,
    ProducerConfig,
    ProducerError,
    ProducerRecord,
    RecordTooLargeError,
    SerializationError,
    UsageError,
    WrongLoopError,
)
from aioproducer.errors import (
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    MetadataTimeoutError,
)
from aioproducer.reader import Reader
from aioproducer.testing.mock_cluster import MockCluster

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def orders(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 2)
    return mock_cluster


# --- the state of the producer ----------------------------------------------------------------


async def test_a_producer_that_was_not_started() -> None:
    producer = Producer(bootstrap_servers=NOWHERE)
    for use in (lambda: producer.send("orders", b"v"), producer.metrics):
        with pytest.raises(IllegalStateError, match=r"start") as raised:
            use()
        assert isinstance(raised.value, RuntimeError)
        assert isinstance(raised.value, UsageError)
    for call in (
        producer.flush,
        producer.drain,
        lambda: producer.send_many("orders", [b"v"]),
        lambda: producer.partitions_for("orders"),
    ):
        with pytest.raises(IllegalStateError, match=r"async with Producer"):
            await call()
    assert repr(producer).endswith("not started>")


async def test_after_close(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"v")
    with pytest.raises(ProducerClosedError, match="closed") as raised:
        producer.send("orders", b"v")
    assert isinstance(raised.value, RuntimeError)
    for call in (
        producer.flush,
        producer.drain,
        lambda: producer.send_many("orders", [b"v"]),
        lambda: producer.partitions_for("orders"),
    ):
        with pytest.raises(ProducerClosedError):
            await call()
    assert producer.metrics()["producer-metrics"]["record-send-total"] == 1.0


async def test_while_it_closes(orders: MockCluster) -> None:
    producer = Producer(bootstrap_servers=orders.bootstrap_servers)
    await producer.start()
    sent = producer.send("orders", b"v")
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    with pytest.raises(ProducerClosedError, match="closing"):
        producer.send("orders", b"late")
    assert await closing == 0
    assert (await sent).offset == 0


# --- loops, threads, processes ----------------------------------------------------------------


async def left_open(orders: MockCluster) -> Producer:
    producer = Producer(bootstrap_servers=orders.bootstrap_servers)
    await producer.start()
    await producer.send("orders", b"v")
    return producer


def test_a_second_event_loop(orders: MockCluster) -> None:
    async def second(producer: Producer) -> None:
        with pytest.raises(WrongLoopError, match="another loop") as raised:
            producer.send("orders", b"v")
        assert isinstance(raised.value, RuntimeError)
        for call in (producer.flush, producer.close, lambda: producer.partitions_for("orders")):
            with pytest.raises(WrongLoopError):
                await call()

    with asyncio.Runner() as runner:
        producer = runner.run(left_open(orders))
        with asyncio.Runner() as other:
            other.run(second(producer))
        runner.run(producer.close())


def test_asyncio_run_twice_with_a_producer_left_open(orders: MockCluster) -> None:
    producer = asyncio.run(left_open(orders))

    async def second() -> None:
        with pytest.raises(ProducerError, match=r"loop|closed"):
            producer.send("orders", b"v")

    asyncio.run(second())


async def test_a_record_comes_alone(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        extras: list[dict[str, Any]] = [
            {"key": b"k"},
            {"partition": 0},
            {"headers": {}},
            {"value": b"v"},
            {"value": "v"},
            {"timestamp_ms": 0},
        ]
        for extra in extras:
            with pytest.raises(SerializationError, match="only argument") as raised:
                producer.send(ProducerRecord("orders", b"secret"), **extra)
            assert "secret" not in str(raised.value)
        with pytest.raises(SerializationError, match="headers"):
            producer.send("orders", b"v", headers=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", ["abc", b"abc", bytearray(b"abc"), 5, None])
async def test_send_many_takes_values_one_by_one(orders: MockCluster, values: Any) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(SerializationError, match="iterable"):
            await producer.send_many("orders", values)
        report = await producer.send_many(["orders"], [b"v"])  # type: ignore[arg-type]
        assert isinstance(report.first_failure, InvalidTopicError)


FORKING = """
    import asyncio, json, os, sys, warnings
    from aioproducer import Producer
    from aioproducer.testing.mock_cluster import MockCluster

    warnings.simplefilter("ignore", DeprecationWarning)

    async def main(cluster):
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send("orders", b"before", partition=0)
            pending = [producer.send("orders", b"%d" % n, partition=0) for n in range(100)]
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                errors = []
                try:
                    producer.send("orders", b"from the child")
                except BaseException as error:
                    errors.append([type(error).__name__, str(error)])
                partitions_for = lambda: producer.partitions_for("orders")
                for call in (producer.flush, producer.drain, producer.close, partitions_for):
                    try:
                        call().send(None)
                        errors.append(["none", ""])
                    except BaseException as error:
                        errors.append([type(error).__name__, str(error)])
                os.write(writing, json.dumps(errors).encode())
                os._exit(0)
            os.close(writing)
            os.waitpid(child, 0)
            errors = json.loads(os.read(reading, 1 << 20))
            offsets = [(await future).offset for future in pending]
            after = (await producer.send("orders", b"after", partition=0)).offset
            print(json.dumps([errors, offsets, after]))

    with MockCluster(brokers=1, topics={"orders": 1}) as cluster:
        asyncio.run(main(cluster))
"""


def test_after_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKING)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    errors, offsets, after = json.loads(done.stdout)
    assert [name for name, _ in errors] == ["WrongLoopError"] * 5
    assert all("fork" in text for _, text in errors)
    assert offsets == list(range(1, 101))
    assert after == 101


@pytest.mark.parametrize(
    ("options", "warns"),
    [({"client_rack": "a"}, True), ({"client_rack": "a", "partitioner_rack_aware": True}, False)],
)
async def test_a_rack_that_a_producer_does_not_mind(
    orders: MockCluster, options: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers, **options):
        pass
    async with Reader("orders", bootstrap_servers=orders.bootstrap_servers, client_rack="a"):
        pass
    told = [each for each in caplog.messages if "client_rack has no effect on a producer" in each]
    assert len(told) == warns


FORGETTING = """
    import asyncio
    from aioproducer import Producer
    from aioproducer.testing import MockCluster

    async def main(servers):
        producer = Producer(bootstrap_servers=servers)
        await producer.start()
        for number in range(3):
            producer.send("orders", b"%d" % number)

    with MockCluster(brokers=1, topics={"orders": 1}) as cluster:
        asyncio.run(main(cluster.bootstrap_servers))
"""


def test_a_forgotten_close_is_told_and_loses_no_record() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORGETTING)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "not closed before its event loop ended: delivering for up to 10 s" in done.stderr
    assert "undelivered" not in done.stderr


# --- the arguments ----------------------------------------------------------------------------

WRONG_RECORDS: list[tuple[dict[str, Any], type[ProducerError], type[Exception], str]] = [
    ({"value": 7}, SerializationError, TypeError, "a value of type int.*'orders'.*serializer"),
    ({"value": {"a": 1}}, SerializationError, TypeError, "dict"),
    ({"key": 1.5}, SerializationError, TypeError, "a key of type float.*key_serializer"),
    ({"headers": {"h": 1}}, SerializationError, TypeError, "'h'.*int.*bytes, str or None"),
    ({"headers": {1: b"v"}}, SerializationError, TypeError, "header key.*int"),
    ({"headers": [b"only a key"]}, SerializationError, TypeError, "pairs"),
    ({"headers": 5}, SerializationError, TypeError, "headers"),
    ({"partition": -1}, InvalidPartitionError, ValueError, "-1"),
    ({"partition": 2**31}, InvalidPartitionError, ValueError, "0 to 2147483647"),
    ({"partition": "0"}, InvalidPartitionError, ValueError, "'0'"),
    ({"partition": True}, InvalidPartitionError, ValueError, "True"),
    ({"timestamp_ms": -5}, InvalidTimestampError, ValueError, "-5"),
    (
        {"timestamp_ms": 1.5},
        InvalidTimestampError,
        ValueError,
        r"int\(time.time\(\) \* 1000\), not 1.5",
    ),
    ({"timestamp_ms": 2**63}, InvalidTimestampError, ValueError, "milliseconds"),
    ({"value": bytes(1 << 20)}, RecordTooLargeError, ValueError, "max_request_size"),
    ({"key": bytes(1 << 20)}, RecordTooLargeError, ValueError, "max_request_size"),
    ({"headers": {"h": bytes(1 << 20)}}, RecordTooLargeError, ValueError, "max_request_size"),
    ({"topic": ""}, InvalidTopicError, ValueError, "topic"),
    ({"topic": "t" * 250}, InvalidTopicError, ValueError, "249"),
    ({"topic": None}, InvalidTopicError, ValueError, "None"),
    ({"topic": b"orders"}, InvalidTopicError, ValueError, "str"),
    ({"topic": ["orders"]}, InvalidTopicError, ValueError, "str"),
]


@pytest.mark.parametrize("known", [True, False], ids=["topic known", "first send"])
@pytest.mark.parametrize(
    ("changes", "kind", "also", "match"),
    WRONG_RECORDS,
    ids=[str(row[0])[:40] for row in WRONG_RECORDS],
)
async def test_a_record_that_is_wrong(
    orders: MockCluster,
    changes: dict[str, Any],
    kind: type[ProducerError],
    also: type[Exception],
    match: str,
    known: bool,
) -> None:
    record = {"topic": "orders", "value": b"v"} | changes
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        if known:
            await producer.send("orders", b"known", partition=0)
        with pytest.raises(kind, match=match) as raised:
            producer.send(**record)
        assert isinstance(raised.value, also)
        with pytest.raises(kind):
            producer.send(ProducerRecord(**record))
        assert (await producer.send("orders", b"fine", partition=0)).offset == int(known)


@pytest.mark.parametrize("known", [True, False], ids=["topic known", "first send"])
async def test_a_tombstone_is_asked_for(orders: MockCluster, known: bool) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        if known:
            await producer.send("orders", b"known", key=b"k", partition=0)
        for fields in ({}, {"key": b"k"}, {"partition": 0}, {"headers": {"a": b"1"}}):
            with pytest.raises(SerializationError, match=r"no value.*'orders'.*value=None"):
                producer.send("orders", **fields)
        sent = await producer.send("orders", None, key=b"k", partition=0)
        assert (sent.offset, sent.serialized_value_size) == (int(known), -1)
        sent = await producer.send(ProducerRecord("orders", None, b"k", 0), None)
        assert (sent.offset, sent.serialized_value_size) == (int(known) + 1, -1)


async def test_a_partition_out_of_the_known_range(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers, max_block_ms=300) as producer:
        for _ in range(2):  # the topic is not known at first
            late = producer.send("orders", b"v", partition=2)
            beside = producer.send("orders", b"v", partition=1)
            assert (await beside).partition == 1
            with pytest.raises(
                MetadataTimeoutError, match=r"partition 2 of topic 'orders'.*0 to 1"
            ):
                await late


async def test_a_record_over_the_memory_for_batches(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=40_000, batch_size=1000
    ) as producer:
        for _ in range(2):
            with pytest.raises(RecordTooLargeError, match="30000 bytes of the share of buffer_mem"):
                producer.send("orders", bytes(30_000))
            await producer.send("orders", bytes(25_000))


async def test_headers_from_an_iterator(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        pairs: Any = iter([("h", b"1")])
        assert (await producer.send("orders", b"v", headers=pairs)).topic == "orders"


async def test_text_that_is_no_utf8(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        for wrong in ({"value": "\ud800"}, {"key": "\ud800"}, {"headers": {"\ud800": b"v"}}):
            with pytest.raises(SerializationError):
                producer.send("orders", **wrong)
        await producer.send("orders", b"v")
        for wrong in ({"value": "\ud800"}, {"key": "\ud800"}, {"headers": {"\ud800": b"v"}}):
            with pytest.raises(SerializationError):
                producer.send("orders", **wrong)
        assert (await producer.send("orders", b"v")).topic == "orders"


@pytest.mark.parametrize("topic", ["commandes-\ud800", "größe", "bad topic", "a/b", ".", "t\n"])
async def test_a_topic_name_that_no_broker_takes(orders: MockCluster, topic: str) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(InvalidTopicError, match="ASCII"):
            producer.send(topic, b"v")
        report = await producer.send_many(topic, [b"v"])
        assert isinstance(report.first_failure, InvalidTopicError)
        assert (await producer.send("orders", b"v")).topic == "orders"


@pytest.mark.parametrize("topic", ["", "t" * 250, "größe", "bad topic", "..", None, b"orders"])
async def test_partitions_of_what_is_no_topic(topic: Any) -> None:
    async with Producer(bootstrap_servers=NOWHERE) as producer:
        with pytest.raises(InvalidTopicError, match="topic"):
            await producer.partitions_for(topic)


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [
        ("bootstrap_server", "bootstrap_servers"),
        ("lingerms", "linger_ms"),
        ("compresion_type", "compression_type"),
        ("retry_backoff", "retry_backoff_ms"),
    ],
)
def test_an_unknown_option(option: str, suggestion: str) -> None:
    options: dict[str, Any] = {"bootstrap_servers": NOWHERE, option: 1}
    with pytest.raises(ConfigError, match=suggestion) as raised:
        Producer(**options)
    assert isinstance(raised.value, ValueError)


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="enable_idempotence"):
        Producer(bootstrap_servers=NOWHERE, acks="1", enable_idempotence=True)
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Producer()


async def test_a_config_and_options_that_change_it(orders: MockCluster) -> None:
    config = ProducerConfig(bootstrap_servers=NOWHERE, client_id="base")
    producer = Producer(config, bootstrap_servers=orders.bootstrap_servers)
    assert producer.client_id == "base"
    async with producer:
        assert (await producer.send("orders", b"v")).offset == 0
