"""confluent-kafka's Producer and AIOProducer on a real wire: events, callbacks, transactions."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import confluent_kafka as theirs
import pytest

from aioproducer.compat.confluent import (
    AIOProducer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    SerializingProducer,
    TopicPartition,
    aio,
)
from aioproducer.compat.confluent.producer import KeySerializationError, StringSerializer
from aioproducer.foundation import tuning
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_topic
from tests.support.waiting import until

PRODUCE = 0
LEADER_NOT_AVAILABLE = 5
INVALID_TOPIC = 17
TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, topics={"t": 4}) as cluster:
        yield cluster


class Reports:
    """The delivery reports of records, in their order."""

    def __init__(self) -> None:
        self.errors: list[KafkaError | None] = []
        self.messages: list[Message] = []
        self.threads: set[int] = set()

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.errors.append(error)
        self.messages.append(message)
        self.threads.add(threading.get_ident())


def conf(cluster: MockCluster, **options: Any) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return {"bootstrap.servers": cluster.bootstrap_servers, **named}


def test_a_report_says_what_was_sent_and_where_it_is(cluster: MockCluster) -> None:
    reports = Reports()
    with Producer(conf(cluster)) as producer:
        producer.produce(
            "t", "vä", key="k", headers={"a": "b", "n": None}, timestamp=1234, on_delivery=reports
        )
        assert producer.poll(10) == 1
    [message] = reports.messages
    assert reports.errors == [None]
    assert (message.topic(), message.key(), message.value()) == ("t", b"k", "vä".encode())
    assert message.partition() == theirs.consistent(b"k", 4)
    assert (message.offset(), message.error(), message.headers()) == (0, None, None)
    assert 0 < (message.latency() or 0) < 10
    [record] = read_topic(cluster, "t")
    assert record.timestamp_ms == 1234
    assert record.headers == [("a", b"b"), ("n", None)]


def test_callbacks_come_from_poll_alone_and_in_order(cluster: MockCluster) -> None:
    reports = Reports()
    producer = Producer({**conf(cluster), "on_delivery": reports})
    for number in range(1000):
        producer.produce("t", str(number), partition=0)
    assert len(producer) == 1000
    deadline = time.monotonic() + 10
    while not producer._outbox.events and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not reports.messages
    assert producer.flush(10) == 0
    assert len(producer) == 0
    assert [each.value() for each in reports.messages] == [b"%d" % each for each in range(1000)]
    assert [each.offset() for each in reports.messages] == list(range(1000))
    assert reports.threads == {threading.get_ident()}
    producer.close()


def test_an_error_in_a_callback_is_raised_and_the_next_call_goes_on(cluster: MockCluster) -> None:
    told: list[bytes] = []

    def callback(error: object, message: Message) -> None:
        told.append(message.value())
        if message.value() == b"1":
            raise ValueError("mine")

    with Producer(conf(cluster)) as producer:
        for number in range(4):
            producer.produce("t", str(number), partition=0, callback=callback)
        deadline = time.monotonic() + 10
        while not producer._outbox.events and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(ValueError, match="mine"):
            producer.poll()
        assert told == [b"0", b"1"]
        assert len(producer) == 2
        assert producer.flush() == 0
    assert told == [b"0", b"1", b"2", b"3"]


def test_a_callback_may_produce(cluster: MockCluster) -> None:
    told: list[bytes] = []
    producer = Producer(conf(cluster))

    def callback(error: object, message: Message) -> None:
        told.append(message.value())
        if len(told) < 5:
            producer.produce("t", f"{len(told)}", on_delivery=callback)

    producer.produce("t", "0", on_delivery=callback)
    assert producer.flush(10) == 0
    assert told == [b"0", b"1", b"2", b"3", b"4"]
    producer.close()


def test_a_queue_that_nobody_polls_is_full(cluster: MockCluster) -> None:
    producer = Producer(conf(cluster, queue_buffering_max_messages=10))
    for _ in range(10):
        producer.produce("t", "x")
    for _ in range(50):  # delivered or not
        with pytest.raises(BufferError, match="Local: Queue full"):
            producer.produce("t", "x")
        time.sleep(0.002)
    assert producer.flush(10) == 0
    producer.produce("t", "x")
    producer.close()
    producer = Producer(conf(cluster, queue_buffering_max_kbytes=1))
    producer.produce("t", "x" * 1000)
    with pytest.raises(BufferError):
        producer.produce("t", "x" * 100)
    producer.close()


def test_records_are_refused_at_the_call_as_by_the_original(cluster: MockCluster) -> None:
    mine, original = Producer(conf(cluster)), theirs.Producer(conf(cluster))
    for producer in (mine, original):
        producer.produce("t", "x")
        producer.flush()
    for arguments, keywords in (
        ((), {}),
        ((3,), {}),
        (("t", 3), {}),
        (("t", "v"), {"key": 3.0}),
        (("t", "v"), {"partition": "x"}),
        (("t", "v"), {"partition": None}),
        (("t", "v"), {"partition": 9}),
        (("t", "v"), {"partition": -5}),
        (("t", "v"), {"partition": 2**40}),
        (("t", "v"), {"timestamp": 1.5}),
        (("t", b"x" * 2_000_000), {}),
        (("t", "v"), {"headers": 3}),
        (("t", "v"), {"headers": [("a", 1)]}),
        (("t", "v"), {"headers": [["a", "1"]]}),
        (("t", bytearray(b"v")), {}),
        (("t", "\ud800"), {}),
        (("t", "v"), {"bad": 1}),
    ):
        outcomes = []
        for producer in (mine, original):
            with pytest.raises(Exception) as raised:  # noqa: PT011  # the other decides
                producer.produce(*arguments, **keywords)
            error = raised.value
            known = isinstance(error, KafkaException | theirs.KafkaException)
            outcomes.append((error.args[0].code(), error.args[0].str()) if known else type(error))
        assert outcomes[0] == outcomes[1], (arguments, keywords)
    mine.close()


def test_an_unknown_partition_fails_once_the_topic_is_known(cluster: MockCluster) -> None:
    reports = Reports()
    with Producer(conf(cluster)) as producer:
        producer.produce("t", "x", partition=9, on_delivery=reports)
        producer.flush()
    assert reports.errors == [KafkaError._UNKNOWN_PARTITION]
    assert (reports.messages[0].partition(), reports.messages[0].offset()) == (9, None)


@pytest.mark.parametrize("waits", ["for its topic", "for its batch"])
def test_a_partition_that_was_not_named_is_chosen_among_those_that_exist(
    cluster: MockCluster, waits: str
) -> None:
    """The topic had more partitions as the record came: it was made again."""
    reports, key = Reports(), "k"
    with Producer(conf(cluster)) as producer:
        if waits == "for its batch":
            producer.produce("t", "first", partition=0)
            producer.flush()
        former = SimpleNamespace(partitions=[None] * 1_000)
        producer._topics = {"t": former}
        producer.produce("t", "x", key=key, on_delivery=reports)
        producer.flush()
    assert crc32(key.encode()) % 1_000 >= 4
    assert reports.errors == [None]
    assert reports.messages[0].partition() == crc32(key.encode()) % 4


@pytest.mark.parametrize("make", [theirs.Producer, Producer], ids=["theirs", "ours"])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_failed_record_has_its_partition(
    cluster: MockCluster, make: Any, key: str | None, is_known: bool
) -> None:
    reports = Reports()
    producer = make(conf(cluster))
    if is_known:
        producer.produce("t", "x")
        producer.flush(10)
    cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    producer.produce("t", "x", key=key, on_delivery=reports)
    producer.flush(10)
    assert reports.errors == [TOPIC_AUTHORIZATION_FAILED]
    expected = range(4) if key is None else [crc32(key.encode()) % 4]
    assert reports.messages[0].partition() in expected


def test_a_brokers_error_is_reported_with_its_code(cluster: MockCluster) -> None:
    reports = Reports()
    cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    with Producer(conf(cluster)) as producer:
        producer.produce("t", "x", on_delivery=reports)
        producer.flush()
    assert reports.errors == [TOPIC_AUTHORIZATION_FAILED]
    assert "authoriz" in str(reports.errors[0] and reports.errors[0].cause).lower()


def test_records_without_brokers_time_out() -> None:
    reports = Reports()
    producer = Producer({"message.timeout.ms": 50, "socket.timeout.ms": 50})
    producer.produce("t", "x", on_delivery=reports)
    assert producer.flush(0) == 1
    assert producer.flush(10) == 0
    assert reports.errors == [KafkaError._MSG_TIMED_OUT]
    assert producer.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce("t", "x")
    assert producer.close()
    assert len(producer) == 0


def test_purge_gives_up_what_waits_and_what_is_on_its_way(cluster: MockCluster) -> None:
    reports = Reports()
    with Producer(conf(cluster, linger_ms=60_000)) as producer:
        producer.produce("t", "x", on_delivery=reports)
        producer.flush()  # the topic is known
        producer.produce("t", "x", on_delivery=reports)
        producer.produce("other", "x", on_delivery=reports)
        producer.purge(in_queue=False)
        assert producer.poll(0.05) == 0
        producer.purge()
        producer.flush()
    queued = KafkaError._PURGE_QUEUE
    assert reports.errors == [None, queued, queued]
    assert len(read_topic(cluster, "t")) == 1


def test_purge_gives_up_records_in_flight(cluster: MockCluster) -> None:
    reports = Reports()
    with Producer(conf(cluster)) as producer:
        producer.produce("t", "x", on_delivery=reports)
        producer.flush()
        cluster.set_broker_rtt(1, 3_000)
        producer.produce("t", "x", on_delivery=reports)
        deadline = time.monotonic() + 10
        while not producer._worker.core.metrics()["producer-metrics"]["requests-in-flight"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        producer.purge(in_queue=False)
        assert producer.flush(1) == 0
    assert reports.errors == [None, KafkaError._PURGE_INFLIGHT]


def test_flush_does_not_wait_for_linger(cluster: MockCluster) -> None:
    producer = Producer(conf(cluster, linger_ms=60_000))
    for _ in range(3):
        producer.produce("t", "x")
    assert producer.flush(10) == 0
    producer.close()


def test_error_cb_hears_of_brokers_that_are_down() -> None:
    told: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": told.append})
    deadline = time.monotonic() + 10
    while KafkaError._ALL_BROKERS_DOWN not in told and time.monotonic() < deadline:
        producer.poll(0.1)
    assert [each.name() for each in told[:2]] == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]
    assert not told[0].fatal()


def test_stats_cb_gets_json(cluster: MockCluster) -> None:
    told: list[str] = []
    options = conf(cluster, statistics_interval_ms=20, client_id="mine")
    with Producer({**options, "stats_cb": told.append}) as producer:
        producer.produce("t", "x")
        producer.flush()
        told.clear()
        while not told:
            producer.poll(1)
    counts = json.loads(told[0])
    assert (counts["client_id"], counts["type"], counts["txmsgs"]) == ("mine", "producer", 1)
    assert counts["topics"]["t"]["txmsgs"] == 1


def test_list_topics_describes_the_cluster(cluster: MockCluster) -> None:
    with Producer(conf(cluster)) as producer:
        found = producer.list_topics(timeout=10)
        original = theirs.Producer(conf(cluster)).list_topics(timeout=10)
        assert found.cluster_id == original.cluster_id == producer.cluster_id()
        assert {each: str(it) for each, it in found.brokers.items()} == {
            each: str(it) for each, it in original.brokers.items()
        }
        assert repr(found.topics) == repr(original.topics)
        mine, its = found.topics["t"].partitions, original.topics["t"].partitions
        for number in its:
            assert (mine[number].leader, mine[number].replicas, mine[number].isrs) == (
                its[number].leader,
                its[number].replicas,
                its[number].isrs,
            )


def test_a_collected_producer_ends_its_thread(cluster: MockCluster) -> None:
    producer = Producer(conf(cluster))
    thread = producer._worker._thread
    del producer
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_transactions(cluster: MockCluster) -> None:
    reports = Reports()
    with Producer(conf(cluster, transactional_id="tx")) as producer:
        for call in (producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(KafkaException) as raised:
                call()
            assert raised.value.args[0] == KafkaError._STATE
        producer.init_transactions(10)
        with pytest.raises(KafkaException) as raised:
            producer.produce("t", "outside")
        assert raised.value.args[0] == KafkaError._STATE
        producer.begin_transaction()
        for number in range(10):
            producer.produce("t", str(number), key=str(number), on_delivery=reports)
        offsets = [TopicPartition("t", 0, 4)]
        consumer = theirs.Consumer({"group.id": "g"})
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        consumer.close()
        producer.commit_transaction()
        assert reports.errors == [None] * 10
        producer.begin_transaction()
        producer.produce("other", "aborted", on_delivery=reports)
        producer.abort_transaction()
        assert reports.errors[10:] == [KafkaError._PURGE_QUEUE]
        producer.begin_transaction()
        producer.commit_transaction()


def test_a_transactional_call_that_is_late_is_repeated() -> None:
    producer = Producer({"transactional.id": "tx"})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(0.1)
    error = raised.value.args[0]
    assert (error.name(), error.retriable(), error.fatal()) == ("_TIMED_OUT", True, False)
    with pytest.raises(KafkaException) as raised:
        producer.begin_transaction()
    assert raised.value.args[0] == KafkaError._CONFLICT
    assert raised.value.args[0].retriable()
    producer.close()
    with pytest.raises(KafkaException) as raised:
        Producer({}).begin_transaction()
    assert raised.value.args[0] == KafkaError._NOT_CONFIGURED


def refusal(call: Any, *arguments: Any) -> Any:
    """The error that ``call`` raises."""
    with pytest.raises((KafkaException, theirs.KafkaException)) as raised:
        call(*arguments)
    return raised.value.args[0]


@pytest.mark.parametrize("make", [theirs.Producer, Producer], ids=["theirs", "ours"])
def test_a_transactional_call_that_has_failed_is_not_repeated(
    cluster: MockCluster, make: Any
) -> None:
    cluster.create_topic("unknown")
    cluster.set_topic_error("unknown", 3)
    producer = make(
        conf(cluster, transactional_id="tx", topic_metadata_propagation_max_ms=1500, linger_ms=0)
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("unknown", "x")
    late = refusal(producer.commit_transaction, 0.1)
    assert (late.name(), late.retriable()) == ("_TIMED_OUT", True)
    assert refusal(producer.abort_transaction).name() == "_CONFLICT"
    assert producer.flush(10) == 0
    assert refusal(producer.commit_transaction).txn_requires_abort()
    producer.abort_transaction(10)
    producer.begin_transaction()
    producer.produce("t", "later")
    producer.commit_transaction(10)


@pytest.mark.parametrize("make", [theirs.Producer, Producer], ids=["theirs", "ours"])
def test_offsets_that_are_late_leave_the_choice_to_abort(cluster: MockCluster, make: Any) -> None:
    producer = make(conf(cluster, transactional_id="tx"))
    producer.init_transactions(10)
    producer.begin_transaction()
    consumer = theirs.Consumer({"group.id": "g"})
    group = consumer.consumer_group_metadata()
    consumer.close()
    cluster.set_broker_rtt(1, 500)
    offsets = [theirs.TopicPartition("t", 0, 4)]
    late = refusal(producer.send_offsets_to_transaction, offsets, group, 0.1)
    assert (late.name(), late.retriable()) == ("_TIMED_OUT", True)
    producer.abort_transaction(10)
    cluster.set_broker_rtt(1, 0)
    producer.begin_transaction()
    producer.commit_transaction(10)


def test_a_batch_notes_the_records_that_the_queue_has_refused(cluster: MockCluster) -> None:
    reports = Reports()
    with Producer(conf(cluster, queue_buffering_max_messages=2)) as producer:
        messages: list[dict[str, Any]] = [{"value": "a"}, {"value": b"b", "key": "k"}, {}]
        assert producer.produce_batch("t", messages, on_delivery=reports) == 2
        assert "_error" not in messages[0]
        assert messages[2]["_error"] == KafkaError._QUEUE_FULL
        with pytest.raises(TypeError, match="index 1"):
            producer.produce_batch("t", [{}, 3])  # type: ignore[list-item]
    assert reports.errors == [None, None]


def test_serializers_get_the_record_and_the_field(cluster: MockCluster) -> None:
    seen: list[tuple[str, str]] = []

    def serialize(value: Any, context: Any) -> bytes:
        seen.append((context.topic, context.field))
        return f"<{value}>".encode()

    reports = Reports()
    options = {"key.serializer": StringSerializer(), "value.serializer": serialize}
    with SerializingProducer({**conf(cluster), **options}) as producer:
        producer.produce("t", key="k", value=7, on_delivery=reports)
    assert seen == [("t", "value")]
    assert (reports.messages[0].key(), reports.messages[0].value()) == (b"k", b"<7>")
    failing = {"key.serializer": lambda *_: 1 // 0}
    with (
        SerializingProducer({**conf(cluster), **failing}) as producer,
        pytest.raises(KeySerializationError) as raised,
    ):
        producer.produce("t", key="k")
    assert raised.value.code == KafkaError._KEY_SERIALIZATION
    assert isinstance(raised.value.exception, ZeroDivisionError)


@pytest.mark.parametrize("make", [theirs.Producer, Producer], ids=["theirs", "ours"])
def test_poll_and_flush_in_a_callback_end_when_their_time_is_over(
    cluster: MockCluster, make: Any
) -> None:
    """One record: confluent-kafka's process aborts if another callback follows a nested call."""
    seen: list[int] = []

    def delivered(_: object, message: object) -> None:
        seen.extend((producer.poll(0), producer.flush(0.01), len(producer)))

    producer = make(conf(cluster))
    producer.produce("t", b"v", on_delivery=delivered)
    assert producer.flush() == 0
    assert seen == [0, 1, 1]


