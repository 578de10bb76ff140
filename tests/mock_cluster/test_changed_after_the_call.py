"""What is sent is what stood there at the call, by every way in, whatever changes later.

Each record is made of objects that can change, and all of them are changed right after the call, or
when an iterator is asked for the next value. Another client reads what arrived.
"""

from __future__ import annotations

import asyncio
import json
import threading
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aioproducer import Producer, ProducerRecord, sync
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.compat.confluent import AIOProducer, SerializingProducer
from aioproducer.compat.confluent import Producer as ConfluentProducer
from aioproducer.serialization import RecordHeaders
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_first

NUMBERS: Final = count()
PLAIN: Final = ("bytes", "str", "bytearray", "memoryview", "array")
OBJECTS: Final = (*PLAIN, "dict", "nested", "object")
CONFLUENT: Final = ("bytes", "str")
A_FEW: Final = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # to shrink a failure takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass
class Order:
    text: str


class Field(NamedTuple):
    """A key, a value or the value of a header: ``content`` as an object of a ``kind``."""

    kind: str
    content: str

    def made(self) -> Any:
        data = self.content.encode()
        makers: dict[str, Callable[[], Any]] = {
            "none": lambda: None,
            "bytes": lambda: data,
            "str": lambda: self.content,
            "bytearray": lambda: bytearray(data),
            "memoryview": lambda: memoryview(bytearray(data)),
            "array": lambda: array("B", data),
            "dict": lambda: {"text": self.content},
            "nested": lambda: {"lines": [{"text": self.content}, bytearray(data).hex()]},
            "object": lambda: Order(self.content),
        }
        return makers[self.kind]()

    @property
    def expected(self) -> bytes | None:
        return None if self.kind == "none" else as_bytes(self.made())


def as_bytes(data: Any) -> Any:
    """The serializer of all kinds of fields."""
    if data is None:  # aiokafka's serializers get it
        return None
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, Order):
        return f"order:{data.text}".encode()
    if isinstance(data, dict):
        return json.dumps(data).encode()
    return bytes(data)


def change(data: Any) -> None:
    """Change everything in ``data`` that can change."""
    if isinstance(data, bytearray | array | memoryview):
        for place in range(len(data)):
            data[place] = 0x21
    elif isinstance(data, dict):
        for each in data.values():
            change(each)
        data.clear()
        data["changed"] = "changed"
    elif isinstance(data, list | tuple):
        for each in data:
            change(each)
        if isinstance(data, list):
            data[:] = [("changed", b"changed")]
    elif isinstance(data, Order):
        data.text = "changed"
    elif isinstance(data, ProducerRecord):
        for each in (data.key, data.value, data.headers):
            change(each)
        for name in ("key", "value"):
            object.__setattr__(data, name, b"changed")


class Sent(NamedTuple):
    """A record to send."""

    key: Field
    value: Field
    headers: tuple[tuple[str, Field], ...]
    as_mapping: bool

    def made_headers(self) -> Any:
        pairs = [(name, field.made()) for name, field in self.headers]
        if self.as_mapping:
            return dict(pairs)
        return pairs or None

    def record(self, topic: str) -> ProducerRecord[Any, Any]:
        return ProducerRecord(
            topic, self.value.made(), self.key.made(), headers=self.made_headers()
        )

    @property
    def expected(self) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        pairs = dict(self.headers).items() if self.as_mapping else self.headers
        return (
            self.key.expected,
            self.value.expected,
            [(name, field.expected) for name, field in pairs],
        )


CONTENT: Final = st.text("abcdef", min_size=1, max_size=12)


def fields(kinds: Iterable[str]) -> st.SearchStrategy[Field]:
    return st.builds(Field, st.sampled_from(tuple(kinds)), CONTENT)


def records(
    kinds: Iterable[str], header_kinds: Iterable[str] = PLAIN
) -> st.SearchStrategy[list[Sent]]:
    kinds = tuple(kinds)
    header = st.tuples(st.sampled_from(("a", "b", "c")), fields((*header_kinds, "none")))
    pairs = st.lists(header, max_size=3).map(tuple)
    one = st.builds(Sent, fields((*kinds, "none")), fields(kinds), pairs, st.booleans())
    return st.lists(one, min_size=1, max_size=12)


class Preparing:
    """:func:`as_bytes`, once it has been prepared, which takes several turns of the loop."""

    def __init__(self) -> None:
        self.prepared: set[str] = set()

    async def prepare(self, topic: str) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.prepared.add(topic)

    def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes:
        assert topic in self.prepared
        return bytes(as_bytes(data))


