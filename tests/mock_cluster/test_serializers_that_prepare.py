"""Records wait in their order while prepare() of their serializers fetches what they need."""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aioproducer import (
    BufferExhaustedError,
    Producer,
    ProducerClosedError,
    ProducerError,
    RecordTooLargeError,
    SerializationError,
    TransactionAbortedError,
    sync,
)
from aioproducer.errors import AbortableTransactionError, NotPreparedError, PreparationTimeoutError
from aioproducer.serialization import RecordHeaders
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_first


class RefusedError(Exception):
    """A registry that says no."""


class Schemas:
    """A serializer of texts, whose prepare() waits for ``gate`` and raises the next of ``errors``.

    A text ``kind:rest`` needs the schema of its kind, which prepare() brings if it is in
    ``published``; ``refused`` kinds never pass.
    """

    def __init__(self, *errors: Exception, open_gate: bool = True) -> None:
        self.errors = list(errors)
        self.gate = asyncio.Event()
        if open_gate:
            self.gate.set()
        self.calls: list[str] = []
        self.in_flight = 0
        self.published = {"plain"}
        self.loaded: set[str] = set()
        self.refused: set[str] = set()
        self.wanted: set[str] = set()

    async def prepare(self, topic: str) -> None:
        self.calls.append(topic)
        self.in_flight += 1
        assert self.in_flight == 1, "one call at a time for one topic"
        try:
            await self.gate.wait()
            if self.errors:
                raise self.errors.pop(0)
            self.loaded |= {"plain"} | (self.wanted & self.published)
            if self.wanted - self.loaded - self.refused:
                raise ConnectionError(f"no schema of {sorted(self.wanted - self.loaded)}")
        finally:
            self.in_flight -= 1

    def serialize(self, topic: str, data: str, headers: RecordHeaders) -> bytes:
        assert self.loaded, "prepare() comes first"
        kind, _, rest = data.rpartition(":")
        kind = kind or "plain"
        if kind in self.refused:
            raise SerializationError(f"the schema of {kind} is incompatible")
        if kind not in self.loaded:
            self.wanted.add(kind)
            raise NotPreparedError(f"the schema of {kind} is not loaded")
        headers.append(("kind", kind.encode()))
        return rest.encode()


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 1, "others": 1}) as cluster:
        yield cluster


def made(cluster: MockCluster, serializer: Any, **options: Any) -> Producer:
    options = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, **options}
    return Producer(
        bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer, **options
    )


