"""confluent-kafka's Producer in several threads at once, without a broker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aioproducer.compat.confluent import KafkaError, KafkaException, Producer
from aioproducer.compat.confluent import records as records_module
from tests.support.switches import Other, in_other_thread
from tests.support.waiting import PATIENCE, wait_until


@pytest.fixture
def producer() -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 300})
    yield producer
    producer.close()


def errors_of(producer: Producer, **fields: Any) -> list[int | None]:
    """Put a record into the queue; the list gets the code of each of its delivery reports."""
    codes: list[int | None] = []

    def report(error: KafkaError | None, _: object) -> None:
        codes.append(None if error is None else error.code())

    producer.produce("t", "x", on_delivery=report, **fields)
    return codes


def once(call: Callable[[], object]) -> Callable[[], None]:
    """``call`` for the first time, later nothing."""
    left = [call]

    def first() -> None:
        if left:
            left.pop()()

    return first


def break_down(producer: Producer) -> None:
    """End the producer by an error of its own."""
    worker = producer._worker
    worker.call_soon(worker.core.part_died, ValueError("a part has died"))
    worker.call_soon(worker.pump.wake)
    wait_until(lambda: worker.ended)


def test_close_ends_the_poll_of_another_thread(producer: Producer) -> None:
    polling = in_other_thread(producer.poll)
    assert polling.is_alive()
    assert producer.close()
    assert polling.ended().result == 0


def test_two_threads_close(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    close_first = once(lambda: in_other_thread(producer.close).ended())
    monkeypatch.setattr(producer, "_check_caller", close_first)
    assert producer.close()


def test_another_thread_closes_while_a_record_is_put_into_the_queue(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(*_: object) -> None:
        in_other_thread(producer.close).ended()

    monkeypatch.setattr(producer, "_choose", choose)
    with pytest.raises(KafkaException, match="is closed"):
        producer.produce("t", "x", key="k")
    assert len(producer) == 0


def test_a_record_that_comes_while_another_thread_closes_gets_its_report(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, closing = threading.Event(), threading.Event()
    reports: list[list[int | None]] = []
    worker = producer._worker
    close = worker.close

    def choose(*_: object) -> None:
        chosen.set()
        assert closing.wait(PATIENCE)

    def close_after_the_record(bound: float) -> int:
        closing.set()
        putting.ended()
        return int(close(bound))

    monkeypatch.setattr(producer, "_choose", choose)
    monkeypatch.setattr(worker, "close", close_after_the_record)
    putting = Other(lambda: reports.append(errors_of(producer, key="k")))
    putting.start()
    assert chosen.wait(PATIENCE)
    assert producer.close()
    assert putting.error is None
    assert reports == [[KafkaError._DESTROY]]
    assert len(producer) == 0


def test_a_record_that_comes_as_the_producer_breaks_is_refused(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = once(lambda: break_down(producer))

    def time_ns() -> int:
        broken()
        return time.time_ns()

    monkeypatch.setattr(records_module, "time_ns", time_ns)
    with pytest.raises(KafkaException, match="is broken"):
        producer.produce("t", "x")
    assert producer.flush(0) == 0


def test_purged_records_of_an_unknown_topic_have_one_outcome(producer: Producer) -> None:
    codes = errors_of(producer)
    producer.purge()
    assert producer.flush(5) == 0
    later = errors_of(producer)
    assert producer.flush(5) == 0  # the first record would be late as well
    assert (codes, later) == ([KafkaError._PURGE_QUEUE], [KafkaError._MSG_TIMED_OUT])
    wait_until(lambda: not producer.poll(0.1))
    assert len(producer) == 0


def test_flush_of_a_broken_producer_logs_no_callback(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    worker = producer._worker
    worker.call_soon(worker.core.part_died, ValueError("a part has died"))
    worker.call_soon(worker.pump.hurry, 1)
    worker.call_soon(worker.pump.wake)
    wait_until(lambda: worker.ended)
    assert not [each for each in caplog.record_tuples if each[0] == "asyncio"]
    assert caplog.records[-1].levelno == logging.ERROR
