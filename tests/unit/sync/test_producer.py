"""The blocking shell where no broker answers: what it refuses, and that it never hangs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

import aioproducer
from aioproducer.errors import (
    BufferExhaustedError,
    ConfigError,
    IllegalStateError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    NetworkError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
    RecordTooLargeError,
    SerializationError,
    TopicAuthorizationFailedError,
    WrongLoopError,
)
from aioproducer.model import ProducerRecord, RecordMetadata
from aioproducer.sync import Producer
from aioproducer.sync.inbox import Chunk
from aioproducer.testing import SyncMockProducer
from tests.support.waiting import wait_until

NOBODY = "127.0.0.1:1"
SMALL = 200_000
RECORD = 1_512
"""Bytes that a record of :func:`fill` takes in the inbox."""


@pytest.fixture
def producer() -> Iterator[Producer]:
    producer = Producer(bootstrap_servers=NOBODY)
    producer.start()
    yield producer
    producer.close(0)


@pytest.fixture
def small() -> Iterator[Producer]:
    producer = Producer(bootstrap_servers=NOBODY, buffer_memory=SMALL)
    producer.start()
    yield producer
    producer.close(0)


def fill(producer: Producer, field: str = "value") -> int:
    """Send until that raises, which it does; how many records it was."""
    content: Any = {"h": b"x" * 1000} if field == "headers" else b"x" * 1000
    for sent in range(1_000_000):
        try:
            producer.send("orders", **{"value": None, field: content})
        except (ProducerClosedError, BufferExhaustedError):
            return sent
    raise AssertionError("memory is not bounded")


def is_alive(producer: Producer) -> bool:
    return any(t.name == f"aioproducer-{producer.client_id}" for t in threading.enumerate())


def run_in_loop(producer: Producer, call: Callable[..., object], *args: object) -> None:
    assert producer._thread._loop is not None
    producer._thread._loop.call_soon_threadsafe(call, *args)


# --- in a coroutine ----------------------------------------------------------------------------


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "used in a coroutine" in each]


async def test_a_producer_that_stops_the_event_loop_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Producer(bootstrap_servers=NOBODY) as producer:
        future = producer.send("orders", b"1")
        with pytest.raises(TimeoutError):
            future.result(0.01)
        with pytest.raises(ProducerTimeoutError):
            producer.flush(0.01)
        producer.close(0)
    [line] = warnings_of(caplog)
    assert producer.client_id in line
    assert "use aioproducer.Producer there, or asyncio.to_thread()" in line


async def test_a_cell_of_a_notebook_is_no_coroutine(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    with Producer(bootstrap_servers=NOBODY) as producer:
        producer.close(0)
    assert warnings_of(caplog) == []


async def test_a_producer_in_a_thread_beside_the_event_loop_is_no_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def use() -> None:
        with Producer(bootstrap_servers=NOBODY) as producer:
            producer.close(0)

    await asyncio.to_thread(use)
    assert warnings_of(caplog) == []


# --- what is refused, and where ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"value": object()}, SerializationError),
        ({"key": 3}, SerializationError),
        ({"headers": {"h": 1}}, SerializationError),
        ({"headers": 7}, SerializationError),
        ({"value": b"x" * 2_000_000}, RecordTooLargeError),
        ({"headers": {"h": b"x" * 2_000_000}}, RecordTooLargeError),
        ({"partition": -1}, InvalidPartitionError),
        ({"timestamp_ms": 1.5}, InvalidTimestampError),
        ({"topic": ""}, InvalidTopicError),
        ({"topic": ["orders"]}, InvalidTopicError),
    ],
)
def test_what_is_wrong_with_a_record_is_in_its_future(
    producer: Producer, arguments: dict[str, Any], error: type[ProducerError]
) -> None:
    record = {"topic": "orders", "value": b"v", **arguments}
    assert isinstance(producer.send(**record).exception(5), error)
    assert producer.close(0) == 0


def test_the_collector_finds_a_record_that_no_batch_took(producer: Producer) -> None:
    value = ThreadPoolExecutor()  # any object that is not bytes
    alive = weakref.ref(value)
    assert producer.send("orders", value).exception(5)
    del value
    wait_until(lambda: gc.collect() >= 0 and alive() is None)


def test_a_value_that_was_left_out_is_an_error_of_the_call(producer: Producer) -> None:
    with pytest.raises(SerializationError, match=r"no value.*value=None"):
        producer.send("orders", key=b"k")
    assert producer.close(0) == 0


async def asynchronous() -> AsyncIterator[bytes]:
    yield b"v"


@pytest.mark.parametrize("values", ["abc", b"abc", bytearray(b"abc"), 5, None, asynchronous()])
def test_send_many_takes_values_one_by_one(producer: Producer, values: Any) -> None:
    with pytest.raises(SerializationError, match=r"an iterable(?! or async)"):
        producer.send_many("orders", values)
    assert producer.close(0) == 0


def test_headers_of_send_many_that_are_wrong_are_so_for_the_call(producer: Producer) -> None:
    with pytest.raises(SerializationError, match="headers"):
        producer.send_many("orders", [b"v"], headers=5)  # type: ignore[arg-type]


def test_a_record_comes_alone(producer: Producer) -> None:
    extras: list[dict[str, Any]] = [{"value": b"v"}, {"key": b"k"}, {"headers": {}}]
    for extra in extras:
        with pytest.raises(SerializationError, match="only argument"):
            producer.send(ProducerRecord("orders", b"secret"), **extra)


@pytest.mark.parametrize(
    "name",
    ["check", "partitions_for", "commit_transaction", "committed_offsets", "client_instance_id"],
)
def test_a_call_has_the_signature_and_docstring_of_the_asynchronous_one(name: str) -> None:
    blocking, asynchronous = getattr(Producer, name), getattr(aioproducer.Producer, name)
    assert inspect.signature(blocking) == inspect.signature(asynchronous)
    assert blocking.__name__ == name
    assert blocking.__doc__ == asynchronous.__doc__
    assert not inspect.iscoroutinefunction(inspect.unwrap(blocking)), "frameworks ask this"


def test_a_wrong_argument_is_an_error_of_the_call(producer: Producer) -> None:
    with pytest.raises(TypeError, match=r"check\(\) got an unexpected keyword argument 'topicz'"):
        producer.check(topicz=["orders"])  # type: ignore[call-arg]


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError):
        Producer(bootstrap_servers=NOBODY, ackz="all")  # type: ignore[call-arg]


def test_not_started() -> None:
    producer = Producer(bootstrap_servers=NOBODY)
    calls: tuple[Callable[[], object], ...] = (
        lambda: producer.send("orders", b"1"),
        lambda: producer.send_many("orders", [b"1"]),
        producer.flush,
        producer.metrics,
    )
    for call in calls:
        with pytest.raises(IllegalStateError, match="not started"):
            call()
    assert producer.close() == 0
    with pytest.raises(IllegalStateError, match="once"):
        producer.start()


def test_a_start_that_fails_says_why() -> None:
    producer = Producer(
        bootstrap_servers="no.such.host.invalid:9092",
        client_dns_lookup="resolve_canonical_bootstrap_servers_only",
    )
    with pytest.raises(NetworkError):
        producer.start()
    with pytest.raises(NetworkError):
        producer.send("orders", b"1")
    assert producer.close() == 0
    assert not is_alive(producer)


def test_closed(producer: Producer) -> None:
    with pytest.raises(IllegalStateError, match="once"):
        producer.start()
    assert producer.close() == 0
    assert producer.close() == 0
    assert producer.metrics()
    calls: tuple[Callable[[], object], ...] = (
        lambda: producer.send("orders", b"1"),
        lambda: producer.send_many("orders", [b"1"]),
        producer.flush,
    )
    for call in calls:
        with pytest.raises(ProducerClosedError):
            call()
    assert not is_alive(producer)


# --- calls that wait, in the producer's own thread ---------------------------------------------


def waiting_calls(producer: Producer) -> dict[str, Callable[[], object]]:
    """Every call that waits, of ``producer`` and of a pending future that it returned."""
    pending = producer.send("orders", b"pending")

    def transaction() -> None:
        with producer.transaction():
            pass

    return {
        "result": pending.result,
        "result with a timeout": lambda: pending.result(60),
        "exception": pending.exception,
        "wait": lambda: concurrent.futures.wait([pending]),
        "as_completed": lambda: list(concurrent.futures.as_completed([pending])),
        "flush": producer.flush,
        "flush with a timeout": lambda: producer.flush(60),
        "close": producer.close,
        "close with a timeout": lambda: producer.close(60),
        "send_many of a list": lambda: producer.send_many("orders", [b"1"]),
        "send_many of an iterator": lambda: producer.send_many("orders", iter([b"1"])),
        "partitions_for": lambda: producer.partitions_for("orders"),
        "partition_infos_for": lambda: producer.partition_infos_for("orders"),
        "check": producer.check,
        "transaction": transaction,
        "init_transactions": producer.init_transactions,
        "begin_transaction": producer.begin_transaction,
        "commit_transaction": producer.commit_transaction,
        "abort_transaction": producer.abort_transaction,
        "send_offsets": lambda: producer.send_offsets_to_transaction({}, "group"),
        "committed_offsets": lambda: producer.committed_offsets("group", []),
        "transaction_handle": producer.transaction_handle,
        "client_instance_id": producer.client_instance_id,
    }


def outcomes_of(calls: dict[str, Callable[[], object]]) -> dict[str, object]:
    """The result or the error of each call."""
    told: dict[str, object] = {}
    for name, call in calls.items():
        try:
            told[name] = call()
        except Exception as error:
            told[name] = error
    return told


def own_thread(producer: Producer) -> str:
    return (
        f"a callback or hook of the producer {producer.client_id!r} runs in its thread, which "
        "would wait for itself: only call send() there, use future.add_done_callback() instead of "
        "result(), and call what waits in another thread"
    )


def test_every_call_that_waits_is_refused_in_a_callback(producer: Producer) -> None:
    calls: Future[dict[str, object]] = Future()

    def callback(_: object) -> None:
        calls.set_result(outcomes_of(waiting_calls(producer)))

    free = threading.Event()
    run_in_loop(producer, lambda: free.wait(60))
    producer.send("orders", object()).add_done_callback(callback)
    free.set()
    told = calls.result(30)
    assert [name for name, each in told.items() if not isinstance(each, IllegalStateError)] == []
    assert {str(each) for each in told.values()} == {own_thread(producer)}


def test_a_callback_may_call_what_does_not_wait(producer: Producer) -> None:
    told: Future[list[object]] = Future()

    def callback(done: Future[RecordMetadata]) -> None:
        pending = producer.send("orders", b"2")
        calls: dict[str, Callable[[], object]] = {
            "result": lambda: pending.result(0),
            "exception": lambda: pending.exception(0),
        }
        seen: list[object] = [type(each) for each in outcomes_of(calls).values()]
        seen += [pending.done(), type(done.exception()), "producer-metrics" in producer.metrics()]
        told.set_result([*seen, producer.health().is_live])

    free = threading.Event()
    run_in_loop(producer, lambda: free.wait(60))
    producer.send("orders", object()).add_done_callback(callback)
    free.set()
    assert told.result(30) == [TimeoutError, TimeoutError, False, SerializationError, True, True]


class Hooks:
    """Hooks that wait for a record, and the errors that they get."""

    def __init__(self) -> None:
        self.told: dict[str, Future[object]] = {}
        self.call: Callable[[], object] | None = None
        """What waits."""

    def wait(self, hook: str) -> None:
        told = self.told.setdefault(hook, Future())
        if self.call is not None and not told.done():
            told.set_result(outcomes_of({hook: self.call})[hook])

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        self.wait("on_acknowledgement")

    def partition(self, topic: str, *rest: object) -> int:
        self.wait("partitioner")
        return 0

    async def prepare(self, topic: str) -> None:
        self.wait("prepare")

    def serialize(self, topic: str, data: bytes, headers: object) -> bytes:
        return data

    def on_failed(self, record: object) -> None:
        self.wait("on_failed")

    def close(self) -> None:
        self.wait("close")


def test_every_call_that_waits_is_refused_in_the_hooks_of_the_producers_thread() -> None:
    hooks = Hooks()
    producer = SyncMockProducer(
        auto_complete=False,
        interceptor_classes=[hooks],
        partitioner=hooks.partition,
        value_serializer=hooks,
        on_failed=hooks.on_failed,
    )
    with producer:
        failing = producer.send("orders", b"failing")
        hooks.call = producer.send("others", b"pending").result
        assert producer.fail_next(TopicAuthorizationFailedError("no"))
        assert failing.exception(30)
        producer.send("more", b"pending")
        wait_until(lambda: sum(each.done() for each in hooks.told.values()) == len(hooks.told) == 4)
        hooks.call = producer.flush
        producer.close(0)
    told = {name: each.result(0) for name, each in hooks.told.items()}
    assert told.keys() == {"on_acknowledgement", "partitioner", "prepare", "on_failed", "close"}
    assert {name for name, each in told.items() if not isinstance(each, IllegalStateError)} == set()


def test_a_callback_may_wait_for_another_producer(producer: Producer) -> None:
    with SyncMockProducer() as other:
        offset: Future[int] = Future()
        first = producer.send("orders", object())
        first.add_done_callback(
            lambda _: offset.set_result(other.send("o", b"1").result(30).offset)
        )
        assert offset.result(30) == 0


def test_two_callbacks_that_wait_for_each_other_s_producers_are_refused() -> None:
    with SyncMockProducer(auto_complete=False) as one, SyncMockProducer(auto_complete=False) as two:
        both = threading.Barrier(2)
        told: dict[str, Future[object]] = {"one": Future(), "two": Future()}

        def wait(name: str, other: SyncMockProducer) -> None:
            both.wait(30)
            told[name].set_result(outcomes_of({name: other.flush})[name])

        for name, here, other in (("one", one, two), ("two", two, one)):
            here.send("orders", b"1")  # so a flush would wait
            run_in_loop(here, wait, name, other)
        concurrent.futures.wait(told.values(), 30, concurrent.futures.FIRST_COMPLETED)
        with ThreadPoolExecutor(2) as both_at_once:  # one of the two waits for the other's record
            both_at_once.map(SyncMockProducer.complete_next, (one, two))
        errors = [each.result(30) for each in told.values()]
        refused = [each for each in errors if isinstance(each, IllegalStateError)]
        assert refused
        assert all("whose callback waits for it" in str(each) for each in refused)
        for each in (one, two):
            each.close(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_pending_future_of_the_parent_fails_in_a_child_that_a_callback_forks() -> None:
    script = f"""
