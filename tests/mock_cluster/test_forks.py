"""A fork beside running producers: the parent's records stay the parent's, and nothing hangs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from aioproducer.testing import read_back_sync
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import values

PATIENCE = 60.0

PRELUDE = """
    import asyncio, json, os, signal, sys, threading, time, warnings
    from aioproducer import Producer, sync
    from aioproducer.errors import WrongLoopError

    warnings.simplefilter("ignore", DeprecationWarning)
    servers, topic, how = sys.argv[1:]
    quick = dict(bootstrap_servers=servers, linger_ms=300)

    def forked():
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a child that hangs ends by it, and the parent tells
        return child

    def ended(child, options=0):
        pid, status = os.waitpid(child, options)
        return os.waitstatus_to_exitcode(status) if pid else None
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as cluster:
        yield cluster


def run(cluster: MockCluster, script: str, topic: str, how: str = "") -> Any:
    """What the script prints last, as JSON. It is silent otherwise."""
    cluster.create_topic(topic, 1)
    done = subprocess.run(
        [
            *(sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(script)),
            *(cluster.bootstrap_servers, topic, how),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


IN_A_COROUTINE = """
    async def main():
        codes, told = [], []
        async with Producer(**quick) as producer:
            await producer.send(topic, b"before")
            for end in ("leave", "exit", "go on"):
                pending = [producer.send(topic, f"{end} {n}".encode()) for n in range(5)]
                child = forked()
                if child == 0:
                    if end == "go on":  # with the copy of the parent's event loop
                        for _ in range(1000):
                            await asyncio.sleep(0)
                        time.sleep(0.4)
                        for _ in range(1000):
                            await asyncio.sleep(0)
                        os._exit(0)
                    if end == "exit":
                        sys.exit(0)
                    break
                while (code := ended(child, os.WNOHANG)) is None:
                    await asyncio.sleep(0.01)
                codes.append(code)
                await asyncio.gather(*pending)
            else:
                metrics = producer.metrics()["producer-metrics"]
                print(json.dumps([codes, metrics["connection-close-total"]]))

    if how == "uvloop":
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_child_of_a_coroutine_sends_nothing_of_its_parent(
    cluster: MockCluster, loop: str
) -> None:
    """It had sent the records that were buffered, a second time, and cut the connection."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    topic = f"forks-coroutine-{loop}"
    assert run(cluster, IN_A_COROUTINE, topic, loop) == [[0, 0, 0], 0]
    sent = [
        b"before",
        *(b"%s %d" % (e, n) for e in (b"leave", b"exit", b"go on") for n in range(5)),
    ]
    assert values(cluster, topic) == sent


BLOCKING = """
    def child_of(producer, future):
        told = 0
        for call in (
            lambda: producer.send(topic, b"child"),
            lambda: producer.send_many(topic, [b"child"]),
            producer.flush, producer.close, producer.start, producer.metrics, future.result,
            lambda: producer.partitions_for(topic),
        ):
            try:
                call()
            except WrongLoopError as error:
                told += "after the fork: in gunicorn's post_worker_init" in str(error)
        print(json.dumps(told), file=sys.stderr if told < 8 else sys.stdout, flush=True)

    with sync.Producer(**quick) as producer:
        producer.send(topic, b"before").result(10)
        future = producer.send(topic, b"buffered")
        child = forked()
        if child == 0:
            child_of(producer, future)
            sys.exit(0)  # leaves the block, and the interpreter
        assert ended(child) == 0
        child = forked()
        if child == 0:
            with sync.Producer(bootstrap_servers=servers) as own:
                own.send(topic, b"own").result(10)
            producer.__exit__(None, None, None)
            os._exit(0)
        future.result(10)
        assert ended(child) == 0
        closed = producer.metrics()["producer-metrics"]["connection-close-total"]
        assert closed == 0, closed
"""


def test_a_child_beside_a_blocking_producer(cluster: MockCluster) -> None:
    assert run(cluster, BLOCKING, "forks-blocking") == 8
    assert Counter(values(cluster, "forks-blocking")) == Counter([b"before", b"buffered", b"own"])


WHILE_THREADS_SEND = """
    CHILDREN, THREADS = 12, 3
    counts = [0] * THREADS
    stopped = threading.Event()

    def send(number):
        while not stopped.is_set():
            producer.send(topic, b"parent")
            counts[number] += 1
            if counts[number] % 500 == 0:
                producer.flush()

    with sync.Producer(bootstrap_servers=servers) as producer:
        threads = [threading.Thread(target=send, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        children = []
        for _ in range(CHILDREN):
            child = forked()
            if child == 0:
                try:
                    producer.send(topic, b"child")
                except WrongLoopError:
                    with sync.Producer(bootstrap_servers=servers) as own:
                        own.send(topic, b"child").result(20)
                    os._exit(0)
                os._exit(1)
            children.append(child)
        codes = [ended(child) for child in children]
        stopped.set()
        for thread in threads:
            thread.join()
    print(json.dumps([codes, sum(counts)]))
"""


def test_forks_while_other_threads_send(cluster: MockCluster) -> None:
    codes, sent = run(cluster, WHILE_THREADS_SEND, "forks-threads")
    assert codes == [0] * 12
    assert Counter(values(cluster, "forks-threads")) == {b"parent": sent, b"child": 12}


IN_A_TRANSACTION = """
    async def main():
        async with Producer(**quick, transactional_id=topic) as producer:
            for end in ("raise", "leave"):
                child = 0
                try:
                    async with producer.transaction():
                        await producer.send(topic, b"parent")
                        child = forked()
                        if child == 0 and end == "raise":
                            raise KeyError("its own")
                    if child == 0:
                        os._exit(1)
                except KeyError:
                    os._exit(7)
                except WrongLoopError:
                    os._exit(8)
                while (code := ended(child, os.WNOHANG)) is None:
                    await asyncio.sleep(0.01)
                yield_codes.append(code)

    def blocking():
        with sync.Producer(**quick, transactional_id=topic + "-sync") as producer:
            for end in ("raise", "leave"):
                child = 0
                try:
                    with producer.transaction():
                        producer.send(topic, b"parent").result(10)
                        child = forked()
                        if child == 0 and end == "raise":
                            raise KeyError("its own")
                except KeyError:
                    os._exit(7)
                except WrongLoopError:
                    os._exit(8)
                yield_codes.append(ended(child))

    yield_codes = []
    asyncio.run(main())
    blocking()
    print(json.dumps(yield_codes))
"""


def test_a_child_ends_no_transaction_of_its_parent(cluster: MockCluster) -> None:
    """Its own error passes; a block that it leaves as if it committed raises."""
    assert run(cluster, IN_A_TRANSACTION, "forks-transaction") == [7, 8, 7, 8]
    records = read_back_sync("forks-transaction", bootstrap_servers=cluster.bootstrap_servers)
    assert [record.value for record in records] == [b"parent"] * 4


STARTED_IN_THE_CHILD = """
    producer = sync.Producer(**quick)
    try:
        producer.send(topic, b"too early")
    except RuntimeError as error:
        assert "was not started" in str(error)
    children = []
    for number in range(3):
        child = forked()
        if child == 0:
            producer.start()
            producer.send(topic, b"%d" % number)
            sys.exit(0)  # closes it
        children.append(child)
    print(json.dumps([ended(child) for child in children]))
"""


def test_each_child_may_start_what_the_parent_only_made(cluster: MockCluster) -> None:
    assert run(cluster, STARTED_IN_THE_CHILD, "forks-started") == [0, 0, 0]
    assert sorted(values(cluster, "forks-started")) == [b"0", b"1", b"2"]  # type: ignore[type-var]
