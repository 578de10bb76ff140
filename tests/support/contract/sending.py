"""The contract of records that reach their topic: order, fields, partitions, errors of calls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from aioproducer import (
    IllegalStateError,
    MetadataTimeoutError,
    ProducerClosedError,
    ProducerRecord,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
    WrongLoopError,
)
from aioproducer.errors import (
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
)
from tests.support.contract.kit import Kit

PATIENCE: Final = 30.0
PARTITIONS_OF_JAVA: Final = {b"customer-7": 1, b"anna": 1, b"": 3, "größe".encode(): 2}
"""The partition of six of each key: Utils.toPositive(Utils.murmur2(key)) % 6."""
_MORE_THAN_ALLOWED: Final = bytes(2_000_000)

CALLS: Final[dict[str, tuple[Callable[[Any], Any], type[Exception]]]] = {
    "no topic": (lambda producer: producer.send("", b"v"), InvalidTopicError),
    "topic of a wrong name": (lambda producer: producer.send("a/b", b"v"), InvalidTopicError),
    "topic of a wrong type": (lambda producer: producer.send(7, b"v"), InvalidTopicError),
    "no value": (lambda producer: producer.send("orders", key=b"k"), SerializationError),
    "no value beside headers": (
        lambda producer: producer.send("orders", headers={"a": b"1"}),
        SerializationError,
    ),
    "negative partition": (
        lambda producer: producer.send("orders", b"v", partition=-1),
        InvalidPartitionError,
    ),
    "partition of a wrong type": (
        lambda producer: producer.send("orders", b"v", partition="1"),
        InvalidPartitionError,
    ),
    "negative timestamp": (
        lambda producer: producer.send("orders", b"v", timestamp_ms=-5),
        InvalidTimestampError,
    ),
    "value without a serializer": (
        lambda producer: producer.send("orders", {"id": 1}),
        SerializationError,
    ),
    "key without a serializer": (
        lambda producer: producer.send("orders", b"v", key=7),
        SerializationError,
    ),
    "header of a wrong type": (
        lambda producer: producer.send("orders", b"v", headers={"a": 1}),
        SerializationError,
    ),
    "record beside arguments": (
        lambda producer: producer.send(ProducerRecord("orders", b"v"), b"w"),
        SerializationError,
    ),
    "large record": (
        lambda producer: producer.send("orders", _MORE_THAN_ALLOWED),
        RecordTooLargeError,
    ),
}
"""Calls of a started producer that raise."""


class SendingContract:
    """Records of a producer that nothing disturbs."""

    async def test_a_future_of_the_loop_gets_the_place_of_the_record(self, kit: Kit) -> None:
        topic = await kit.topic(3)
        async with kit.producer() as producer:
            future = producer.send(topic, b"value", key=b"k", partition=1)
            assert isinstance(future, asyncio.Future)
            assert future.get_loop() is asyncio.get_running_loop()
            assert not future.done()
            metadata = await future
            assert isinstance(metadata, RecordMetadata)
            assert metadata._replace(timestamp_ms=0) == (topic, 1, 0, 0, 1, 5)
            again = producer.send(topic, b"value", partition=1)
            assert not again.done()
            assert (await again).offset == 1
            assert (await again).serialized_key_size == -1

    async def test_records_of_a_partition_keep_the_order_of_their_calls(self, kit: Kit) -> None:
        topic = await kit.topic(2)
        values = [str(number).encode() for number in range(200)]
        async with kit.producer() as producer:
            futures = [
                producer.send(topic, value, partition=number % 2)
                for number, value in enumerate(values)
            ]
            results = await asyncio.gather(*futures)
        records = await kit.read(topic)
        assert [each.value for each in records] == values[::2] + values[1::2]
        assert [each.offset for each in results[::2]] == list(range(100))

    async def test_the_fields_of_a_record_arrive(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with kit.producer() as producer:
            producer.send(
                topic,
                "wörter",
                key="k",
                headers=[("a", b"1"), ("a", None), ("b", b"")],
                timestamp_ms=1_700_000_000_123,
            )
            producer.send(ProducerRecord(topic, None, key=b"only a key", headers={"h": b"2"}))
        first, second = await kit.read(topic)
        assert (first.key, first.value) == (b"k", "wörter".encode())
        assert first.headers == (("a", b"1"), ("a", None), ("b", b""))
        assert first.timestamp_ms == 1_700_000_000_123
        assert (second.key, second.value, second.headers) == (b"only a key", None, (("h", b"2"),))
        assert abs(second.timestamp_ms - time.time() * 1000) < 2 * PATIENCE * 1000

    async def test_keys_have_the_partitions_of_javas_producer(self, kit: Kit) -> None:
        topic = await kit.topic(6)
        async with kit.producer() as producer:
            for key, partition in PARTITIONS_OF_JAVA.items():
                for _ in range(2):
                    assert (await producer.send(topic, b"v", key=key)).partition == partition

    async def test_records_without_a_key_use_several_partitions(self, kit: Kit) -> None:
        topic = await kit.topic(6)
        async with kit.producer(batch_size=0) as producer:
            for _ in range(40):
                await producer.send(topic, b"v")
        assert len({record.partition for record in await kit.read(topic)}) > 1

    async def test_a_partition_that_the_topic_lacks_is_waited_for(self, kit: Kit) -> None:
        topic = await kit.topic(2)
        async with kit.producer(max_block_ms=200) as producer:
            future = producer.send(topic, b"v", partition=7)
            with pytest.raises(MetadataTimeoutError, match=f"partition 7 of topic '{topic}'"):
                await future
            await producer.send(topic, b"v", partition=1)

    @pytest.mark.parametrize("name", CALLS)
    async def test_a_wrong_call_raises_and_changes_nothing(self, kit: Kit, name: str) -> None:
        call, expected = CALLS[name]
        topic = await kit.topic()
        async with kit.producer() as producer:
            await producer.send(topic, b"before")
            with pytest.raises(expected):
                call(producer)
            assert (await producer.send(topic, b"after")).offset == 1

    async def test_a_producer_outside_of_its_life(self, kit: Kit) -> None:
        topic = await kit.topic()
        producer = kit.producer()
        with pytest.raises(IllegalStateError, match="not started"):
            producer.send(topic, b"v")
        async with producer:
            with pytest.raises(IllegalStateError, match="started once"):
                await producer.start()
            await producer.send(topic, b"v")
        with pytest.raises(ProducerClosedError, match="closed"):
            producer.send(topic, b"v")
        with pytest.raises(ProducerClosedError):
            await producer.flush()
        with pytest.raises(ProducerClosedError):
            await producer.send_many(topic, [b"v"])
        assert await producer.close() == 0

    async def test_another_thread_is_refused(self, kit: Kit) -> None:
        topic = await kit.topic()
        errors: list[BaseException] = []

        def elsewhere() -> None:
            try:
                producer.send(topic, b"v")
            except WrongLoopError as error:
                errors.append(error)

        async with kit.producer() as producer:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            [error] = errors
            assert "thread" in str(error)
            await producer.send(topic, b"v")

    async def test_many_values_are_reported_in_their_order(self, kit: Kit) -> None:
        topic = await kit.topic(3)
        values: list[Any] = [b"one", {"not": "bytes"}, ProducerRecord(topic, b"three", key=b"anna")]
        async with kit.producer() as producer:
            report = await producer.send_many(topic, values, partition=2, headers={"h": b"1"})
            assert (report.delivered, report.failed, report.pending) == (2, 1, 0)
            assert list(report.partitions[::2]) == [2, report.partitions[2]]
            assert isinstance(report.failures[1], SerializationError)
            report = await producer.send_many(topic, [b"%d" % each for each in range(300)])
            assert report.delivered == report.sent == 300
            assert all(0 <= each < 3 for each in report.partitions)
            report.raise_for_failures()
        records = await kit.read(topic)
        assert len(records) == 302
        [first] = [each for each in records if each.value == b"one"]
        assert (first.partition, first.headers) == (2, (("h", b"1"),))

    async def test_a_flush_and_a_close_deliver_what_was_sent(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with kit.producer() as producer:
            futures = [producer.send(topic, b"%d" % number) for number in range(50)]
            await producer.flush()
            assert all(future.done() for future in futures)
            last = producer.send(topic, b"last")
        assert (await last).offset == 50
        topic = await kit.topic()
        with pytest.raises(RuntimeError, match="of the block"):
            await self._send_and_fail(kit, topic)
        assert [each.value for each in await kit.read(topic)] == [b"sent before the error"]

    async def _send_and_fail(self, kit: Kit, topic: str) -> None:
        async with kit.producer() as producer:
            producer.send(topic, b"sent before the error")
            raise RuntimeError("of the block")

    async def test_a_cancelled_record_in_a_batch_is_sent(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with kit.producer() as producer:
            await producer.send(topic, b"first")
            assert producer.send(topic, b"cancelled").cancel()
            await producer.send(topic, b"last")
        assert [each.value for each in await kit.read(topic)] == [b"first", b"cancelled", b"last"]

    async def test_a_cancelled_record_that_waits_is_taken_back(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with kit.producer() as producer:
            assert producer.send(topic, b"cancelled").cancel()  # the topic is not known yet
            await producer.send(topic, b"last")
        assert [each.value for each in await kit.read(topic)] == [b"last"]

    async def test_the_cluster_and_the_producer_describe_themselves(self, kit: Kit) -> None:
        topic = await kit.topic(4)
        producer = kit.producer()
        assert not producer.health().can_write
        async with producer:
            assert await producer.partitions_for(topic) == (0, 1, 2, 3)
            infos = await producer.partition_infos_for(topic)
            assert [(each.topic, each.partition) for each in infos] == [
                (topic, number) for number in range(4)
            ]
            check = await producer.check(PATIENCE, topics=[topic])
            assert check.topics[topic].partitions == 4
            assert {each.leader for each in infos} <= set(check.brokers)
            await producer.send_many(topic, [b"v"] * 7)
            health = producer.health()
            assert health.can_write, str(health)
            metrics = producer.metrics()["producer-metrics"]
            assert metrics["record-send-total"] == 7
            await producer.drain()
        assert producer.health().state == "closed"


class _Upper:
    """A serializer of texts that sees the headers and is prepared for each topic."""

    def __init__(self) -> None:
        self.prepared: list[str] = []

    async def prepare(self, topic: str) -> None:
        await asyncio.sleep(0)
        self.prepared.append(topic)

    def serialize(self, topic: str, data: str, headers: Any) -> bytes:
        headers.append(("serialized", topic.encode()))
        return data.upper().encode()


class _Interceptor:
    """Adds a header, and keeps the outcomes."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, BaseException | None]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, record.value, record.key, headers={"seen": b"1"})

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.outcomes.append((metadata.offset, error))


