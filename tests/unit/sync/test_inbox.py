"""Records of many threads on their way into one loop: in order, bounded, each thread by itself."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from aioproducer.sync.inbox import Chunk, Entry, Inbox, Marker

SIZE = 10
ONE, TWO, THREE = Thread(name="one"), Thread(name="two"), Thread(name="three")


def entry(number: int = 0) -> Entry:
    return (Future(), number, None, None, None, None, None, 1)


def put(inbox: Inbox, thread: Thread, number: int = 0, size: int = SIZE) -> None:
    inbox.put((*entry(number), size, thread))


def chunk(thread: Thread, *numbers: int, size: int = SIZE) -> Chunk:
    entries: list[Any] = []
    for number in numbers:
        entries += (*entry(number), size, thread)
    return Chunk(thread, entries)


def numbers(items: Iterable[Chunk | Marker]) -> list[tuple[str, list[Any]]]:
    """The thread of each chunk, and its records."""
    return [
        (item.thread.name, [item.entry(place)[1] for place in range(len(item))])
        for item in items
        if isinstance(item, Chunk)
    ]


def marker() -> tuple[Marker, Future[None]]:
    future: Future[None] = Future()
    return Marker(future), future


def fill(inbox: Inbox, thread: Thread) -> int:
    """Put what fits, and let the loop take it; how many records."""
    count = 0
    while inbox.fits(thread, SIZE):
        put(inbox, thread, count)
        count += 1
    for each in inbox.take():
        inbox.keep(each)
    return count


def test_records_of_all_threads_keep_their_order() -> None:
    inbox = Inbox(1_000)
    for sent in [(ONE, 1), (ONE, 2), (TWO, 3), (ONE, 4), (THREE, 5)]:
        put(inbox, *sent)
    taken = numbers(inbox.take())
    assert taken == [("one", [1, 2]), ("two", [3]), ("one", [4]), ("three", [5])]
    assert not inbox.take()
    assert inbox.takes == 2


def test_a_marker_parts_the_records_before_it_from_the_later_ones() -> None:
    inbox = Inbox(1_000)
    put(inbox, ONE, 1)
    mark, _ = marker()
    inbox.mark(mark)
    put(inbox, ONE, 2)
    first, second, third = inbox.take()
    assert second is mark
    assert numbers([first, third]) == [("one", [1]), ("one", [2])]


def test_a_taken_chunk_takes_no_more() -> None:
    inbox = Inbox(1_000)
    put(inbox, ONE, 1)
    taken = inbox.take()
    put(inbox, ONE, 2)
    assert numbers(taken) == [("one", [1])]
    assert numbers(inbox.take()) == [("one", [2])]


def test_it_is_full_and_empty_again() -> None:
    inbox = Inbox(100)
    assert fill(inbox, ONE) == 10
    assert fill(inbox, ONE) == 10


def test_a_thread_that_waits_goes_on_when_there_is_room() -> None:
    inbox = Inbox(100)
    sender = Thread(target=lambda: waited.append(inbox.wait(sender, SIZE, 30)))
    waited: list[bool] = []
    fill_up(inbox, sender)
    sender.start()
    while sender.is_alive():
        inbox.take()
    assert waited == [True]


def test_a_wait_ends_with_its_timeout_or_with_the_inbox() -> None:
    inbox = Inbox(100)
    fill_up(inbox, ONE)
    assert not inbox.wait(ONE, SIZE, 0)
    inbox.close()
    assert inbox.wait(ONE, SIZE, None)


def fill_up(inbox: Inbox, thread: Thread) -> None:
    while inbox.fits(thread, SIZE):
        put(inbox, thread)


def test_a_record_of_any_size_may_be_there_alone() -> None:
    inbox = Inbox(100)
    assert inbox.fits(ONE, 1_000)
    put(inbox, ONE, size=1_000)
    assert not inbox.fits(ONE, 1)
    assert inbox.fits(TWO, 1_000), "each thread has one"


def test_a_thread_that_stalls_keeps_its_order_and_lets_others_pass() -> None:
    inbox = Inbox(100)
    inbox.stall(ONE)
    first, second = chunk(ONE, 1), chunk(ONE, 2, 3)
    assert [inbox.keep(each) for each in (first, chunk(TWO), second)] == [True, False, True]
    assert list(inbox.stalled(ONE)) == [first, second]
    assert inbox.fits(ONE, 100 - 3 * SIZE - 3 * SIZE)
    assert not inbox.fits(ONE, 100 - 3 * SIZE - 3 * SIZE + 1)
    assert list(inbox.resume(ONE)) == [first, second]
    assert inbox.fits(ONE, 100)
    assert not inbox.keep(chunk(ONE))


def test_an_item_that_has_to_wait_again_stays_in_front() -> None:
    inbox = Inbox(100)
    inbox.stall(ONE)
    first, second = chunk(ONE, 1), chunk(ONE, 2)
    for each in (first, second):
        inbox.keep(each)
    assert next(inbox.resume(ONE)) is first
    assert list(inbox.resume(ONE)) == [first, second]


def test_what_comes_while_it_resumes_stays_behind() -> None:
    inbox = Inbox(100)
    inbox.stall(ONE)
    first, late = chunk(ONE, 1), chunk(ONE, 2)
    inbox.keep(first)
    resumed = inbox.resume(ONE)
    assert next(resumed) is first
    assert inbox.keep(late)
    assert list(resumed) == [late]


def test_records_of_a_thread_count_for_it_from_its_stall_on() -> None:
    inbox = Inbox(1_000)
    for _ in range(60):
        put(inbox, ONE)
    inbox.stall(ONE)
    assert not inbox.fits(ONE, SIZE)
    for each in inbox.take():
        inbox.keep(each)
    assert not inbox.fits(ONE, SIZE), "more than the others leave free"
    list(inbox.resume(ONE))
    assert inbox.fits(ONE, 1_000)


def test_threads_that_stall_never_fill_it() -> None:
    inbox = Inbox(1_000)
    counts = []
    for thread in (ONE, TWO, THREE):
        inbox.stall(thread)
        counts.append(fill(inbox, thread))
    assert counts == [50, 25, 13]
    other = Thread()
    assert fill(inbox, other) == 100, "threads that go on have room of their own"


def test_a_marker_waits_for_all_that_came_before_it() -> None:
    inbox = Inbox(100)
    inbox.stall(ONE)
    inbox.stall(TWO)
    mark, future = marker()
    for each in (chunk(ONE), chunk(TWO), chunk(THREE)):
        inbox.keep(each)
    assert not inbox.keep(mark)
    mark.reached()
    for thread in (ONE, TWO):
        assert not future.done()
        for resumed in inbox.resume(thread):
            if isinstance(resumed, Marker):
                resumed.reached()
    assert future.done()


def test_a_marker_fails_once() -> None:
    mark, future = marker()
    error = ValueError("closed")
    mark.fail(error)
    mark.fail(error)
    assert future.exception() is error


def test_everything_can_be_taken_at_the_end() -> None:
    inbox = Inbox(100)
    inbox.stall(ONE)
    stalled = chunk(ONE, 1)
    inbox.keep(stalled)
    put(inbox, TWO, 2)
    assert numbers(inbox.take_rest()) == [("one", [1]), ("two", [2])]
    assert inbox.fits(TWO, 100)
    assert not inbox.stalled(ONE)


@contextmanager
def during_collection(number: int, call: Callable[[], object]) -> Iterator[list[object]]:
    """Run ``call`` once, in the collection that the allocation ``number`` from here on begins.

    Finalizers run there, and let other threads run. Python 3.11 collects within the allocation of
    a list, so in the midst of a slice.
    """
    called: list[object] = []

    def begins(phase: str, _: object) -> None:
        if not called:
            called.append(call())

    thresholds = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(begins)
    fresh: list[object] = [[] for _ in range(100)]  # CPython keeps up to 80 lists for reuse
    gc.set_threshold(gc.get_count()[0] + number, 10, 10)
    try:
        yield called
    finally:
        fresh.clear()
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(begins)


@pytest.mark.parametrize("allocation", range(20))
def test_records_enter_while_records_are_taken(allocation: int) -> None:
    inbox = Inbox(1_000_000)
    for number in range(500):
        put(inbox, ONE, number)

    def enter() -> None:
        for number in range(500, 5_000):
            put(inbox, ONE, number)

    with during_collection(allocation, enter):
        taken = [*inbox.take(), *inbox.take()]
    records = [number for _, several in numbers(taken) for number in several]
    assert records[:500] == list(range(500))
    assert records == list(range(len(records)))


@pytest.mark.parametrize("allocation", range(20))
def test_records_are_taken_while_a_thread_looks_for_room(allocation: int) -> None:
    inbox = Inbox(5 * SIZE)
    for number in range(5):
        put(inbox, ONE, number)
    with during_collection(allocation, inbox.take) as taken:
        room = inbox.fits(TWO, SIZE), inbox.fits(ONE, SIZE)
    assert room[0]
    assert room[1] in ({True, False} if taken else {False})