def values(cluster: MockCluster, count: int, topic: str = "orders") -> list[str]:
    return [(each.value or b"").decode() for each in read_first(cluster, topic, count)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 -- the state of objects without events
            await asyncio.sleep(0.001)


async def test_records_wait_in_their_order_and_prepare_is_called_once(
    orders: MockCluster,
) -> None:
    schemas = Schemas(open_gate=False)
    async with made(orders, schemas) as producer:
        sent = [producer.send("orders", str(number)) for number in range(500)]
        await until(lambda: bool(schemas.calls))
        assert not any(future.done() for future in sent)
        schemas.gate.set()
        later = [producer.send("orders", str(number)) for number in range(500, 600)]
        await asyncio.gather(*sent, *later)
        sent += [producer.send("orders", "600", headers={"trace": b"1"})]
        await sent[-1]
        assert schemas.calls == ["orders"]
    assert values(orders, 601) == [str(number) for number in range(601)]
    *_, last = read_first(orders, "orders", 601)
    assert dict(last.headers or ()) == {"trace": b"1", "kind": b"plain"}


async def test_topics_wait_for_themselves_alone(orders: MockCluster) -> None:
    class OneTopic(Schemas):
        async def prepare(self, topic: str) -> None:
            if topic == "others":
                await asyncio.Event().wait()
            await super().prepare(topic)

    async with made(orders, OneTopic(), max_block_ms=500) as producer:
        stuck = producer.send("others", "0")
        assert (await producer.send("orders", "1")).offset == 0
        assert not stuck.done()
        with pytest.raises(PreparationTimeoutError, match=r"'others'.*within.*max_block_ms"):
            await stuck


async def test_a_registry_that_is_down_is_asked_again(orders: MockCluster) -> None:
    schemas = Schemas(ConnectionError("down"), TimeoutError("slow"))
    async with made(orders, schemas) as producer:
        sent = [producer.send("orders", str(number)) for number in range(10)]
        await asyncio.gather(*sent)
    assert len(schemas.calls) == 3
    assert values(orders, 10) == [str(number) for number in range(10)]


async def test_records_expire_with_the_last_error_and_later_ones_pass(
    orders: MockCluster,
) -> None:
    schemas = Schemas(*[ConnectionError("registry is down") for _ in range(1000)])
    async with made(orders, schemas, max_block_ms=300) as producer:
        with pytest.raises(PreparationTimeoutError, match="ConnectionError: registry is down") as e:
            await producer.send("orders", "lost")
        assert isinstance(e.value, TimeoutError)
        assert isinstance(e.value.__cause__, ConnectionError)
        schemas.errors.clear()
        await producer.send("orders", "passes")
    assert values(orders, 1) == ["passes"]


@pytest.mark.parametrize("pause", [0.02, 0.4])
async def test_a_registry_is_asked_again_however_soon_records_expire(
    orders: MockCluster, pause: float
) -> None:
    """Each record waits for less time than the backoff between two calls of prepare()."""
    schemas = Schemas(*[ConnectionError("registry is down") for _ in range(1000)])
    slowly: dict[str, Any]
    slowly = {"max_block_ms": 200, "retry_backoff_ms": 300, "retry_backoff_max_ms": 600}
    sent: list[asyncio.Future[Any]] = []
    async with made(orders, schemas, **slowly) as producer:
        while len(schemas.calls) < 3:
            sent.append(producer.send("orders", "lost"))
            await asyncio.sleep(pause)
        await asyncio.wait(sent)
        schemas.errors.clear()
        async with asyncio.timeout(10):
            while not any(each.done() and each.exception() is None for each in sent):
                sent.append(producer.send("orders", "passes"))
                await asyncio.sleep(pause)
        await asyncio.wait(sent)
    failures = [each.exception() for each in sent]
    assert {type(each) for each in failures} == {PreparationTimeoutError, type(None)}


async def test_prepare_may_take_longer_than_a_record_waits(orders: MockCluster) -> None:
    schemas = Schemas(open_gate=False)
    async with made(orders, schemas, max_block_ms=100) as producer:
        for _ in range(3):
            with pytest.raises(PreparationTimeoutError, match=r"prepare\(\) has not returned"):
                await producer.send("orders", "lost")
        schemas.gate.set()
        assert (await producer.send("orders", "passes")).offset == 0
        assert schemas.calls == ["orders"]


async def test_a_refusal_fails_the_waiting_records_and_the_next_one_asks_again(
    orders: MockCluster,
) -> None:
    schemas = Schemas(RefusedError("incompatible: field x"), open_gate=False)
    async with made(orders, schemas) as producer:
        sent = [producer.send("orders", str(number)) for number in range(300)]
        schemas.gate.set()
        for future in sent:
            with pytest.raises(
                SerializationError, match="RefusedError: incompatible: field x"
            ) as e:
                await future
            assert isinstance(e.value.__cause__, RefusedError)
        await producer.send("orders", "passes")
    assert values(orders, 1) == ["passes"]


async def test_a_schema_first_seen_in_a_record_is_fetched_then(orders: MockCluster) -> None:
    schemas = Schemas()
    schemas.published |= {"a", "b"}
    async with made(orders, schemas) as producer:
        await producer.send("orders", "0")
        sent = [producer.send("orders", text) for text in ("a:1", "2", "b:3", "a:4", "5")]
        await asyncio.gather(*sent)
        await producer.send("orders", "6")
    assert values(orders, 7) == [str(number) for number in range(7)]
    assert len(schemas.calls) == 2, "one call fetches all that records lack by then"


async def test_one_missing_schema_fails_its_records_alone(orders: MockCluster) -> None:
    schemas = Schemas()
    async with made(orders, schemas, max_block_ms=300) as producer:
        await producer.send("orders", "0")
        lost, kept = producer.send("orders", "gone:x"), producer.send("orders", "1")
        with pytest.raises(PreparationTimeoutError, match="no schema of"):
            await lost
        assert (await kept).offset == 1
        await producer.send("orders", "2")
        schemas.refused = {"bad"}
        with pytest.raises(SerializationError, match="bad is incompatible"):
            producer.send("orders", "bad:y")
    assert values(orders, 3) == ["0", "1", "2"]


async def test_a_cancelled_record_is_not_sent(orders: MockCluster) -> None:
    schemas = Schemas(open_gate=False)
    async with made(orders, schemas) as producer:
        first, second, third = (producer.send("orders", text) for text in "123")
        second.cancel()
        await asyncio.sleep(0)
        assert producer.metrics()["producer-metrics"]["waiting-threads"] == 2
        schemas.gate.set()
        await asyncio.gather(first, third)
    assert values(orders, 2) == ["1", "3"]


async def test_the_arguments_are_checked_at_the_call(orders: MockCluster) -> None:
    schemas = Schemas(open_gate=False)
    async with made(orders, schemas) as producer:
        for wrong in ({"headers": {"a": 1}}, {"partition": -1}, {"timestamp_ms": "now"}):
            with pytest.raises(ProducerError):
                producer.send("orders", "1", **wrong)
        schemas.gate.set()


async def test_an_object_that_can_not_be_serialized_fails_its_future(orders: MockCluster) -> None:
    schemas = Schemas(open_gate=False)
    async with made(orders, schemas, max_request_size=1000) as producer:
        wrong = producer.send("orders", 17)
        large = producer.send("orders", "x" * 2000)
        right = producer.send("orders", "1")
        schemas.gate.set()
        with pytest.raises(SerializationError, match="value_serializer failed on a int"):
            await wrong
        with pytest.raises(RecordTooLargeError):
            await large
        assert (await right).offset == 0


async def test_flush_and_close_wait_for_unserialized_records(orders: MockCluster) -> None:
    schemas = Schemas(open_gate=False)
    producer = made(orders, schemas)
    await producer.start()
    first = producer.send("orders", "1")
    flushing = asyncio.create_task(producer.flush())
    await until(lambda: bool(schemas.calls))
    assert not flushing.done()
    schemas.gate.set()
    await flushing
    assert first.done()
    schemas.loaded.clear()
    second = producer.send("others", "2")
    assert await producer.close() == 0
    assert (await second).topic == "others"


async def test_close_gives_up_records_whose_serializer_never_comes(orders: MockCluster) -> None:
    producer = made(orders, Schemas(open_gate=False))
    await producer.start()
    sent = [producer.send("orders", str(number)) for number in range(3)]
    assert await producer.close(0.1) == 3
    for future in sent:
        with pytest.raises(ProducerClosedError):
            await future


def send_until_full(producer: Producer, value: str, header: bytes) -> int:
    for sent in range(1000):
        try:
            producer.send("orders", value, headers=[("h", header)])
        except BufferExhaustedError:
            return sent
    raise AssertionError("memory is not bounded")


@pytest.mark.parametrize("fields", [("x" * 9_000, b""), ("x", b"x" * 9_000)])
async def test_unserialized_records_count_in_the_memory(
    orders: MockCluster, fields: tuple[str, bytes]
) -> None:
    schemas = Schemas(open_gate=False)
    async with made(orders, schemas, buffer_memory=400_000, batch_size=1000) as producer:
        full = producer.metrics()["producer-metrics"]["buffer-available-bytes"]
        assert 1 < send_until_full(producer, *fields) * 9_000 <= 400_000
        schemas.gate.set()
        await producer.flush()
        assert producer.metrics()["producer-metrics"]["buffer-available-bytes"] == full


async def test_send_many_waits_too(orders: MockCluster) -> None:
    schemas = Schemas(ConnectionError("down"))
    async with made(orders, schemas) as producer:
        report = await producer.send_many("orders", [str(number) for number in range(2000)])
        assert (report.delivered, report.failed) == (2000, 0)
    assert values(orders, 2000) == [str(number) for number in range(2000)]


async def test_a_waiting_record_that_fails_fails_its_transaction(orders: MockCluster) -> None:
    schemas = Schemas(RefusedError("no"))
    async with made(orders, schemas, transactional_id="prepared") as producer:
        with pytest.raises(AbortableTransactionError):
            async with producer.transaction():
                lost = producer.send("orders", "1")
        with pytest.raises((SerializationError, TransactionAbortedError)):
            await lost
        async with producer.transaction():
            kept = producer.send("orders", "2")
        assert (await kept).topic == "orders"


async def test_a_key_decides_the_partition_after_the_wait() -> None:
    class Keys(Schemas):
        def serialize(self, topic: str, data: str, headers: RecordHeaders) -> bytes:
            return super().serialize(topic, data, headers).upper()

    with MockCluster(brokers=2, topics={"orders": 8}) as cluster:
        prepared = Keys(open_gate=False)
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, key_serializer=prepared
        ) as producer:
            waiting = producer.send("orders", b"v", key="customer")
            prepared.gate.set()
            there = await waiting
            again = await producer.send("orders", b"v", key="customer")
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as plain:
            expected = await plain.send("orders", b"v", key=b"CUSTOMER")
    assert there.partition == again.partition == expected.partition


