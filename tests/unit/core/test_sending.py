"""The long way of a record: its steps, their order, refusals, sizes and traces."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
import pytest
from pydantic import BaseModel

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import PendingRecord, RecordAccumulator, SerializedRecord
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.core.hooks import Hooks
from aioproducer.engine.core.sending import PythonFastPath, SendPipeline
from aioproducer.engine.core.serializer_preparation import estimated_size
from aioproducer.engine.core.tracing import (
    TracedCall,
    Tracing,
    end,
    end_refused,
    in_context,
    joined_headers,
)
from aioproducer.engine.core.transaction_api import TransactionApi
from aioproducer.engine.observer import BatchOutcome, RequestOutcome, Untraced
from aioproducer.errors import IllegalStateError, ProducerError, SerializationError
from aioproducer.model import Header, ProducerRecord, RecordMetadata
from tests.support.tokens import Token
from tests.support.waiting import settle
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

    def record_failed(self, error: ProducerError, *, refused: bool = False) -> None:
        assert refused
        self.refused.append(error)


class Accumulator:
    """A real accumulator, and a log of the records that wait."""

    def __init__(self, world: World) -> None:
        self._real = world.accumulator
        self.pending = self
        self.enqueued: list[tuple[SerializedRecord, float, Any]] = []
        self.withdrawn: list[PendingRecord] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def enqueue(self, record: SerializedRecord, now: float, **named: Any) -> PendingRecord:
        pending = self._real.enqueue(record, now, **named)
        self.enqueued.append((record, pending.deadline, named["caller"]))
        return pending

    def withdraw(self, record: PendingRecord) -> None:
        self.withdrawn.append(record)


class Sends:
    """A pipeline into a real accumulator that knows the topic ``orders``, of two partitions."""

    def __init__(self, transactions: Transactions | None = None, **options: Any) -> None:
        self.world = World(make_future=Token, partitioner=options.get("partitioner"))
        leaders = (PartitionLeader(0, 1), PartitionLeader(1, 1))
        self.world.accumulator.update_topic(TopicInfo("orders", None, leaders), self.world.now)
        self.accumulator = Accumulator(self.world)
        self.pipeline = SendPipeline(
            cast(RecordAccumulator, self.accumulator),
            Hooks(ProducerConfig(bootstrap_servers="nowhere:9092", **options)),
            None,
            cast(TransactionApi | None, transactions),
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
    assert not sends.accumulator.enqueued


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
    assert [record.timestamp_ms for record, *_ in sends.accumulator.enqueued] == [NOW_MS, 7]


async def test_a_record_without_its_topic_waits_for_max_block_in_the_name_of_its_task() -> None:
    sends = Sends()
    sends.put(b"v", topic="unknown")
    ((_, deadline, caller),) = sends.accumulator.enqueued
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
    assert len(sends.accumulator.withdrawn) == cancelled


LARGE = b"x" * 100_000


@dataclass
class Plain:
    data: Any


@dataclass(slots=True)
class Slotted:
    data: Any


class Struct(msgspec.Struct):
    data: Any


class Model(BaseModel):
    data: Any


class Message:
    """As Protocol Buffers have them: the data is not among Python's objects."""

    def ByteSize(self) -> int:  # noqa: N802
        return len(LARGE)


class OneSlot:
    __slots__ = "data"


