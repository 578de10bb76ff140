"""A ``send_many()`` that does not end as it should: its error tells what was written."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pyarrow
import pytest

from aioproducer import Producer, ProducerBrokenError, ProducerClosedError, SendReport, sync
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster

PATIENCE = 60.0
MANY = 3_000


class OwnError(Exception):
    """The application's."""


@pytest.fixture
def orders(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 3)
    return mock_cluster


def values(count: int, fail: Callable[[], None]) -> Iterator[bytes]:
    for number in range(count):
        yield b"%d" % number
    fail()


async def slowly(count: int, fail: Callable[[], None]) -> AsyncIterator[bytes]:
    for value in values(count, fail):
        yield value


def give_up() -> None:
    raise OwnError("no more")


def check(report: SendReport | None, delivered: int, failed: int = 0) -> None:
    assert report is not None
    assert (report.delivered, report.failed, report.pending) == (delivered, failed, 0)
    assert report.sent == len(report.partitions) == len(report.offsets) == delivered + failed
    places = set(zip(report.partitions, report.offsets, strict=True)) - {(-1, -1)}
    assert len(places) == delivered
    assert sum(each.count for each in report.ranges.values()) == delivered
    assert all(report.partitions[index] == -1 for index in report.failures)


# --- what the values raise ---------------------------------------------------------------------


@pytest.mark.parametrize("make", [values, slowly])
async def test_values_that_raise_midway(orders: MockCluster, make: Any) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(OwnError, match="no more") as caught:
            await producer.send_many("orders", make(MANY, give_up))
        check(SendReport.of(caught.value), MANY)
        assert f"had sent {MANY} records" in "".join(caught.value.__notes__)
        again = pickle.loads(pickle.dumps(caught.value))
        assert SendReport.of(again) == SendReport.of(caught.value)
        with pytest.raises(OwnError) as caught:
            await producer.send_many("orders", make(0, give_up))
        check(SendReport.of(caught.value), 0)


def test_values_of_the_blocking_shell_that_raise_midway(orders: MockCluster) -> None:
    with sync.Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(OwnError) as caught:
            producer.send_many("orders", values(MANY, give_up))
        check(SendReport.of(caught.value), MANY)
        assert "SendReport.of(error)" in "".join(caught.value.__notes__)
        assert producer.send_many("orders", [b"v"]).delivered == 1


async def test_an_error_of_a_record_dooms_a_transaction_that_goes_on(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, transactional_id="t"
    ) as producer:
        await producer.begin_transaction()

        def wrong() -> Iterator[Any]:
            yield b"fine"
            yield object()
            raise OwnError

        with pytest.raises(OwnError) as caught:
            await producer.send_many("orders", wrong())
        check(SendReport.of(caught.value), 1, failed=1)
        with pytest.raises(Exception, match="can only be aborted"):
            await producer.commit_transaction()
        await producer.abort_transaction()


# --- the producer's end ------------------------------------------------------------------------

KEYS = [b"k%d" % (number % 50) for number in range(200_000)]
COLUMNS = pyarrow.record_batch({"value": [bytes(100)] * len(KEYS), "key": KEYS})
MORE = {"list": [bytes(100)] * 200_000, "columns": COLUMNS}


async def some_are_delivered(producer: Producer) -> None:
    """Of those that another task sends: behind the first round, and before the second."""
    for _ in range(2):
        await asyncio.gather(*(producer.send("orders", b"v", partition=each) for each in range(3)))


@pytest.mark.parametrize("kind", MORE)
@pytest.mark.parametrize("end", ["closed", "closed in time", "broken"])
async def test_a_producer_that_ends_midway(
    orders: MockCluster, monkeypatch: pytest.MonkeyPatch, kind: str, end: str
) -> None:
    producer = Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=400_000, batch_size=4_000
    )
    await producer.start()
    await producer.send("orders", b"known")
    sending = asyncio.create_task(producer.send_many("orders", MORE[kind]))
    await some_are_delivered(producer)
    if end == "broken":
        monkeypatch.setattr(MetadataRefresher, "waits", property(lambda _: 1 / 0), raising=False)
    else:
        await producer.close(0 if end == "closed" else PATIENCE)
    with pytest.raises((ProducerClosedError, ProducerBrokenError)) as caught:
        await asyncio.wait_for(sending, PATIENCE)
    report = SendReport.of(caught.value)
    assert report is not None
    assert 0 < report.delivered < len(KEYS)
    check(report, report.delivered, report.failed)
    if end == "closed in time" and kind == "list":
        assert report.failed == 0
    await producer.close()


async def test_one_that_had_not_begun_has_no_report(orders: MockCluster) -> None:
    producer = Producer(bootstrap_servers=orders.bootstrap_servers)
    with pytest.raises(Exception, match="not started") as caught:
        await producer.send_many("orders", [b"v"])
    assert SendReport.of(caught.value) is None


@pytest.mark.parametrize("kind", MORE)
def test_a_blocking_producer_that_is_closed_midway(orders: MockCluster, kind: str) -> None:
    producer = sync.Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=400_000, batch_size=4_000
    )
    producer.start()
    producer.send("orders", b"known").result(PATIENCE)
    loop = producer._thread._loop
    assert loop is not None

    def send() -> SendReport | None:
        with pytest.raises(ProducerClosedError) as caught:
            producer.send_many("orders", MORE[kind])
        return SendReport.of(caught.value)

    async def many() -> SendReport | None:
        sending = asyncio.create_task(asyncio.to_thread(send))
        total = 0.0
        while total < 5_000:
            total = (await asyncio.to_thread(producer.metrics))["producer-metrics"][
                "record-send-total"
            ]
        await asyncio.to_thread(producer.close, 0)
        return await asyncio.wait_for(sending, PATIENCE)

    report = asyncio.run(many())
    assert report is not None
    assert 0 < report.delivered < len(KEYS)
    check(report, report.delivered, report.failed)


# --- cancelled ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MORE)
async def test_cancelled(orders: MockCluster, kind: str) -> None:
    """It tells what is known, and after a flush() what became of the rest."""
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=400_000, batch_size=4_000
    ) as producer:
        await producer.send("orders", b"known")
        orders.set_broker_rtt(ALL_BROKERS, 20)
        sending = asyncio.create_task(producer.send_many("orders", MORE[kind]))
        await some_are_delivered(producer)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await sending
        early = SendReport.of(caught.value)
        assert early is not None
        assert early.pending > 0
        await producer.flush()
        late = SendReport.of(caught.value)
        assert late is not None
        assert late.delivered > early.delivered
        assert late.failed == 0
        assert late.sent == early.sent
        assert sum(each >= 0 for each in late.offsets) == late.delivered


async def test_a_timeout(orders: MockCluster) -> None:
    orders.set_broker_rtt(ALL_BROKERS, 20)
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:

        async def forever() -> AsyncIterator[bytes]:
            while True:
                yield (await producer.send("orders", b"between")).topic.encode()

        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.2):
                await producer.send_many("orders", forever())
        await producer.flush()
        report = SendReport.of(caught.value)
        assert report is not None
        check(report, report.delivered)