def test_the_blocking_producer_waits_beside_its_callers(orders: MockCluster) -> None:
    class Late(Schemas):
        def __init__(self) -> None:
            self.loaded, self.refused, self.wanted = set(), set(), set()

        async def prepare(self, topic: str) -> None:
            await asyncio.sleep(0.05)
            self.loaded.add("plain")

    with sync.Producer(
        bootstrap_servers=orders.bootstrap_servers, value_serializer=Late()
    ) as producer:
        sent = [producer.send("orders", str(number)) for number in range(50)]
        assert sent[-1].result(30).offset == 49
    assert values(orders, 50) == [str(number) for number in range(50)]


async def test_the_loop_goes_on_while_prepare_waits(orders: MockCluster) -> None:
    """Ten thousand records are serialized in slices, between other tasks' turns."""
    schemas = Schemas(open_gate=False)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with made(orders, schemas) as producer:
        sent = [producer.send("orders", str(number)) for number in range(10_000)]
        await until(lambda: bool(schemas.calls))
        other = asyncio.create_task(turn())
        schemas.gate.set()
        await until(lambda: sent[0].done())
        before = turns
        await asyncio.gather(*sent)
        other.cancel()
    assert turns >= 50
    assert before > 0


async def test_a_cancellation_from_within_fails_the_records_of_its_topic_alone(
    orders: MockCluster,
) -> None:
    class Cancelled(Schemas):
        async def prepare(self, topic: str) -> None:
            if topic == "orders":
                await asyncio.gather(self._cancelled())
            await super().prepare(topic)

        async def _cancelled(self) -> None:
            raise asyncio.CancelledError

    async with made(orders, Cancelled()) as producer:
        failing, passing = producer.send("orders", "1"), producer.send("others", "1")
        with pytest.raises(SerializationError, match="CancelledError"):
            await failing
        await passing