import os
from aioproducer import WrongLoopError
from aioproducer.sync import Producer
producer = Producer(bootstrap_servers={NOBODY!r})
producer.start()
pending = producer.send("orders", b"1")
forked = []
def callback(_):
    child = os.fork()
    if not child:
        for call in (pending.result, producer.flush, producer.close):
            try:
                call()
            except WrongLoopError:
                continue
            os._exit(1)
        os._exit(0)
    forked.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
producer.send("orders", object()).add_done_callback(callback)
while not forked:
    pass
producer.close(0)
raise SystemExit(forked[0])
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 0, os.fsdecode(done.stderr)


def test_serializers_and_on_send_run_in_the_callers_thread() -> None:
    seen: list[tuple[object, ...]] = []

    def serialized(number: Any) -> bytes:
        seen.append((threading.current_thread().name, "serializer", number))
        return b"%d" % number

    class Interceptor:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append((threading.current_thread().name, record.value))
            return record

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: BaseException | None
        ) -> None:
            seen.append((threading.current_thread().name, metadata, type(error)))

        def close(self) -> None:
            seen.append(("closed",))

    with Producer(
        bootstrap_servers=NOBODY,
        client_id="me",
        interceptor_classes=[Interceptor],
        value_serializer=serialized,
    ) as producer:
        producer.send("orders", 1)
        assert isinstance(producer.send("orders", "one").exception(5), SerializationError)
        producer.close(0)
    nowhere = RecordMetadata("orders", -1, -1, -1, -1, -1)
    here = threading.current_thread().name
    assert seen == [
        (here, 1),
        (here, "serializer", 1),
        (here, "one"),
        (here, "serializer", "one"),
        ("aioproducer-me", nowhere, SerializationError),
        ("aioproducer-me", nowhere, ProducerClosedError),
        ("closed",),
    ]


