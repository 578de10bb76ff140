"""The blocking shell on a real wire: complete, in order, from any thread, also in transactions."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from aioproducer.errors import (
    BootstrapError,
    BufferExhaustedError,
    CommitUnconfirmedError,
    IllegalStateError,
    InvalidPartitionError,
    InvalidTopicError,
    MetadataTimeoutError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerFencedError,
    ProducerTimeoutError,
    SerializationError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from aioproducer.model import ProducerRecord, TopicPartition
from aioproducer.sync import Producer
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.support.read_back import read_topic

PRODUCE = 0
UNKNOWN_TOPIC, TOPIC_AUTHORIZATION_FAILED = 3, 29


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 6)
    return mock_cluster


def read(cluster: MockCluster, count: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, key and value of ``count`` records, each partition in its order; no more come."""
    records = [(each.partition, each.key, each.value) for each in read_topic(cluster, "orders")]
    assert len(records) == count
    return records


def test_eight_threads_in_order(cluster: MockCluster) -> None:
    def send(thread: int) -> None:
        futures = [
            producer.send("orders", b"%d:%d" % (thread, number), key=b"%d" % (number % 50))
            for number in range(20_000)
        ]
        for future in futures:
            assert future.result(60).offset >= 0

    with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        ThreadPoolExecutor(8) as threads,
    ):
        list(threads.map(send, range(8)))
    by_key = defaultdict(list)
    for _, key, value in read(cluster, 160_000):
        assert value is not None
        thread, number = map(int, value.split(b":"))
        by_key[thread, key].append(number)
    for (_, key), numbers in by_key.items():
        assert key is not None
        assert numbers == list(range(int(key), 20_000, 50))


def test_threads_that_take_turns_keep_their_order(cluster: MockCluster) -> None:
    turn, futures = threading.Lock(), []

    def send(_: int) -> None:
        for _ in range(500):
            with turn:
                futures.append(producer.send("orders", b"v", partition=3))
            time.sleep(0)  # the next record is another thread's

    with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        ThreadPoolExecutor(4) as threads,
    ):
        list(threads.map(send, range(4)))
    assert [future.result(0).offset for future in futures] == list(range(2_000))


