"""The long way of a record: its steps, their order, and the records that one of them refuses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import PendingRecord, SerializedRecord, Unserialized
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.core.engine import Engine
from aioproducer.engine.core.parts import Hooks
from aioproducer.engine.core.sending import SendPipeline
from aioproducer.errors import IllegalStateError, ProducerError, SerializationError
from aioproducer.model import ProducerRecord, RecordMetadata
from tests.support.settling import settle
from tests.support.tokens import Token
from tests.support.world import World

NOW_MS = 1_700_000_000_000
MAX_BLOCK = 60.0


class Steps:
    """An interceptor, both serializers and a partitioner that log their calls."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.log.append(("on_send", record.key, record.value))
        return replace(record, value=f"{record.value}!")

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.log.append(("on_acknowledgement", metadata.partition, type(error)))

    def key_serializer(self, key: str) -> bytes:
        self.log.append(("key", key))
        return key.encode()

    def value_serializer(self, value: str) -> bytes:
        self.log.append(("value", value))
        return value.encode()

    def partition(self, topic: str, key: bytes | None, value: bytes | None, _: Any) -> int:
        self.log.append(("partition", key, value))
        return 1


class Transactions:
    """In place of a ``TransactionApi``."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.is_open = is_open
        self.refused: list[ProducerError] = []

    def check_open(self) -> None:
        if not self.is_open:
            raise IllegalStateError("no transaction")

    def record_refused(self, error: ProducerError) -> None:
        self.refused.append(error)


class FakeEngine:
    """In place of an Engine: a real accumulator, and a log of the records that wait."""

    def __init__(self, world: World, transactions: Transactions | None) -> None:
        self.accumulator = world.accumulator
        self.transactions = transactions
        self.enqueued: list[tuple[SerializedRecord, float, Any]] = []
        self.withdrawn: list[PendingRecord] = []

    def enqueue(
        self,
        record: SerializedRecord,
        now: float,
        deadline: float,
        caller: object,
        *,
        over_capacity: bool,
        unserialized: Unserialized | None,
    ) -> PendingRecord:
        self.enqueued.append((record, deadline, caller))
        return self.accumulator.enqueue(
            record,
            now,
            deadline,
            caller=caller,
            over_capacity=over_capacity,
            unserialized=unserialized,
        )

    def withdraw(self, record: PendingRecord) -> None:
        self.withdrawn.append(record)


class Sends:
    """A pipeline into a real accumulator that knows the topic ``orders``, of two partitions."""

    def __init__(self, transactions: Transactions | None = None, **options: Any) -> None:
        self.world = World(make_future=Token, partitioner=options.get("partitioner"))
        leaders = (PartitionLeader(0, 1), PartitionLeader(1, 1))
        self.world.accumulator.update_topic(TopicInfo("orders", None, leaders), self.world.now)
        self.engine = FakeEngine(self.world, transactions)
        self.pipeline = SendPipeline(
            cast(Engine, self.engine),
            Hooks(ProducerConfig(bootstrap_servers="nowhere:9092", **options)),
            MAX_BLOCK,
            self.world.clock,
            lambda: NOW_MS * 1_000_000,
        )

    def put(self, value: Any, topic: Any = "orders", key: Any = None, **named: Any) -> Token:
        token = Token()
        fields = (topic, value, key, named.pop("partition", None), None, named.pop("at", None))
        self.pipeline.put(fields, token, **named)
        return token

    def partitions(self) -> list[int]:
        """The partitions of all batches."""
        return [batch.topic_partition.partition for batch in self.world.batches]


def with_all_hooks(steps: Steps, transactions: Transactions | None = None) -> Sends:
    return Sends(
        transactions,
        interceptor_classes=[steps],
        key_serializer=steps.key_serializer,
        value_serializer=steps.value_serializer,
        partitioner=steps.partition,
    )


async def test_the_steps_are_in_the_order_of_kafka_and_each_sees_the_one_before() -> None:
    steps = Steps()
    sends = with_all_hooks(steps)
    sends.put("v", key="k")
    assert steps.log == [
        ("on_send", "k", "v"),
        ("key", "k"),
        ("value", "v!"),
        ("partition", b"k", b"v!"),
    ]
    assert sends.partitions() == [1]
    assert not sends.engine.enqueued


async def test_a_partition_of_the_caller_is_not_chosen_again() -> None:
    steps = Steps()
    sends = with_all_hooks(steps)
    sends.put("v", partition=0)
    assert "partition" not in {name for name, *_ in steps.log}
    assert sends.partitions() == [0]


async def test_a_refused_record_is_heard_by_interceptors_and_by_its_transaction() -> None:
    steps, transactions = Steps(), Transactions()
    sends = with_all_hooks(steps, transactions)
    with pytest.raises(ProducerError) as caught:
        sends.put("v", partition=-3)
    assert steps.log[-1] == ("on_acknowledgement", -1, type(caught.value))
    assert transactions.refused == [caught.value]
    assert not sends.world.batches


async def test_send_many_reports_refused_records_to_the_transaction_itself() -> None:
    transactions = Transactions()
    sends = Sends(transactions)
    with pytest.raises(SerializationError):
        sends.put(object(), over_capacity=True)
    assert transactions.refused == []


async def test_no_hook_is_called_without_an_open_transaction() -> None:
    steps, transactions = Steps(), Transactions(is_open=False)
    sends = with_all_hooks(steps, transactions)
    with pytest.raises(IllegalStateError):
        sends.put("v")
    assert steps.log == []
    assert transactions.refused == []


async def test_a_timestamp_is_the_callers_or_now() -> None:
    sends = Sends()
    for at in (None, 7):
        sends.put(b"v", topic="unknown", at=at)
    assert [record.timestamp_ms for record, *_ in sends.engine.enqueued] == [NOW_MS, 7]


async def test_a_record_without_its_topic_waits_for_max_block_in_the_name_of_its_task() -> None:
    sends = Sends()
    sends.put(b"v", topic="unknown")
    ((_, deadline, caller),) = sends.engine.enqueued
    assert deadline == sends.world.now + MAX_BLOCK
    assert caller is asyncio.current_task()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_waiting_record_is_withdrawn_if_its_future_is_cancelled(cancelled: bool) -> None:
    sends = Sends()
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    sends.pipeline.put(("unknown", b"v", None, None, None, None), future)
    if cancelled:
        future.cancel()
    else:
        future.set_result(None)
    await settle()
    assert len(sends.engine.withdrawn) == cancelled