def test_a_callback_does_not_wait_for_its_own_record_without_limit(cluster: MockCluster) -> None:
    """confluent-kafka's waits for ever."""
    seen: list[object] = []

    def delivered(_: object, message: Message) -> None:
        for call in (producer.flush, producer.close):
            with pytest.raises(KafkaException, match="its own record") as raised:
                call()
            seen.append((message.value(), raised.value.args[0].code()))

    with Producer(conf(cluster)) as producer:
        for value in (b"1", b"2"):
            producer.produce("t", value, partition=0, on_delivery=delivered)
        assert producer.flush() == 0
    assert seen == [(value, KafkaError._STATE) for value in (b"1", b"1", b"2", b"2")]


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
            for partition in (9, -5):
                lost = await producer.produce("t", "x", partition=partition)
                with pytest.raises(KafkaException) as raised:
                    await lost
                assert raised.value.args[0] == KafkaError._UNKNOWN_PARTITION


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_record_that_no_batch_can_hold_fails_alone(is_known: bool) -> None:
    async with (
        MockCluster(brokers=1, topics={"t": 1}) as cluster,
        AIOProducer({"bootstrap.servers": cluster.bootstrap_servers}) as producer,
    ):
        if is_known:
            await (await producer.produce("t", "x"))
        with pytest.raises(OverflowError):
            await producer.produce("t", "x", timestamp=2**63)
        with pytest.raises(UnicodeEncodeError):
            await producer.produce("t", "x", headers={"\ud800": b""})
        for topic in ("\ud800", "a b"):
            with pytest.raises(KafkaException) as raised:
                await (await producer.produce(topic, "x"))
            assert raised.value.args[0] == INVALID_TOPIC
        last = await (await producer.produce("t", "x", timestamp=2**63 - 1))
        assert last.offset() == is_known


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