def test_one_record(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        metadata = producer.send("orders", "v", key="k", partition=4, headers={"h": b"1"}).result(5)
        assert (metadata.topic, metadata.partition, metadata.offset) == ("orders", 4, 0)
        record = ProducerRecord("orders", b"w", partition=5)
        assert producer.send(record).result(5).partition == 5
        with pytest.raises(InvalidPartitionError):
            producer.send("orders", b"x", partition=-1).result(5)
        assert producer.metrics()
    assert sorted(read(cluster, 2)) == [(4, b"k", b"v"), (5, None, b"w")]


def test_partitions_of_a_topic(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=2_000) as producer:
        assert producer.partitions_for("orders") == (0, 1, 2, 3, 4, 5)
        infos = producer.partition_infos_for("orders")
        assert [each.partition for each in infos] == [0, 1, 2, 3, 4, 5]
        beyond = producer.send("orders", b"x", partition=17)
        assert isinstance(beyond.exception(10), MetadataTimeoutError)
        with pytest.raises(InvalidTopicError):
            producer.partitions_for("")
        cluster.create_topic("nope")
        cluster.set_topic_error("nope", UNKNOWN_TOPIC)
        with pytest.raises(MetadataTimeoutError, match="'nope'"):
            producer.partitions_for("nope")
    with pytest.raises(ProducerClosedError):
        producer.partitions_for("orders")


def test_a_check_says_what_is_there_and_raises_what_is_wrong(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        found = producer.check(60, topics=["orders"])
        assert found.topics["orders"].partitions == 6
        cluster.set_broker_down(ALL_BROKERS)
        with pytest.raises(BootstrapError, match="did not reach"):
            producer.check(0.5, topics=["orders"])


def test_flush_waits_for_all_before_it(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000) as producer:
        futures = [producer.send("orders", b"%d" % number) for number in range(5000)]
        producer.flush(20)
        assert all(future.done() for future in futures)
        assert {future.result().offset >= 0 for future in futures} == {True}


def test_send_many(cluster: MockCluster) -> None:
    def values() -> Iterable[Any]:
        for number in range(30_000):
            yield b"%d" % number
        yield object()
        yield ProducerRecord("orders", b"keyed", b"k")

    with Producer(bootstrap_servers=cluster.bootstrap_servers, buffer_memory=1 << 20) as producer:
        report = producer.send_many("orders", values())
        assert (report.delivered, report.failed, report.sent) == (30_001, 1, 30_002)
        assert isinstance(report.first_failure, SerializationError)
        assert sum(place.count for place in report.ranges.values()) == 30_001
        assert producer.send_many("orders", []).sent == 0
    read(cluster, 30_001)


def test_failures_are_in_the_future(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"1").result(5)
        cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
        error = producer.send("orders", b"2").exception(5)
        assert type(error).__name__ == "TopicAuthorizationFailedError"
        assert producer.send("orders", b"3").result(5)


def test_full_memory_blocks_and_then_goes_on(cluster: MockCluster) -> None:
    cluster.set_broker_rtt(ALL_BROKERS, 100)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, buffer_memory=200_000) as producer:
        began = time.monotonic()
        futures = [producer.send("orders", b"x" * 1000) for _ in range(1000)]
        assert time.monotonic() - began > 0.2, "nothing has blocked"
        for future in futures:
            future.result(20)


def test_send_blocks_for_max_block_ms(cluster: MockCluster) -> None:
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, buffer_memory=200_000, max_block_ms=2_000
    ) as producer:
        producer.send("orders", b"1").result(5)
        cluster.set_broker_rtt(ALL_BROKERS, 10_000)
        sent = 0
        with pytest.raises(BufferExhaustedError):  # noqa: PT012
            for _ in range(1000):
                began = time.monotonic()
                producer.send("orders", b"x" * 1000)
                sent += 1
        assert 1.6 < time.monotonic() - began < 20
        assert sent < 200
        producer.close(0)


def test_cancelling_tells_the_truth(cluster: MockCluster) -> None:
    """Whoever wins the race: what was cancelled is not in the log, everything else is."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        futures = []
        cancelled = set()
        for number in range(20_000):
            futures.append(producer.send("orders", b"%d" % number))
            if number % 3 == 0 and futures[-1].cancel():
                cancelled.add(number)
        producer.flush()
        for number, future in enumerate(futures):
            assert future.cancelled() == (number in cancelled)
            assert future.done()
    values = {int(value or b"") for _, _, value in read(cluster, 20_000 - len(cancelled))}
    assert values == set(range(20_000)) - cancelled


def test_callbacks_may_send(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, buffer_memory=200_000) as producer:
        done = threading.Event()
        errors: list[BaseException] = []

        def again(number: int) -> Callable[[object], None]:
            def callback(_: object) -> None:
                if number == 0:
                    done.set()
                    return
                producer.send("orders", b"again").add_done_callback(again(number - 1))

            return callback

        producer.send("orders", b"first").add_done_callback(again(20))
        assert done.wait(10)

        def flood(_: object) -> None:
            try:
                for _ in range(10_000):
                    producer.send("orders", b"x" * 1000)
            except BufferExhaustedError as error:
                errors.append(error)

        producer.send("orders", b"last").add_done_callback(flood)
        producer.flush(10)
        producer.flush(10)
        assert len(errors) == 1


def test_a_callback_that_exits_breaks_the_producer(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"1").add_done_callback(lambda _: sys.exit(3))
        with pytest.raises(ProducerBrokenError):  # noqa: PT012
            while True:
                producer.send("orders", b"2").result(5)


def test_a_wsgi_app(cluster: MockCluster) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        metadata = producer.send("orders", environ["PATH_INFO"].encode()).result(10)
        start_response("200 OK", [])
        return [b"%d" % metadata.offset]

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    def get(number: int) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{number}") as answer:
            return bytes(answer.read())

    with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        make_server("127.0.0.1", 0, app, Server, Quiet) as server,
        ThreadPoolExecutor(16) as clients,
    ):
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        assert all(int(answer) >= 0 for answer in clients.map(get, range(200)))
        server.shutdown()
        serving.join()
    assert {value for _, _, value in read(cluster, 200)} == {b"/%d" % n for n in range(200)}


async def test_in_the_thread_of_another_loop(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        futures = [producer.send("orders", b"%d" % number) for number in range(100)]
        producer.flush(10)
        assert (await asyncio.wrap_future(futures[0])).offset >= 0
        assert (await asyncio.wrap_future(producer.send("orders", b"more"))).offset >= 0
        assert len(list(as_completed(futures, 5))) == 100


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_interpreters_exit_delivers_what_is_there(
    cluster: MockCluster, compression: str
) -> None:
    script = f"""
