"""The mock producer's own part: its history, the decisions of a test, its options."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioproducer import (
    ConfigError,
    ConsumerGroupMetadata,
    DeliveryTimeoutError,
    IllegalStateError,
    MetadataTimeoutError,
    Producer,
    ProducerConfig,
    ProducerRecord,
    TopicPartition,
    WrongLoopError,
    sync,
)
from aioproducer.errors import (
    BrokerConnectionError,
    ClusterAuthorizationFailedError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
)
from aioproducer.model import OffsetAndMetadata
from aioproducer.serialization import JsonSerializer
from aioproducer.testing import MockProducer, SentRecord, SyncMockProducer, expect

ITERATIONS = 100
"""More iterations of the event loop than any answer needs."""


async def settle() -> None:
    """Let the event loop do all that it can do without time passing."""
    for _ in range(ITERATIONS):
        await asyncio.sleep(0)


# --- the interface ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("real", "mock"), [(Producer, MockProducer), (sync.Producer, SyncMockProducer)]
)
def test_the_signatures_are_those_of_the_real_producer(real: type, mock: type) -> None:
    public = [
        name
        for name in vars(real)
        if hasattr(real, name) and (not name.startswith("_") or name == "__init__")
    ]
    assert len(public) > 15
    for name in public:
        theirs, ours = getattr(real, name), getattr(mock, name)
        if not callable(theirs):
            continue
        expected = dict(inspect.signature(theirs).parameters)
        found = dict(inspect.signature(ours).parameters)
        if name == "__init__":
            assert found.pop("auto_complete").kind is inspect.Parameter.KEYWORD_ONLY
            assert found.pop("partitions").kind is inspect.Parameter.KEYWORD_ONLY
        assert found == expected, name
        assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours), name
    assert issubclass(mock, real)


# --- history ----------------------------------------------------------------------------------


async def test_the_history_has_what_consumers_read_and_what_was_passed() -> None:
    async with MockProducer(partitions=6, value_serializer=JsonSerializer()) as producer:
        await producer.send("orders", {"id": 7}, key="anna", headers={"a": b"1"}, timestamp_ms=5)
        await producer.send("audit", [1])
        assert [each.topic for each in producer.history] == ["orders", "audit"]
        [record] = producer.sent("orders")
    original = ProducerRecord("orders", {"id": 7}, "anna", None, {"a": b"1"}, 5)
    assert record == SentRecord(
        "orders", b'{"id":7}', b"anna", 1, (("a", b"1"),), 5, offset=0, original=original
    )
    assert record.topic_partition == TopicPartition("orders", 1)
    assert isinstance(record, ProducerRecord)


async def test_the_history_is_in_the_order_of_sends_across_topics() -> None:
    async with MockProducer(partitions=3) as producer:
        for number in range(30):
            producer.send("b" if number % 2 else "a", str(number), partition=number % 3)
        await producer.flush()
        assert [each.value for each in producer.history] == [b"%d" % each for each in range(30)]
        assert [each.offset for each in producer.sent("a") if each.partition == 0] == [
            0,
            1,
            2,
            3,
            4,
        ]
        producer.history.clear()
        assert len(producer.history) == 30
        producer.clear()
        assert producer.history == []
        assert (await producer.send("a", b"v", partition=0)).offset == 5


async def test_expect_takes_the_history() -> None:
    async with MockProducer() as producer:
        await producer.send_many("orders", [b"one espresso", b"two teas"], headers={"a": b"1"})
        expect(producer.history).has(value="two teas", headers={"a": b"1"}, count=1)
        expect(producer.sent("orders")).in_order([b"one espresso", b"two teas"])
        with pytest.raises(AssertionError, match="two teas"):
            expect(producer.history).has(value="two tea")


async def test_two_runs_choose_the_same_partitions() -> None:
    runs = []
    for _ in range(2):
        async with MockProducer(partitions=6) as producer:
            runs.append(list((await producer.send_many("orders", [b"v"] * 50)).partitions))
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 1


# --- decisions --------------------------------------------------------------------------------


async def test_records_have_no_outcome_before_the_decision() -> None:
    async with MockProducer(auto_complete=False, partitions=3) as producer:
        assert not producer.complete_next()
        futures = [producer.send("orders", str(each), partition=each % 3) for each in range(5)]
        await settle()
        assert not any(future.done() for future in futures)
        assert [each.value for each in producer.pending_records] == list("01234")
        for number, future in enumerate(futures):
            assert producer.complete_next()
            assert not future.done()
            assert (await future).partition == number % 3
            assert [each.done() for each in futures] == [each <= number for each in range(5)]
        assert not producer.complete_next()
        assert producer.pending_records == []


async def test_decisions_may_come_in_the_iteration_of_the_send() -> None:
    async with MockProducer(auto_complete=False) as producer:
        futures = [producer.send(topic, b"v") for topic in ("b", "a", "b")]
        refused = DeliveryTimeoutError("late")
        assert producer.fail_next(refused)
        assert producer.complete_next()
        await settle()
        assert [future.done() for future in futures] == [True, True, False]
        assert futures[0].exception() is refused
        assert futures[1].result().topic == "a"
        assert producer.complete_next()
        await producer.flush()
        assert [each.topic for each in producer.history] == ["a", "b"]


@pytest.mark.parametrize(
    "error",
    [
        NotLeaderOrFollowerError("moved"),
        BrokerConnectionError("lost"),
        TopicAuthorizationFailedError("not allowed"),
        DeliveryTimeoutError("late"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_no_error_is_retried(error: Any) -> None:
    async with MockProducer() as producer:
        assert producer.fail_next(error)
        with pytest.raises(type(error), match=str(error)):
            await producer.send("orders", b"refused")
        assert (await producer.send("orders", b"next")).offset == 0


async def test_the_next_records_fail_one_by_one() -> None:
    async with MockProducer() as producer:
        first, second = DeliveryTimeoutError("first"), DeliveryTimeoutError("second")
        assert producer.fail_next(first)
        assert producer.fail_next(second)
        with pytest.raises(TypeError):
            producer.send("orders", object())  # the call is refused, and meets no error
        report = await producer.send_many("orders", [b"1", b"2", b"3"])
        assert [str(each) for each in report.failures.values()] == ["first", "second"]
        producer.fail_next(first)
        producer.clear()
        await producer.send("orders", b"4")


async def test_a_manual_producer_keeps_no_error_for_later() -> None:
    async with MockProducer(auto_complete=False) as producer:
        assert not producer.fail_next(DeliveryTimeoutError("late"))
        future = producer.send("orders", b"v")
        producer.complete_next()
        await future


async def test_an_error_that_is_fatal_for_the_producer_fails_all() -> None:
    async with MockProducer(auto_complete=False) as producer:
        futures = [producer.send("orders", b"v") for _ in range(3)]
        producer.fail_next(ClusterAuthorizationFailedError("not allowed"))
        for future in futures:
            with pytest.raises(ClusterAuthorizationFailedError):
                await future


async def test_decisions_are_refused_elsewhere() -> None:
    producer = MockProducer(auto_complete=False)
    for decide in (producer.complete_next, lambda: producer.fail_next(DeliveryTimeoutError())):
        with pytest.raises(IllegalStateError, match="not started"):
            decide()
    async with producer:
        future = producer.send("orders", b"v")
        with pytest.raises(WrongLoopError, match="SyncMockProducer"):
            await asyncio.to_thread(producer.complete_next)
        with pytest.raises(TypeError, match=r"aioproducer\.errors"):
            producer.fail_next(ValueError("no error of ours"))  # type: ignore[arg-type]
        with pytest.raises(IllegalStateError, match="transactional_id"):
            producer.fence()
        producer.complete_next()
        await future


async def test_a_close_waits_for_decisions() -> None:
    producer = MockProducer(auto_complete=False)
    await producer.start()
    future = producer.send("orders", b"v")
    closing = asyncio.ensure_future(producer.close())
    await settle()
    assert not closing.done()
    assert producer.complete_next()
    assert await closing == 0
    assert future.result().offset == 0
    assert not producer.complete_next()


async def test_a_forgotten_decision_ends_the_test_soon() -> None:
    assert MockProducer().config.delivery_timeout_ms == 10_000
    async with MockProducer(
        auto_complete=False, request_timeout_ms=50, delivery_timeout_ms=50
    ) as producer:
        with pytest.raises(DeliveryTimeoutError, match="not acknowledged"):
            await producer.send("orders", b"v")
        assert producer.pending_records == []


# --- options ----------------------------------------------------------------------------------


async def test_topics_that_a_mapping_lacks_do_not_exist() -> None:
    async with MockProducer(partitions={"orders": 2}, max_block_ms=50) as producer:
        assert await producer.partitions_for("orders") == (0, 1)
        with pytest.raises(MetadataTimeoutError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("typo", b"v")


@pytest.mark.parametrize("partitions", [0, -1, True, "6", {"orders": 0}, {"orders": 2.0}, None])
def test_impossible_partitions_are_refused(partitions: Any) -> None:
    with pytest.raises(ConfigError, match="partitions is a number"):
        MockProducer(partitions=partitions)


def test_wrong_options_are_refused_as_by_the_real_producer() -> None:
    with pytest.raises(ConfigError, match="compression_type"):
        MockProducer(compresion_type="zstd")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="positional"):
        MockProducer({"linger_ms": 5})  # type: ignore[arg-type]


async def test_an_applications_configuration_needs_no_broker(tmp_path: Path) -> None:
    config = ProducerConfig(
        bootstrap_servers="kafka-1.example:9093",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="shop",
        sasl_password="hunter2",
        ssl_truststore_location=str(tmp_path / "missing.pem"),
        client_dns_lookup="resolve_canonical_bootstrap_servers_only",
        compression_type="zstd",
        linger_ms=20,
        batch_size=500_000,
    )
    async with MockProducer(config, client_id="shop") as producer:
        assert producer.config.delivery_timeout_ms == config.delivery_timeout_ms
        assert producer.client_id == "shop"
        await producer.send("orders", b"v" * 1000)
        assert producer.sent("orders")[0].value == b"v" * 1000


async def test_without_acks_records_need_no_decision() -> None:
    async with MockProducer(acks=0, auto_complete=False) as producer:
        assert (await producer.send("orders", b"v")).offset == -1
        assert len(producer.history) == 1


async def test_a_large_compressed_batch_is_readable() -> None:
    async with MockProducer(compression_type="gzip") as producer:
        await producer.send("orders", bytes(200_000))
        assert producer.history[0].value == bytes(200_000)


# --- transactions -----------------------------------------------------------------------------


async def test_what_a_transaction_holds_until_its_end() -> None:
    group = ConsumerGroupMetadata("invoicing", 3, "member")
    place = TopicPartition("orders", 0)
    async with MockProducer(transactional_id="invoices-1") as producer:
        async with producer.transaction():
            await producer.send("invoices", b"1")
            await producer.send_offsets_to_transaction({place: 8}, group)
            assert [each.value for each in producer.uncommitted_records] == [b"1"]
            assert producer.uncommitted_offsets == {"invoicing": {place: OffsetAndMetadata(8)}}
            assert producer.history == []
            assert producer.commit_count == 0
        assert (producer.uncommitted_records, producer.uncommitted_offsets) == ([], {})
        assert [each.value for each in producer.history] == [b"1"]
        assert producer.offsets_history == [{"invoicing": {place: OffsetAndMetadata(8)}}]
        assert producer.commit_count == 1
        async with producer.transaction():
            pass
        assert producer.commit_count == 1
        producer.clear()
        assert (producer.history, producer.offsets_history) == ([], [])


async def test_a_commit_waits_for_decisions() -> None:
    async with MockProducer(transactional_id="invoices-1", auto_complete=False) as producer:
        await producer.begin_transaction()
        producer.send("invoices", b"1")
        commit = asyncio.ensure_future(producer.commit_transaction())
        await settle()
        assert not commit.done()
        producer.complete_next()
        await commit
        assert producer.commit_count == 1


async def test_other_producers_write_into_a_shared_transaction() -> None:
    async with (
        MockProducer(transactional_id="invoices-1") as producer,
        producer.transaction(shared=True),
        MockProducer(transaction=producer.transaction_handle()) as other,
    ):
        await other.send("invoices", b"1")
        assert len(other.uncommitted_records) == 1
        await other.commit_transaction()
        assert [each.value for each in other.history] == [b"1"]


# --- the blocking shell -----------------------------------------------------------------------


def test_the_blocking_producer() -> None:
    with SyncMockProducer(partitions={"orders": 6}) as producer:
        assert producer.send("orders", b"1", key=b"anna").result().partition == 1
        assert producer.send_many("orders", [b"2", b"3"]).delivered == 2
        producer.fail_next(DeliveryTimeoutError("late"))
        with pytest.raises(DeliveryTimeoutError, match="late"):
            producer.send("orders", b"4").result()
        assert sorted(each.value for each in producer.sent("orders")) == [b"1", b"2", b"3"]
        assert len(producer.history) == 3
        producer.clear()
        assert producer.history == []
    with pytest.raises(ConfigError, match="partitions is a number"):
        SyncMockProducer(partitions=0)


def test_decisions_about_the_blocking_producer() -> None:
    with SyncMockProducer(auto_complete=False) as producer:
        futures = [producer.send("orders", str(number)) for number in range(3)]
        assert [each.value for each in producer.pending_records] == ["0", "1", "2"]
        assert producer.complete_next()
        assert producer.complete_next()
        assert futures[1].result().offset == 1
        assert not futures[2].done()
        assert producer.complete_next()
        assert not producer.complete_next()
        producer.flush()


def test_transactions_of_the_blocking_producer() -> None:
    with SyncMockProducer(transactional_id="invoices-1") as producer:
        with producer.transaction():
            producer.send("invoices", b"1").result()
            assert len(producer.uncommitted_records) == 1
            producer.send_offsets_to_transaction({TopicPartition("orders", 0): 8}, "invoicing")
            assert list(producer.uncommitted_offsets) == ["invoicing"]
        assert producer.commit_count == len(producer.history) == len(producer.offsets_history) == 1
        producer.fence()
        with pytest.raises(IllegalStateError):
            producer.commit_transaction()


# --- no network -------------------------------------------------------------------------------


async def test_no_socket_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Callable[..., None]:
        raise AssertionError("a socket")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    async with MockProducer(bootstrap_servers="kafka.example:9092") as producer:
        await producer.send("orders", b"v")
        await producer.check(topics=["orders"])
        assert [each.address for each in (await producer.check()).brokers] == ["mock:9092"]
        assert len(producer.health().brokers) == 1