# --- it never hangs ----------------------------------------------------------------------------


def test_close_is_bounded_and_counts_what_it_gave_up(producer: Producer) -> None:
    futures = [producer.send("orders", b"1") for _ in range(1000)]
    began = time.monotonic()
    assert producer.close(0.2) == 1000
    assert time.monotonic() - began < 5
    for future in futures:
        with pytest.raises(ProducerClosedError, match=r"^orders: .*give close"):
            future.result(0)
    assert producer.close() == 1000


def test_what_the_thread_never_got_names_its_topic_too(small: Producer) -> None:
    fill_until_it_waits = threading.Thread(target=fill, args=[small])
    fill_until_it_waits.start()
    deadline = time.monotonic() + 10
    # what stalls stays there once the producer has no room, and nothing more gets in
    inbox = small._thread._inbox
    while inbox.fits(fill_until_it_waits, RECORD) or not inbox.stalled(fill_until_it_waits):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    last = inbox.stalled(fill_until_it_waits)[-1]
    assert isinstance(last, Chunk)
    future = last.entry(len(last) - 1)[0]
    small.close(0)
    fill_until_it_waits.join(5)
    with pytest.raises(ProducerClosedError, match=r"^orders: .*give close"):
        future.result(5)


def test_the_shortest_bound_of_several_closes_counts(producer: Producer) -> None:
    producer.send("orders", b"1")
    with ThreadPoolExecutor() as threads:
        patient = threads.submit(producer.close)
        assert producer.close(0) == 1
        assert patient.result(5) == 1


