"""The scripted Kafka judges our producer, so clients that are not ours judge it first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka


async def test_aiokafka_is_content_with_it(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(2, {"orders": 2})
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True
    ) as producer:
        for number in range(5):
            sent = await producer.send_and_wait("orders", b"%d" % number, partition=1)
            assert sent.offset == number
    assert kafka.values("orders", 1) == [b"0", b"1", b"2", b"3", b"4"]
    assert kafka.values("orders", 0) == []


async def test_it_checks_sequence_numbers(kafka: FakeKafka) -> None:
    kafka.answers.append(kafka.Answer(cut_after_writing=True))
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True
    ) as producer:
        assert (await producer.send_and_wait("orders", b"once")).offset == 0
    assert kafka.values("orders") == [b"once"]
    assert len(kafka.requests(0)) == 2