async def test_close_ends_although_prepare_ignores_its_cancellation(orders: MockCluster) -> None:
    freed = asyncio.Event()

    class Stubborn(Schemas):
        async def prepare(self, topic: str) -> None:
            self.calls.append(topic)
            while not freed.is_set():
                try:
                    await freed.wait()
                except asyncio.CancelledError:
                    continue

    schemas = Stubborn()
    producer = made(orders, schemas)
    await producer.start()
    waiting = producer.send("orders", "1")
    await until(lambda: bool(schemas.calls))
    async with asyncio.timeout(20):
        await producer.close(timeout=0.1)
    with pytest.raises(ProducerClosedError):
        await waiting
    freed.set()


async def test_a_close_that_raises_a_cancellation_is_one_more_error(orders: MockCluster) -> None:
    class Closing(Schemas):
        async def close(self) -> None:
            raise asyncio.CancelledError

    async with made(orders, Closing) as producer:
        await producer.send("orders", "1")


async def test_headers_of_an_iterator_are_kept_while_a_record_waits(orders: MockCluster) -> None:
    schemas = Schemas()
    schemas.published.add("new")
    async with made(orders, schemas) as producer:
        await producer.send("orders", "1")
        pairs: Any = ((name, b"v") for name in "ab")
        await producer.send("orders", "new:2", headers=pairs)
        with pytest.raises(SerializationError, match="must be a mapping"):
            producer.send("orders", "3", headers=3)  # type: ignore[arg-type]
    *_, last = read_first(orders, "orders", 2)
    assert dict(last.headers or ()) == {"a": b"v", "b": b"v", "kind": b"new"}