def test_close_waits_for_a_start_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, closing = threading.Event(), threading.Event()
    new_event_loop = asyncio.new_event_loop

    def slow() -> asyncio.AbstractEventLoop:
        starting.set()
        closing.wait(5)
        return new_event_loop()

    monkeypatch.setattr(asyncio, "new_event_loop", slow)
    producer = Producer(bootstrap_servers=NOBODY)
    with ThreadPoolExecutor() as threads:
        start = threads.submit(producer.start)
        assert starting.wait(5)
        close = threads.submit(producer.close)
        while not producer._thread._is_closed:
            time.sleep(0.001)
        closing.set()
        assert close.result(5) == 0
        assert isinstance(start.exception(5), ProducerClosedError | None)
    assert not is_alive(producer)


def test_flush_gives_up_in_time(producer: Producer) -> None:
    future = producer.send("orders", b"1")
    with pytest.raises(ProducerTimeoutError):
        producer.flush(0.05)
    assert not future.done()


@pytest.mark.parametrize("field", ["key", "value", "headers"])
def test_memory_is_bounded_and_nobody_waits_for_it_in_a_callback(
    small: Producer, field: str
) -> None:
    sent: Future[int] = Future()
    run_in_loop(small, lambda: sent.set_result(fill(small, field)))
    assert 1 < sent.result(5) <= SMALL / 32 / 1000