@pytest.mark.parametrize("topic", ["t", "unknown"])
async def test_a_transaction_without_its_purged_records_is_not_committed(topic: str) -> None:
    async with MockCluster(brokers=1, topics={"t": 1}) as cluster:
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "tx",
            "linger.ms": 50_000,
        }
        async with AIOProducer(options) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.produce("t", "kept")
            await producer.flush()
            future = await producer.produce(topic, "purged")
            await producer.purge()
            with pytest.raises(KafkaException, match="Purged in queue"):
                await future
            with pytest.raises(KafkaException) as raised:
                await producer.commit_transaction()
            assert raised.value.args[0].txn_requires_abort()
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.produce("t", "later")
            await producer.commit_transaction()


async def test_without_servers_nobody_is_asked() -> None:
    async with AIOProducer({"message.timeout.ms": 400, "transactional.id": "tx"}) as producer:
        with pytest.raises(KafkaException) as raised:
            await producer.init_transactions(0.1)
        assert raised.value.args[0] == KafkaError._TIMED_OUT
        assert raised.value.args[0].retriable()
        with pytest.raises(KafkaException, match="described the cluster") as raised:
            await producer.list_topics(timeout=0.1)
        assert raised.value.args[0] == KafkaError._TRANSPORT
        assert producer._core.engine.client.connections() == []
    async with AIOProducer({"message.timeout.ms": 200}) as producer:
        future = await producer.produce("t", "x")
        with pytest.raises(KafkaException) as raised:
            await future
        assert raised.value.args[0] == KafkaError._MSG_TIMED_OUT
        assert producer._core.engine.client.connections() == []