async def test_an_expired_record_tells_what_its_serializer_lacks(orders: MockCluster) -> None:
    class Lacking(Schemas):
        async def prepare(self, topic: str) -> None:
            self.loaded.add("plain")

    async with made(orders, Lacking(), max_block_ms=200) as producer:
        with pytest.raises(PreparationTimeoutError, match="the schema of new is not loaded"):
            await producer.send("orders", "new:1")


async def test_records_behind_late_ones_that_lack_something_are_written(
    orders: MockCluster,
) -> None:
    class Lacking(Schemas):
        async def prepare(self, topic: str) -> None:
            self.loaded.add("plain")

    async with made(orders, Lacking(), max_block_ms=300, linger_ms=0) as producer:
        lacking = [producer.send("orders", f"new:{number}") for number in range(1_000)]
        results = await asyncio.gather(*lacking, return_exceptions=True)
        assert all(isinstance(each, PreparationTimeoutError) for each in results)
        await producer.send("orders", "1")


async def test_an_object_that_can_not_be_copied_waits_itself_and_a_warning_says_so(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    class Locked:
        def __init__(self) -> None:
            self.lock = threading.Lock()

    class Names(Schemas):
        def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes:
            return type(data).__name__.encode()

    schemas = Names(open_gate=False)
    async with made(orders, schemas) as producer:
        sent = [producer.send("orders", Locked()) for _ in range(5)]
        schemas.gate.set()
        await asyncio.gather(*sent)
    assert values(orders, 5) == ["Locked"] * 5
    said = [each.getMessage() for each in caplog.records if "can't be copied" in each.message]
    assert "a Locked for topic orders can't be copied (TypeError: cannot pickle" in said[0]
    assert said[0].endswith("if it changes now, the record changes, too")
    assert len(said) < len(sent), "the repeats are counted in one more line"


async def test_a_view_waits_as_a_view_of_a_copy(orders: MockCluster) -> None:
    class Shapes(Schemas):
        def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes:
            return f"{data.tolist()} {data.format} {data.readonly}".encode()

    schemas = Shapes(open_gate=False)
    numbers = array("i", range(6))
    async with made(orders, schemas) as producer:
        views = [memoryview(numbers), memoryview(numbers).cast("B").cast("i", (2, 3))]
        sent = [producer.send("orders", each) for each in views]
        numbers[:] = array("i", [7] * 6)
        schemas.gate.set()
        await asyncio.gather(*sent)
    assert values(orders, 2) == [
        "[0, 1, 2, 3, 4, 5] i True", "[[0, 1, 2], [3, 4, 5]] i True",
    ]  # fmt: skip