class HookContract:
    """Serializers, partitioners and interceptors of users."""

    async def test_a_serializer_is_prepared_and_sees_the_headers(self, kit: Kit) -> None:
        topic, serializer = await kit.topic(), _Upper()
        async with kit.producer(value_serializer=serializer) as producer:
            first = producer.send(topic, "one", headers={"a": b"1"})
            second = producer.send(topic, "two")
            assert (await first).offset == 0
            assert (await second).offset == 1
        assert serializer.prepared[0] == topic
        records = await kit.read(topic)
        assert [each.value for each in records] == [b"ONE", b"TWO"]
        assert records[0].headers == (("a", b"1"), ("serialized", topic.encode()))

    async def test_a_serializer_that_fails_fails_the_call(self, kit: Kit) -> None:
        def refuse(data: Any) -> bytes:
            raise LookupError("no such field")

        topic = await kit.topic()
        async with kit.producer(value_serializer=refuse) as producer:
            with pytest.raises(SerializationError, match="no such field") as raised:
                producer.send(topic, object())
            assert isinstance(raised.value.__cause__, LookupError)

    async def test_a_partitioner_chooses(self, kit: Kit) -> None:
        def last(topic: str, key: Any, value: Any, partitions: Any) -> int:
            return int(partitions.count) - 1

        topic = await kit.topic(5)
        async with kit.producer(partitioner=last) as producer:
            assert (await producer.send(topic, b"v", key=b"customer-7")).partition == 4

    async def test_interceptors_see_each_record_and_its_outcome_once(self, kit: Kit) -> None:
        topic, interceptor = await kit.topic(), _Interceptor()
        async with kit.producer(interceptor_classes=[interceptor]) as producer:
            await producer.send(topic, b"one")
            with pytest.raises(SerializationError):
                producer.send(topic, object())
            await producer.send_many(topic, [b"two"])
        assert [each.headers for each in await kit.read(topic)] == [(("seen", b"1"),)] * 2
        (first, none), (second, error), (third, none_again) = interceptor.outcomes
        assert (first, second, third) == (0, -1, 1)
        assert (none, type(error), none_again) == (None, SerializationError, None)