class Seen:
    """An interceptor that sees headers again, and replaces no record."""

    def __init__(self) -> None:
        self.headers: list[Any] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
        self.headers.append(list(headers))


HOOKS: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "plain": dict,
    "serializer": lambda: {"key_serializer": as_bytes, "value_serializer": as_bytes},
    "prepare": lambda: {"key_serializer": Preparing(), "value_serializer": Preparing()},
    "interceptor": lambda: {"interceptor_classes": [Seen()], "value_serializer": as_bytes},
    "partitioner": lambda: {"partitioner": lambda *_: 0},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as cluster:
        yield cluster


def new_topic(cluster: MockCluster) -> str:
    topic = f"changed-{next(NUMBERS)}"
    cluster.create_topic(topic)
    return topic


def check(cluster: MockCluster, topic: str, expected: list[Sent], *, in_order: bool = True) -> None:
    arrived = [
        (each.key, each.value, each.headers or [])
        for each in read_first(cluster, topic, len(expected))
    ]
    sent = [each.expected for each in expected]
    assert arrived == sent if in_order else sorted(arrived, key=repr) == sorted(sent, key=repr)


def yielded(made: list[Any]) -> Iterator[Any]:
    """Each object, changed when the next one is asked for."""
    for each in made:
        yield each
        change(each)


async def yielded_later(made: list[Any]) -> AsyncIterator[Any]:
    for each in yielded(made):
        yield each


def only_values(sent: list[Sent]) -> list[Sent]:
    return [each._replace(key=Field("none", ""), headers=()) for each in sent]


# --- the asynchronous producer -----------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("hooks", HOOKS)
def test_send(cluster: MockCluster, hooks: str, known: bool) -> None:
    kinds = PLAIN if hooks == "partitioner" or hooks == "plain" else OBJECTS

    async def send(sent: list[Sent]) -> None:
        topic, options = new_topic(cluster), HOOKS[hooks]()
        async with Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
            if known:
                await producer.partitions_for(topic)
            for number, each in enumerate(sent):
                if number % 2:
                    record = each.record(topic)
                    producer.send(record)
                    change(record)
                else:
                    key, value, headers = each.key.made(), each.value.made(), each.made_headers()
                    producer.send(topic, value, key=key, headers=headers)
                    change([key, value, headers])
        check(cluster, topic, sent)
        for interceptor in options.get("interceptor_classes", ()):
            assert interceptor.headers == [each.expected[2] for each in sent]

    key_kinds = PLAIN if hooks == "interceptor" else kinds

    @A_FEW
    @given(
        records(kinds).filter(
            lambda sent: all(each.key.kind in (*key_kinds, "none") for each in sent)
        )
    )
    def run(sent: list[Sent]) -> None:
        asyncio.run(send(sent))

    run()


@pytest.mark.parametrize("way", ["values", "records", "async values", "async records"])
@pytest.mark.parametrize("hooks", ["plain", "serializer", "prepare"])
def test_send_many(cluster: MockCluster, hooks: str, way: str) -> None:
    async def send(sent: list[Sent]) -> None:
        topic = new_topic(cluster)
        made = [each.record(topic) if "records" in way else each.value.made() for each in sent]
        values: Any = yielded_later(made) if "async" in way else yielded(made)
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, **HOOKS[hooks]()
        ) as producer:
            report = await producer.send_many(topic, values)
            assert report.delivered == len(sent)
        check(cluster, topic, sent)

    @A_FEW
    @given(records(PLAIN if hooks == "plain" else OBJECTS))
    def run(sent: list[Sent]) -> None:
        asyncio.run(send(sent if "records" in way else only_values(sent)))

    run()


# --- the blocking producer ---------------------------------------------------------------------


@contextmanager
def held(producer: sync.Producer) -> Iterator[None]:
    """The producer's thread stands still."""
    free = threading.Event()
    assert producer._thread.call_soon(free.wait, 60)
    try:
        yield
    finally:
        free.set()


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("hooks", HOOKS)
def test_blocking_send(cluster: MockCluster, hooks: str, known: bool) -> None:
    kinds = PLAIN if hooks == "partitioner" or hooks == "plain" else OBJECTS
    key_kinds = PLAIN if hooks == "interceptor" else kinds

    @A_FEW
    @given(
        records(kinds).filter(
            lambda sent: all(each.key.kind in (*key_kinds, "none") for each in sent)
        )
    )
    def run(sent: list[Sent]) -> None:
        topic, options = new_topic(cluster), HOOKS[hooks]()
        with sync.Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
            if known:
                producer.partitions_for(topic)
            with held(producer):
                for number, each in enumerate(sent):
                    if number % 2:
                        record = each.record(topic)
                        producer.send(record)
                        change(record)
                    else:
                        key, value = each.key.made(), each.value.made()
                        headers = each.made_headers()
                        producer.send(topic, value, key=key, headers=headers)
                        change([key, value, headers])
        check(cluster, topic, sent)
        for interceptor in options.get("interceptor_classes", ()):
            assert interceptor.headers == [each.expected[2] for each in sent]

    run()


