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
    FIRST_EXCEPTION,
    CancelledError,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
    _base,
    as_completed,
    wait,
)
from threading import Barrier, Thread
from typing import Any

import pytest

from aioproducer.engine.records.acceleration import ACCELERATED
from aioproducer.errors import DeliveryTimeoutError
from aioproducer.model import RecordMetadata
from aioproducer.sync.record_future import Outcomes, RecordFuture
from aioproducer.sync.record_outcome import ProducerThread

OUTCOMES = Outcomes(ProducerThread(print, "me"))


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


def finished(state: str) -> RecordFuture:
    future = RecordFuture(OUTCOMES)
    if state == "finished":
        future.set_result(metadata())
        return future
    future.cancel()
    if state == "notified":
        future.set_running_or_notify_cancel()
    return future


@pytest.mark.parametrize("state", ["finished", "cancelled", "notified"])
@pytest.mark.parametrize("until", [ALL_COMPLETED, FIRST_EXCEPTION])
def test_a_wait_for_finished_and_pending_futures_ends_with_the_last(until: str, state: str) -> None:
    others: list[Future[RecordMetadata]] = [RecordFuture(OUTCOMES), Future()]
    futures = [finished(state), finished(state), *others]
    done, pending = wait(futures, 0.01, until)
    assert (len(done), pending) == (2, set(others))
    threads = [later(each.set_result, metadata()) for each in others]
    assert wait(futures, 10, until) == (set(futures), set())
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("state", ["finished", "cancelled", "notified"])
def test_finished_and_pending_futures_complete_once(state: str) -> None:
    others: list[Future[RecordMetadata]] = [RecordFuture(OUTCOMES), Future()]
    futures = [finished(state), finished(state), *others]
    threads = [later(each.set_result, metadata()) for each in others]
    completed = list(as_completed(futures, 10))
    assert len(completed) == 4
    assert set(completed) == set(futures)
    for thread in threads:
        thread.join()


def test_finished_futures_need_no_time_to_complete() -> None:
    future: Future[RecordMetadata] = finished("finished")
    assert list(as_completed([future], 0)) == [future]


def end(future: RecordFuture, how: str) -> None:
    if how == "finished":
        future.set_result(metadata())
    elif how == "failed":
        future.set_exception(ValueError())
    elif how == "finished together":
        future.set_running_or_notify_cancel()
        RecordFuture.set_results([future], [metadata()])
    else:
        future.cancel()
        future.set_running_or_notify_cancel()


@pytest.mark.parametrize("how", ["finished", "failed", "finished together", "cancelled"])
@pytest.mark.parametrize("place", ["_create_and_install_waiters", "_AllCompletedWaiter"])
def test_a_future_that_ends_while_the_standard_library_looks(
    place: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is done, and whether it has to be told, are two looks."""
    outcomes = Outcomes(OUTCOMES.thread)
    future, pending = RecordFuture(outcomes), RecordFuture(outcomes)
    original = getattr(_base, place)

    def between(*arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        end(future, how)
        return original(*arguments, **named)

    monkeypatch.setattr(_base, place, between)
    thread = later(pending.set_result, metadata())
    assert wait([future, pending], 10) == ({future, pending}, set())
    thread.join()
    assert future.done()
    futures: list[Future[RecordMetadata]] = [future, pending]
    assert set(as_completed(futures, 10)) == {future, pending}
    state = "returned RecordMetadata" if "finished" in how else how.replace("failed", "raised")
    assert state in repr(future)
    assert future.cancelled() or future.exception(0) is None or how == "failed"


def test_a_future_that_ends_before_it_is_waited_for_as_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = Outcomes(OUTCOMES.thread)
    future, pending = RecordFuture(outcomes), RecordFuture(outcomes)
    original = _base._create_and_install_waiters  # type: ignore[attr-defined]

    def between(*arguments: Any) -> Any:
        end(future, "finished")
        return original(*arguments)

    monkeypatch.setattr(_base, "_create_and_install_waiters", between)
    thread = later(pending.set_result, metadata())
    futures: list[Future[RecordMetadata]] = [future, pending]
    assert set(as_completed(futures, 10)) == set(futures)
    thread.join()


def test_threads_that_wait_for_futures_of_several_producers() -> None:
    futures = [RecordFuture(Outcomes(OUTCOMES.thread)) for _ in range(2)]
    both = Barrier(2)

    def look(first: RecordFuture) -> None:
        with first._condition:
            both.wait(10)
            wait(futures, 0)

    threads = [Thread(target=look, args=(each,), daemon=True) for each in futures]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


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