def test_blocked_senders_are_woken_by_close(small: Producer) -> None:
    begun = threading.Barrier(5)

    def send() -> None:
        begun.wait(5)
        fill(small)

    with ThreadPoolExecutor() as threads:
        senders = [threads.submit(send) for _ in range(4)]
        begun.wait(5)
        small.close(0.1)
        for sender in senders:
            sender.result(5)


@pytest.mark.parametrize("blocking", ["flush", "close", "send", "send_many"])
def test_an_interrupt_ends_whatever_blocks(small: Producer, blocking: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "flush": small.flush,
        "close": small.close,
        "send": lambda: fill(small),
        "send_many": lambda: small.send_many("orders", (b"x" * 1000 for _ in range(10_000))),
    }
    future = small.send("orders", b"1")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        timer.start()
        calls[blocking]()
    began = time.monotonic()
    small.close(0)
    assert time.monotonic() - began < 5
    assert isinstance(future.exception(0), ProducerClosedError)
    assert not is_alive(small)


@pytest.mark.parametrize("count", [20, 10_000], ids=["for fates", "for room"])
def test_an_interrupted_send_many_takes_back_what_waits(small: Producer, count: int) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        timer.start()
        small.send_many("orders", [b"x" * 1000] * count)
    small.flush(5)
    assert small.close(0) == 0


def test_a_record_is_taken_back_before_the_thread_has_it(producer: Producer) -> None:
    free = threading.Event()
    run_in_loop(producer, free.wait, 5)
    futures = [producer.send("orders", b"1") for _ in range(100)]
    assert all(future.cancel() for future in futures[:40])
    free.set()
    assert not concurrent.futures.wait(futures[:40], 5).not_done
    assert producer.close(0.1) == 60
    assert isinstance(futures[50].exception(0), ProducerClosedError)
    assert not futures[50].cancel()


def test_the_loop_is_woken_once_for_a_burst(producer: Producer) -> None:
    free = threading.Event()
    wakes: list[object] = []
    wake = producer._thread._pump.wake

    def counted() -> None:
        wakes.append(wake())

    producer._thread._pump.wake = counted  # type: ignore[method-assign]
    run_in_loop(producer, free.wait, 5)
    for _ in range(100):
        producer.send("orders", b"1")
    behind = threading.Event()
    run_in_loop(producer, behind.set)
    free.set()
    assert behind.wait(60)
    assert len(wakes) == 1