@pytest.mark.parametrize("how", ["does not exist", "late", "purged", "cancelled", "refused"])
async def test_records_of_unknown_topics_are_seen_as_those_of_all_producers(how: str) -> None:
    async with MockCluster(brokers=1, topics={"late": 1}) as cluster:
        cluster.set_topic_error("late", 29 if how == "refused" else 3)
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "message.timeout.ms": 300 if how == "late" else 60_000,
            "topic.metadata.propagation.max.ms": 300 if how == "does not exist" else 30_000,
        }
        async with AIOProducer(options) as producer:
            await producer.list_topics()
            future = await producer.produce("late", "x")
            health = producer._core.health()
            assert health.pending_records == len(producer) == 1
            if how == "purged":
                await producer.purge()
            elif how == "cancelled":
                future.cancel()
            await asyncio.wait([future])
            await until(lambda: not producer._core.health().pending_records)
            assert len(producer) == 0
            expected, metrics = how != "cancelled", producer._core.metrics
            await until(lambda: metrics()["producer-metrics"]["record-error-total"] == expected)
            if how != "cancelled":
                error = future.exception()
                assert isinstance(error, KafkaException)
                code = error.args[0].name()
                assert (
                    code
                    == {
                        "does not exist": "_UNKNOWN_TOPIC",
                        "late": "_MSG_TIMED_OUT",
                        "purged": "_PURGE_QUEUE",
                        "refused": "TOPIC_AUTHORIZATION_FAILED",
                    }[how]
                )