def in_one_slot() -> OneSlot:
    made = OneSlot()
    made.data = LARGE  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    "data",
    [
        LARGE,
        {"data": LARGE},
        [{"items": [LARGE]}],
        Plain(LARGE),
        Slotted(LARGE),
        Struct(LARGE),
        Model(data=LARGE),
        in_one_slot(),
        Slotted([Slotted({"data": LARGE})]),
        Message(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_parts_count(data: Any) -> None:
    assert 100_000 <= estimated_size(data) < 110_000


def test_an_object_that_holds_itself_has_a_size() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert estimated_size(ring) > 0


def test_nothing_takes_nothing() -> None:
    assert estimated_size(None) == 0
    assert estimated_size(Message) > 0


FIELDS = ("orders", b"v", b"k", 3, None, None)
CONTEXT: Header = ("traceparent", b"00-1")


class Trace:
    headers = (CONTEXT,)

    def __init__(self, behind: Untraced | None = None) -> None:
        self.behind = behind
        self.ends: list[tuple[RecordMetadata, BaseException | None]] = []

    def headers_for(self, own: Any) -> tuple[Header, ...]:
        return self.headers

    def ended(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.ends.append((metadata, error))


class FakeObserver:
    """Returns the decisions it was made with, and notes the questions."""

    traces = True

    def __init__(self, *decisions: Any) -> None:
        self._decisions: Iterator[Any] = iter(decisions)
        self.asked: list[tuple[Any, ...]] = []
        self.present = object()

    def context(self) -> object:
        return self.present

    def record_sent(self, *fields: Any) -> Any:
        self.asked.append(fields)
        decision = next(self._decisions)
        if isinstance(decision, Exception):
            raise decision
        return decision

    def call_started(self, topic: str, headers: Any) -> Any:
        return self.record_sent(topic, headers)

    def batch_ended(self, outcome: BatchOutcome) -> None: ...

    def request_ended(self, outcome: RequestOutcome) -> None: ...

    def close(self) -> None: ...


def test_a_traced_record_has_its_context_behind_its_own_headers() -> None:
    trace = Trace()
    observer = FakeObserver(trace, trace)
    tracing = Tracing(observer, PythonFastPath())
    assert tracing.begin(FIELDS) == (("orders", b"v", b"k", 3, (CONTEXT,), None), trace)
    fields, _ = tracing.begin((*FIELDS[:4], {"own": b"1"}, None))
    assert fields[4] == (("own", b"1"), CONTEXT)
    assert observer.asked == [("orders", b"k", 3, None), ("orders", b"k", 3, {"own": b"1"})]


def test_a_decision_holds_for_its_number_of_records_in_its_context() -> None:
    observer = FakeObserver(Untraced(3, (CONTEXT,)), Untraced(), Untraced())
    tracing = Tracing(observer, PythonFastPath())
    sent = [tracing.begin(FIELDS) for _ in range(3)]
    assert sent == [((*FIELDS[:4], (CONTEXT,), None), None)] * 3
    assert len(observer.asked) == 1
    assert tracing.begin(FIELDS) == (FIELDS, None)
    assert len(observer.asked) == 2
    observer.present = object()
    tracing.begin(FIELDS)
    assert len(observer.asked) == 3


def test_a_traced_record_brings_a_decision_about_those_behind_it() -> None:
    trace = Trace(Untraced(2, (CONTEXT,)))
    observer = FakeObserver(trace, trace, Trace(Untraced(0)), Trace(), Untraced())
    tracing = Tracing(observer, PythonFastPath())
    assert tracing.begin((*FIELDS[:4], {"own": b"1"}, None))[1] is trace
    assert tracing.begin(FIELDS)[1] is trace
    sent = [tracing.begin(FIELDS) for _ in range(2)]
    assert sent == [((*FIELDS[:4], (CONTEXT,), None), None)] * 2
    assert len(observer.asked) == 2
    for asked in (3, 4, 5):
        tracing.begin(FIELDS)
        assert len(observer.asked) == asked


def test_a_record_with_headers_is_always_asked_about() -> None:
    observer = FakeObserver(Untraced(9), Untraced(9), Untraced(9))
    tracing = Tracing(observer, PythonFastPath())
    for _ in range(3):
        tracing.begin((*FIELDS[:4], (("own", b"1"),), None))
    assert len(observer.asked) == 3


@pytest.mark.parametrize("own", [None, (), [("a", b"1")], {"a": b"1"}])
def test_joined_headers(own: Any) -> None:
    joined = joined_headers(own, (CONTEXT,))
    assert joined == ((("a", b"1"), CONTEXT) if own else (CONTEXT,))


def test_invalid_headers_stay_for_the_check_that_refuses_them() -> None:
    assert joined_headers(7, (CONTEXT,)) == 7
    assert joined_headers(7, ()) == 7


def test_an_observer_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Trace):
        def ended(self, metadata: RecordMetadata, error: BaseException | None) -> None:
            raise ValueError("no span")

    tracing = Tracing(FakeObserver(ValueError("a"), ValueError("b")), PythonFastPath())
    with caplog.at_level(logging.ERROR, "aioproducer.observer"):
        assert tracing.begin(FIELDS) == (FIELDS, None)
        assert tracing.begin_call("orders", None) is None
        end(Fails(), RecordMetadata("orders", 0, 1, 2, 3, 4), None)
    assert len(caplog.records) == 3


def test_a_trace_that_fails_on_a_whole_record_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Fails(Trace):
        def headers_for(self, own: Any) -> tuple[Header, ...]:
            raise ValueError("no headers")

    def sent(trace: Trace) -> Any:
        call = TracedCall(Tracing(FakeObserver(trace), PythonFastPath()), "orders", None)
        return in_context(FIELDS, call.headers)

    assert sent(Trace()) == (*FIELDS[:4], (CONTEXT,), None)
    with caplog.at_level(logging.ERROR, "aioproducer.observer"):
        assert sent(Fails()) == FIELDS
    assert "for a record of topic 'orders'" in caplog.text


@pytest.mark.parametrize(("given", "told"), [(None, -1), (2, 2), ("2", -1), (-7, -1)])
def test_a_record_that_failed_has_its_topic_and_partition(given: Any, told: int) -> None:
    trace, error = Trace(), ProducerError("no")
    end_refused(trace, ("orders", b"v", None, given, None, None), error)
    assert trace.ends == [(RecordMetadata("orders", told, -1, -1, -1, -1), error)]