@pytest.mark.parametrize("death", ["exit", "stop"])
def test_when_the_thread_dies_nobody_waits_for_ever(producer: Producer, death: str) -> None:
    future = producer.send("orders", b"1")
    with ThreadPoolExecutor() as threads:
        flushing = threads.submit(producer.flush)
        assert producer._thread._loop is not None
        run_in_loop(producer, sys.exit if death == "exit" else producer._thread._loop.stop)
        assert isinstance(flushing.exception(5), ProducerBrokenError)
    assert isinstance(future.exception(5), ProducerBrokenError)
    for call in (lambda: producer.send("orders", b"1"), producer.flush):
        with pytest.raises(ProducerBrokenError):
            call()
    assert producer.close() == 0


def test_a_broken_core_breaks_the_shell(producer: Producer) -> None:
    first = producer.send("orders", b"1")
    run_in_loop(producer, producer._core.part_died, ValueError("boom"))
    assert isinstance(first.exception(5), ProducerBrokenError)
    with pytest.raises(ProducerBrokenError):
        producer.send("orders", b"2").result(5)
    with pytest.raises(ProducerBrokenError):
        producer.flush()
    producer.close()
    assert not is_alive(producer)


# --- processes, exits, other loops -------------------------------------------------------------


def test_a_forked_child_is_told_so(producer: Producer) -> None:
    producer.send("orders", b"1")
    child = os.fork()
    if child == 0:
        told = 0
        calls: tuple[Callable[[], object], ...] = (
            lambda: producer.send("orders", b"1"),
            lambda: producer.send_many("orders", [b"1"]),
            producer.flush,
            producer.close,
        )
        for call in calls:
            try:
                call()
            except WrongLoopError:
                told += 1
        os._exit(told)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    assert producer.close(0) == 1


def test_the_futures_of_the_parent_fail_in_a_forked_child(producer: Producer) -> None:
    future, other = producer.send("orders", b"1"), producer.send("orders", b"2")
    held, asked = threading.Event(), threading.Event()

    def hold() -> None:
        with other._condition:
            held.set()
            asked.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        told = 0
        try:
            told += future.done() and future in concurrent.futures.wait([other]).done | {future}
            told += isinstance(future.exception(), WrongLoopError) and not future.cancel()
            told += "WrongLoopError" in repr(other)
            future.result()
        except WrongLoopError:
            told += 4
        finally:
            os._exit(told)
    _, status = os.waitpid(child, 0)
    asked.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 7


def run(script: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_forked_child_exits_and_the_parent_goes_on() -> None:
    script = f"""
import os, sys, aioproducer.sync
producer = aioproducer.sync.Producer(bootstrap_servers={NOBODY!r})
producer.start()
if os.fork() == 0:
    sys.exit(0)
os.wait()
future = producer.send("orders", b"1")
assert producer.close(0.2) == 1
print(type(future.exception()).__name__)
"""
    assert run(script).stdout == "ProducerClosedError\n"


def test_the_interpreter_exits_in_time_with_brokers_down() -> None:
    script = f"""
import aioproducer.sync
aioproducer.engine.core.producer_core.AT_END = 0.2
for _ in range(3):
    producer = aioproducer.sync.Producer(bootstrap_servers={NOBODY!r})
    producer.start()
    producer.send("orders", b"1")
"""
    began = time.monotonic()
    done = run(script)
    assert time.monotonic() - began < 9
    assert done.stderr.count("closed with 1 record undelivered") == 3


@pytest.mark.parametrize(("delivery", "at_end"), [(5_000, 5), (120_000, 10)])
def test_the_time_that_close_delivers(delivery: int, at_end: float) -> None:
    core = Producer(
        bootstrap_servers=NOBODY, delivery_timeout_ms=delivery, request_timeout_ms=1_000
    )._core
    assert core.close_bound() == delivery / 1000
    assert core.close_bound(7) == 7
    assert core.close_bound(at_end=True) == at_end


async def test_it_works_in_the_thread_of_another_loop() -> None:
    producer = Producer(bootstrap_servers=NOBODY)
    producer.start()
    future = asyncio.wrap_future(producer.send("orders", b"1"))
    assert producer.close(0.1) == 1
    with pytest.raises(ProducerClosedError):
        await future