@pytest.mark.parametrize("way", ["values", "records"])
@pytest.mark.parametrize("hooks", ["plain", "serializer", "prepare"])
def test_blocking_send_many(cluster: MockCluster, hooks: str, way: str) -> None:
    @A_FEW
    @given(records(PLAIN if hooks == "plain" else OBJECTS))
    def run(sent: list[Sent]) -> None:
        sent = sent if way == "records" else only_values(sent)
        topic = new_topic(cluster)
        made = [each.record(topic) if way == "records" else each.value.made() for each in sent]

        def values() -> Iterator[Any]:
            with held(producer):
                yield from yielded(made)

        with sync.Producer(
            bootstrap_servers=cluster.bootstrap_servers, **HOOKS[hooks]()
        ) as producer:
            assert producer.send_many(topic, values()).delivered == len(sent)
        check(cluster, topic, sent)

    run()


# --- the other clients' interfaces -------------------------------------------------------------


@pytest.mark.parametrize("hooks", ["plain", "serializer"])
def test_aiokafka(cluster: MockCluster, hooks: str) -> None:
    async def send(sent: list[Sent]) -> None:
        topic = new_topic(cluster)
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, **HOOKS[hooks]()
        ) as producer:
            sending = []
            for each in sent:
                key, value, headers = each.key.made(), each.value.made(), each.made_headers()
                sending.append(
                    asyncio.create_task(producer.send(topic, value, key, headers=headers))
                )
                await asyncio.sleep(0)  # the call has begun
                change([key, value, headers])
            await asyncio.gather(*sending)
            batch = producer.create_batch()
            for each in sent:
                key, value, headers = each.key.made(), each.value.made(), each.made_headers()
                batch.append(key=key, value=value, timestamp=None, headers=headers or ())
                change([key, value, headers])
            await producer.send_batch(batch, topic, partition=0)
        check(cluster, topic, sent * 2, in_order=False)  # tasks keep no order

    @A_FEW
    @given(records(("bytes", "bytearray", "memoryview") if hooks == "plain" else OBJECTS))
    def run(sent: list[Sent]) -> None:
        asyncio.run(send(sent))

    run()


@A_FEW
@given(records(CONFLUENT, CONFLUENT))
def test_confluent(cluster: MockCluster, sent: list[Sent]) -> None:
    topic = new_topic(cluster)
    with ConfluentProducer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for each in sent:
            headers = each.made_headers()
            producer.produce(topic, each.value.made(), each.key.made(), headers=headers)
            change(headers)
        messages = [
            {"value": each.value.made(), "key": each.key.made(), "headers": each.made_headers()}
            for each in sent
        ]
        assert producer.produce_batch(topic, messages) == len(sent)
        change([each["headers"] for each in messages])
        change(messages)
    check(cluster, topic, sent * 2)


@A_FEW
@given(records(OBJECTS, CONFLUENT))
def test_serializing_confluent(cluster: MockCluster, sent: list[Sent]) -> None:
    topic = new_topic(cluster)
    with SerializingProducer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "key.serializer": lambda data, _: None if data is None else as_bytes(data),
            "value.serializer": lambda data, _: as_bytes(data),
        }
    ) as producer:
        for each in sent:
            key, value, headers = each.key.made(), each.value.made(), each.made_headers()
            producer.produce(topic, key, value, headers=headers)
            change([key, value, headers])
    check(cluster, topic, sent)


@A_FEW
@given(records(CONFLUENT, CONFLUENT))
def test_confluent_aio(cluster: MockCluster, sent: list[Sent]) -> None:
    async def send() -> None:
        producer = AIOProducer({"bootstrap.servers": cluster.bootstrap_servers})
        producing = []
        for each in sent:
            headers = each.made_headers()
            call = producer.produce(topic, each.value.made(), each.key.made(), headers=headers)
            producing.append(asyncio.create_task(call))
            await asyncio.sleep(0)  # the call has begun
            change(headers)
        await asyncio.gather(*producing)
        await producer.close()

    topic = new_topic(cluster)
    sent = sent * (600 // len(sent))  # every five hundredth call lets other tasks run
    asyncio.run(send())
    check(cluster, topic, sent, in_order=False)
