"""The future of a record: it behaves as those of the standard library do."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    CancelledError,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from threading import Thread
from typing import Any

import pytest

from aioproducer.engine.records.acceleration import ACCELERATED
from aioproducer.errors import DeliveryTimeoutError
from aioproducer.model import RecordMetadata
from aioproducer.sync.record_future import Outcomes, RecordFuture

OUTCOMES = Outcomes()


def metadata(offset: int = 0) -> RecordMetadata:
    return RecordMetadata("orders", 0, offset, 0, -1, 1)


@pytest.fixture(params=["ours", "the standard library's"])
def future(request: pytest.FixtureRequest) -> Future[RecordMetadata]:
    return RecordFuture(OUTCOMES) if request.param == "ours" else Future()


def later(call: Any, *arguments: Any) -> Thread:
    def run() -> None:
        time.sleep(0.02)
        call(*arguments)

    thread = Thread(target=run)
    thread.start()
    return thread


def state(future: Future[RecordMetadata]) -> tuple[bool, bool, bool]:
    return future.running(), future.cancelled(), future.done()


def test_a_result(future: Future[RecordMetadata]) -> None:
    assert state(future) == (False, False, False)
    assert future.set_running_or_notify_cancel()
    assert state(future) == (True, False, False)
    assert not future.cancel()
    future.set_result(metadata())
    assert state(future) == (False, False, True)
    assert future.result() == future.result(0) == metadata()
    assert future.exception() is None
    assert not future.cancel()
    assert "state=finished returned RecordMetadata" in repr(future)


def test_it_has_one_outcome(future: Future[RecordMetadata]) -> None:
    future.set_running_or_notify_cancel()
    future.set_result(metadata())
    with pytest.raises(InvalidStateError):
        future.set_result(metadata())
    with pytest.raises(InvalidStateError):
        future.set_exception(ValueError())
    with pytest.raises(RuntimeError, match="unexpected state"):
        future.set_running_or_notify_cancel()


def test_an_error(future: Future[RecordMetadata]) -> None:
    future.set_running_or_notify_cancel()
    error = ValueError("no")
    future.set_exception(error)
    assert future.exception() is error
    with pytest.raises(ValueError, match="no") as caught:
        future.result()
    assert caught.value is error


def test_an_error_of_several_records_is_raised_anew() -> None:
    future = RecordFuture(OUTCOMES)
    error = DeliveryTimeoutError("late")
    future.set_exception(error)
    with pytest.raises(DeliveryTimeoutError, match="late") as caught:
        future.result()
    assert caught.value is not error
    assert future.exception() is error


def test_cancelling(future: Future[RecordMetadata]) -> None:
    called: list[object] = []
    future.add_done_callback(called.append)
    assert future.cancel()
    assert called == [future]
    assert state(future) == (False, True, True)
    assert not future.set_running_or_notify_cancel()
    for call in (future.result, future.exception):
        with pytest.raises(CancelledError):
            call()


@pytest.mark.parametrize("method", ["result", "exception"])
def test_a_wait_ends_with_the_outcome(future: Future[RecordMetadata], method: str) -> None:
    future.set_running_or_notify_cancel()
    thread = later(future.set_result, metadata(7))
    waited = getattr(future, method)(10)
    assert waited == (metadata(7) if method == "result" else None)
    thread.join()


def test_a_wait_ends_with_a_cancellation(future: Future[RecordMetadata]) -> None:
    thread = later(future.cancel)
    with pytest.raises(CancelledError):
        future.result(10)
    thread.join()


def test_a_wait_has_a_timeout(future: Future[RecordMetadata]) -> None:
    for call in (future.result, future.exception):
        with pytest.raises(TimeoutError):
            call(0.01)


def test_callbacks_are_called_once_in_their_order(future: Future[RecordMetadata]) -> None:
    called: list[int] = []
    future.add_done_callback(lambda _: called.append(1))
    future.add_done_callback(lambda _: 1 // 0)
    future.add_done_callback(lambda _: called.append(2))
    future.set_running_or_notify_cancel()
    assert not called
    future.set_result(metadata())
    future.add_done_callback(lambda _: called.append(3))
    assert called == [1, 2, 3]


@pytest.fixture
def several() -> Iterator[list[RecordFuture]]:
    futures = [RecordFuture(OUTCOMES) for _ in range(10)]
    for future in futures:
        future.set_running_or_notify_cancel()
    yield futures
    assert all(future.done() for future in futures)


def set_all(futures: list[RecordFuture]) -> None:
    RecordFuture.set_results(futures, [metadata(number) for number in range(len(futures))])


def test_results_of_many(several: list[RecordFuture]) -> None:
    called: list[object] = []
    several[3].add_done_callback(called.append)
    several[4].set_exception(ValueError())
    set_all(several)
    assert called == [several[3]]
    assert isinstance(several[4].exception(), ValueError)
    assert [each.result() for each in several if each is not several[4]] == [
        metadata(number) for number in range(10) if number != 4
    ]


def test_a_callback_that_exits_keeps_no_other_from_its_outcome(several: list[RecordFuture]) -> None:
    called: list[object] = []
    several[1].add_done_callback(lambda _: sys.exit(3))
    for future in several[1:4]:
        future.add_done_callback(called.append)
    with pytest.raises(SystemExit):
        set_all(several)
    assert called == several[1:4]


def offsets(futures: Sequence[Future[RecordMetadata]]) -> set[int]:
    return {each.result().offset for each in as_completed(futures, 10)}


@pytest.mark.parametrize("until", [FIRST_COMPLETED, ALL_COMPLETED])
def test_several_are_waited_for(several: list[RecordFuture], until: str) -> None:
    thread = later(set_all, several)
    done, _ = wait(several, 10, until)
    assert done
    thread.join()
    assert offsets(several) == set(range(10))


def test_several_are_waited_for_as_they_complete(several: list[RecordFuture]) -> None:
    thread = later(set_all, several)
    assert offsets(several) == set(range(10))
    thread.join()


def test_a_waiting_thread_never_misses_the_outcome() -> None:
    with ThreadPoolExecutor(2) as threads:
        for _ in range(300):
            futures = [RecordFuture(OUTCOMES) for _ in range(20)]
            for future in futures:
                future.set_running_or_notify_cancel()
            waiting = [threads.submit(each.result, 10) for each in futures[:2]]
            set_all(futures)
            assert [each.result(10).offset for each in waiting] == [0, 1]


async def test_a_task_awaits_it(several: list[RecordFuture]) -> None:
    thread = later(set_all, several)
    assert (await asyncio.wrap_future(several[5])).offset == 5
    thread.join()


def test_the_collector_finds_a_cycle_through_a_callback() -> None:
    future = RecordFuture(OUTCOMES)
    future.add_done_callback(lambda _, future=future: None)  # type: ignore[misc]
    alive = weakref.ref(future)
    del future
    gc.collect()
    assert alive() is None


@pytest.mark.skipif(
    not ACCELERATED or bool(os.environ.get("AIOPRODUCER_PLAIN_OBJECTS")),
    reason="the collector sees all objects",
)
@pytest.mark.parametrize("watch", ["callback", "wait", "error", "cancel"])
def test_the_collector_sees_a_future_that_can_be_in_a_cycle(watch: str) -> None:
    future = RecordFuture(OUTCOMES)
    assert not gc.is_tracked(future)
    if watch == "callback":
        future.add_done_callback(lambda _: None)
    elif watch == "wait":
        wait([future], 0)
    elif watch == "error":
        future.set_exception(ValueError())
    else:
        future.cancel()
    assert gc.is_tracked(future)