import os
from aioproducer.sync import Producer
servers = {cluster.bootstrap_servers!r}
producer = Producer(bootstrap_servers=servers, compression_type={compression!r})
producer.start()
for number in range(5000):
    producer.send("orders", os.urandom(150).hex())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")
    read(cluster, 5000)


def test_a_forked_child_leaves_the_parents_producer_alone(cluster: MockCluster) -> None:
    script = f"""
import gc, os, sys
from aioproducer.sync import Producer
with Producer(bootstrap_servers={cluster.bootstrap_servers!r}) as producer:
    producer.send("orders", b"before").result(5)
    child = os.fork()
    if not child:
        with Producer(bootstrap_servers={cluster.bootstrap_servers!r}) as own:
            own.send("orders", b"child").result(5)
        del producer
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    producer.send("orders", b"after").result(5)
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, b""), os.fsdecode(done.stderr)
    assert {value for _, _, value in read(cluster, 3)} == {b"before", b"child", b"after"}


END_TXN = 26
PRODUCER_FENCED = 90


def transactional(cluster: MockCluster) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="t")


def test_everything_sent_in_the_block_is_delivered_at_its_end(cluster: MockCluster) -> None:
    with transactional(cluster) as mine:
        with mine.transaction():
            futures = [mine.send("orders", b"%d" % number) for number in range(10_000)]
        assert all(future.done() for future in futures)
        assert {future.result().topic for future in futures} == {"orders"}


def fail_in_a_transaction(mine: Producer) -> None:
    with mine.transaction():
        mine.send("orders", b"v")
        raise ValueError("mine")


def test_an_exception_aborts_and_goes_on(cluster: MockCluster) -> None:
    with transactional(cluster) as mine:
        with pytest.raises(ValueError, match="mine"):
            fail_in_a_transaction(mine)
        with mine.transaction():
            assert mine.send("orders", b"v").result(10).offset >= 0


def test_the_explicit_calls(cluster: MockCluster) -> None:
    with transactional(cluster) as mine:
        mine.init_transactions()
        mine.begin_transaction()
        future = mine.send("orders", b"v")
        mine.send_offsets_to_transaction({("orders", 0): 5}, "group")
        mine.commit_transaction()
        assert future.result(0).offset >= 0
        mine.begin_transaction()
        mine.send("orders", b"v")
        mine.abort_transaction(timeout=10)
        assert mine.metrics()["producer-metrics"]["txn-commit-time-ns-total"] > 0


def test_no_end_of_a_transaction_waits_longer_for_room(cluster: MockCluster) -> None:
    """Records that wait for the memory of a broker that is down are discarded by an abort."""
    futures: list[Any] = []
    aborted = threading.Event()
    cluster.set_coordinator("transaction", "t", 2)
    cluster.set_partition_leader("orders", 0, 1)
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id="t",
        buffer_memory=3_200_000,
        delivery_timeout_ms=60_000,
        request_timeout_ms=1_000,
        max_block_ms=20_000,
    ) as mine:
        mine.partitions_for("orders")
        cluster.set_broker_down(1)
        mine.begin_transaction()

        def send() -> None:
            while not aborted.is_set():
                futures.append(mine.send("orders", b"v" * 1_000, partition=0))

        with ThreadPoolExecutor(1) as threads:
            sending = threads.submit(send)
            sent = -1
            while sent < len(futures):
                sent = len(futures)
                time.sleep(0.3)
            began = time.monotonic()
            with pytest.raises(CommitUnconfirmedError, match=r"not begun within 1 s.*for memory"):
                mine.commit_transaction(timeout=1)
            committing = time.monotonic() - began
            began = time.monotonic()
            mine.abort_transaction(timeout=10)
            took = time.monotonic() - began
            aborted.set()
            sending.result(10)
        assert committing < 5
        assert took < 5
        errors = [type(future.exception(10)) for future in futures]
        assert errors[:sent] == [TransactionAbortedError] * sent
        cluster.set_broker_up(1)
        with mine.transaction():
            assert mine.send("orders", b"w", partition=0).result(10).offset >= 0


def test_misuse(cluster: MockCluster) -> None:
    with transactional(cluster) as mine:
        with pytest.raises(IllegalStateError, match="no transaction is open; begin_transaction"):
            mine.send("orders", b"v").result(10)
        with pytest.raises(IllegalStateError, match="can't commit, no transaction is open"):
            mine.commit_transaction()
        with mine.transaction(), pytest.raises(IllegalStateError, match="not begun for others"):
            mine.transaction_handle()


def test_another_producer_takes_part(cluster: MockCluster) -> None:
    with transactional(cluster) as mine, mine.transaction(shared=True):
        handle = mine.transaction_handle()
        with Producer(bootstrap_servers=cluster.bootstrap_servers, transaction=handle) as other:
            future = other.send("orders", b"v")
        assert future.result(0).offset >= 0


def test_a_transaction_is_handed_over(cluster: MockCluster) -> None:
    cluster.start_request_tracking()
    with transactional(cluster) as mine:
        mine.begin_transaction(shared=True)
        future = mine.send("orders", b"v")
        handle = mine.transaction_handle(hand_over=True)
    assert future.result(0).offset >= 0
    assert END_TXN not in {each.api_key for each in cluster.requests()}
    with Producer(bootstrap_servers=cluster.bootstrap_servers, transaction=handle) as other:
        other.commit_transaction()
    assert END_TXN in {each.api_key for each in cluster.requests()}


def test_committed_offsets_that_can_t_be_known(cluster: MockCluster) -> None:
    """The mock cluster answers OffsetFetch up to version 6 only, without open transactions."""
    with transactional(cluster) as mine:
        assert mine.committed_offsets("readers", []) == {}
        with pytest.raises(UnsupportedVersionError, match="too old to exclude offsets"):
            mine.committed_offsets("readers", [TopicPartition("orders", 0)])
        with mine.transaction():
            mine.send("orders", b"v")


def test_a_fenced_producer_says_so(cluster: MockCluster) -> None:
    with transactional(cluster) as mine:
        cluster.push_request_errors(END_TXN, PRODUCER_FENCED)
        with pytest.raises(ProducerFencedError, match="'t'"), mine.transaction():
            mine.send("orders", b"v")
        with pytest.raises(ProducerFencedError, match="close the producer"):
            mine.begin_transaction()


def test_no_broker_within_max_block_ms(cluster: MockCluster) -> None:
    cluster.set_broker_down(ALL_BROKERS)
    mine = Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="t", max_block_ms=300
    )
    with pytest.raises(ProducerTimeoutError, match=r"init_transactions.* within 0.3 s"):
        mine.start()