async def test_only_a_broker_tells_that_a_topic_does_not_exist_and_each_time_anew() -> None:
    async with MockCluster(brokers=1, topics={"late": 1}) as cluster:
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "topic.metadata.propagation.max.ms": 200,
        }
        async with AIOProducer(options) as producer:
            cluster.set_topic_error("late", 3)
            for _ in range(2):
                future = await producer.produce("late", "x")
                with pytest.raises(KafkaException) as raised:
                    await asyncio.wait_for(future, 10)
                assert raised.value.args[0] == KafkaError._UNKNOWN_TOPIC
        cluster.set_topic_error("late", LEADER_NOT_AVAILABLE)
        async with AIOProducer(options) as producer:
            future = await producer.produce("late", "x")
            await asyncio.wait([future], timeout=0.8)
            assert not future.done()
            cluster.set_topic_error("late", 0)
            assert (await future).offset() == 0


async def test_records_of_a_topic_that_does_not_exist_fail_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "RECORDS_PER_SLICE", 1)
    async with MockCluster(brokers=1, topics={"late": 1}) as cluster:
        cluster.set_topic_error("late", 3)
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "topic.metadata.propagation.max.ms": 200,
        }
        async with AIOProducer(options) as producer:
            first, second = [await producer.produce("late", "x") for _ in range(2)]
            was_done: list[bool] = []
            first.add_done_callback(lambda _: was_done.append(second.done()))
            for future in (first, second):
                with pytest.raises(KafkaException) as raised:
                    await future
                assert raised.value.args[0] == KafkaError._UNKNOWN_TOPIC
            assert was_done == [False]


async def test_a_record_without_a_transaction_has_an_error() -> None:
    async with MockCluster(brokers=1, topics={"t": 1}) as cluster:
        options = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "tx"}
        async with AIOProducer(options) as producer:
            await producer.init_transactions()
            for _ in range(2):  # the topic is unknown at first
                with pytest.raises(KafkaException) as raised:
                    await asyncio.wait_for(await producer.produce("t", "x"), 10)
                assert raised.value.args[0] == KafkaError._STATE
                await producer.begin_transaction()
                await producer.produce("t", "x")
                await producer.commit_transaction()


@pytest.mark.parametrize("how", ["purged", "late"])
async def test_a_cancelled_future_of_an_unknown_topic_harms_no_other(how: str) -> None:
    async with MockCluster(brokers=1, topics={"t": 1, "late": 1}) as cluster:
        cluster.set_topic_error("late", 3)
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "topic.metadata.propagation.max.ms": 300,
        }
        async with AIOProducer(options) as producer:
            cancelled = await producer.produce("late", "x")
            other = await producer.produce("late", "y")
            cancelled.cancel()
            if how == "purged":
                await producer.purge()
            with pytest.raises(KafkaException):
                await other
            future = await producer.produce("t", "z")
            assert (await future).offset() == 0


async def test_a_commit_waits_for_records_of_a_topic_that_is_not_known_yet() -> None:
    async with MockCluster(brokers=1, topics={"late": 1}) as cluster:
        cluster.set_topic_error("late", 3)
        options = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "tx"}
        async with AIOProducer(options) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            future = await producer.produce("late", "x")
            with pytest.raises(KafkaException, match="1 message") as raised:
                await producer.commit_transaction(0.2)
            assert raised.value.args[0] == KafkaError._TIMED_OUT
            assert raised.value.args[0].retriable()
            cluster.set_topic_error("late", 0)
            await producer.commit_transaction(10)
            assert future.done()
            assert (await future).offset() == 0


@pytest.mark.parametrize(
    ("limit", "most"),
    [({"queue.buffering.max.messages": 10}, 10), ({"queue.buffering.max.kbytes": 1}, 6)],
)
@pytest.mark.parametrize("how", ["purged", "late", "known"])
async def test_a_queue_of_records_that_wait_for_their_topics_is_full(
    limit: dict[str, int], most: int, how: str
) -> None:
    """A record counts for the bytes of its batch: 182."""
    async with MockCluster(brokers=1, topics={"late": 1}) as cluster:
        cluster.set_topic_error("late", 3)
        options: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, **limit}
        if how == "late":
            options["message.timeout.ms"] = 300
        async with AIOProducer(options) as producer:
            for _ in range(2):  # the second time there is room again
                futures = [await producer.produce("late", b"x" * 99, key=b"k") for _ in range(12)]
                assert len(producer) == most
                for full in futures[most:]:
                    with pytest.raises(KafkaException) as raised:
                        await full
                    assert raised.value.args[0] == KafkaError._QUEUE_FULL
                if how == "purged":
                    await producer.purge()
                elif how == "known":
                    cluster.set_topic_error("late", 0)
                    await asyncio.gather(*futures[:most])
                    break
                await asyncio.wait(futures)
                assert len(producer) == 0


@pytest.mark.parametrize("ways", [{}, {"headers": {"a": "b"}}, {"transactional": True}])
async def test_the_time_of_a_record_begins_with_its_produce(ways: dict[str, Any]) -> None:
    """It has waited for its topic; with a transaction it must not outlast that."""
    async with MockCluster(brokers=1, topics={"late": 1}) as cluster:
        cluster.set_topic_error("late", 3)
        transactional = ways.get("transactional", False)
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 20_000,
            "transactional.id": "tx" if transactional else None,
        }
        async with AIOProducer(options) as producer:
            await producer.list_topics()
            if transactional:
                await producer.init_transactions()
                await producer.begin_transaction()
            engine = producer._core.engine
            before = engine.clock()
            future = await producer.produce("late", "x", headers=ways.get("headers"))
            after = engine.clock()
            await asyncio.sleep(0.3)
            cluster.set_broker_rtt(1, 300)  # so a batch is seen before its response
            cluster.set_topic_error("late", 0)
            batches = engine.accumulator.batches
            await until(lambda: len(batches))
            [batch] = batches
            assert before - 0.001 < batches.sent_since(batch) < after + 0.001
            assert batches.next_expiry == batch.deadline
            if transactional:
                await producer.commit_transaction(10)
            else:
                await producer.flush()
            assert (await future).offset() == 0


async def test_a_step_of_the_wall_clock_makes_no_record_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    an_hour_ns = 3600 * 1_000_000_000
    monkeypatch.setattr(aio, "time_ns", lambda: time.time_ns() - an_hour_ns)
    async with MockCluster(brokers=1, topics={"late": 1}) as cluster:
        cluster.set_topic_error("late", 3)
        options = {"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 30_000}
        async with AIOProducer(options) as producer:
            future = await producer.produce("late", "x")
            assert await producer.flush(0.5) == 1
            cluster.set_topic_error("late", 0)
            assert (await future).offset() == 0


async def test_the_timeout_of_a_commit_includes_its_flush() -> None:
    async with MockCluster(brokers=1, topics={"t": 1}) as cluster:
        options = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "tx"}
        async with AIOProducer(options) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.produce("t", "x")
            assert await producer.flush() == 0
            await producer.produce("t", "y")
            cluster.set_broker_rtt(1, 400)
            with pytest.raises(KafkaException) as raised:  # a response to each of two requests
                await producer.commit_transaction(0.6)
            assert raised.value.args[0] == KafkaError._TIMED_OUT
            assert raised.value.args[0].retriable()
            cluster.set_broker_rtt(1, 0)
            await producer.commit_transaction(10)


async def test_knobs_of_workers_have_no_effect_and_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "aioproducer.compat.confluent")
    producer = AIOProducer({}, max_workers=2, batch_size=1)
    await producer.close()
    assert [each.getMessage().split(" have")[0] for each in caplog.records] == [
        "max_workers, executor, batch_size and buffer_timeout"
    ]


async def test_close_ends_a_producer_that_is_broken() -> None:
    handlers = logging.getLogger("aioproducer").handlers
    before = [*handlers]
    async with MockCluster(brokers=1, topics={"t": 1}) as cluster:
        options = {"bootstrap.servers": cluster.bootstrap_servers}
        producer = AIOProducer({**options, "logger": logging.getLogger("mine")})
        assert len(handlers) == len(before) + 1
        await (await producer.produce("t", "x"))
        producer._core.part_died(ValueError("a part has died"))
        with pytest.raises(KafkaException, match="is broken"):
            await producer.close()
        assert handlers == before
        assert str(producer._core.lifecycle) == "broken"
        assert producer._core.lifecycle.closed
        await producer.close()
        with pytest.raises(RuntimeError, match="closed"):
            await producer.produce("t", "x")


async def test_a_cancelled_close_gives_up_no_record() -> None:
    async with MockCluster(brokers=1, topics={"t": 1}) as cluster:
        producer = AIOProducer({"bootstrap.servers": cluster.bootstrap_servers})
        await (await producer.produce("t", "x"))
        cluster.set_broker_rtt(1, 300)
        future = await producer.produce("t", "y")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert (await future).offset() == 1
        await producer.close()


async def test_a_record_that_comes_while_another_task_closes_has_an_outcome() -> None:
    async with MockCluster(brokers=1, topics={"t": 1, "late": 1}) as cluster:
        cluster.set_topic_error("late", 3)
        producer = AIOProducer({"bootstrap.servers": cluster.bootstrap_servers})
        await (await producer.produce("t", "x"))
        cluster.set_broker_rtt(1, 300)
        first = await producer.produce("t", "y")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        second = await producer.produce("late", "z")
        await closing
        assert (await first).offset() == 1
        async with asyncio.timeout(10):
            with pytest.raises(KafkaException) as raised:
                await second
        assert raised.value.args[0] == KafkaError._DESTROY


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
