"""Records of many threads on their way into one loop: in order, bounded, each thread by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread
from types import CodeType, FrameType
from typing import Any

from aioproducer.sync.inbox import Chunk, Entry, Inbox, Marker

SIZE = 10
ONE, TWO, THREE = Thread(name="one"), Thread(name="two"), Thread(name="three")


def entry(number: int = 0) -> Entry:
    return (Future(), number, None, None, None, None, None, 1)


def put(inbox: Inbox, thread: Thread, number: int = 0, size: int = SIZE) -> None:
    inbox.put(thread, entry(number), size)


def chunk(thread: Thread, *numbers: int, size: int = SIZE) -> Chunk:
    made = Chunk(thread)
    for number in numbers:
        made.size += size
        made.entries += entry(number)
    return made


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
    assert inbox.empty
    for sent in [(ONE, 1), (ONE, 2), (TWO, 3), (ONE, 4), (THREE, 5)]:
        put(inbox, *sent)
        assert not inbox.empty
    taken = numbers(inbox.take())
    assert taken == [("one", [1, 2]), ("two", [3]), ("one", [4]), ("three", [5])]
    assert inbox.empty


def test_no_record_joins_a_chunk_before_a_marker() -> None:
    inbox = Inbox(1_000)
    put(inbox, ONE, 1)
    mark, _ = marker()
    inbox.mark(mark)
    put(inbox, ONE, 2)
    first, second, third = inbox.take()
    assert second is mark
    assert numbers([first, third]) == [("one", [1]), ("one", [2])]


def test_ctrl_c_in_a_put_loses_no_later_record() -> None:
    for line in range(20):
        inbox = Inbox(1_000)
        put(inbox, TWO, 0)
        with suppress(KeyboardInterrupt), interrupted_before(line, Inbox.put.__code__):
            put(inbox, ONE, 1)
        put(inbox, ONE, 2)
        sent = [number for _, records in numbers(inbox.take()) for number in records]
        assert sent in ([0, 2], [0, 1, 2])


@contextmanager
def interrupted_before(line: int, code: CodeType) -> Iterator[None]:
    """Raise KeyboardInterrupt in a function, before the line that is run as number ``line``."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code is not code:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


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
    assert inbox.held == 0


def test_a_thread_reserves_room_for_several_records() -> None:
    inbox = Inbox(1_600)
    put(inbox, ONE)
    assert inbox.held == 100
    assert inbox.last is not None
    assert inbox.last.room == 90


def test_room_that_is_reserved_holds_nobody_up() -> None:
    inbox = Inbox(1_600)
    for thread in [Thread() for _ in range(16)]:
        put(inbox, thread)
    assert inbox.fits(ONE, 1_000)
    put(inbox, ONE)
    assert inbox.fits(ONE, 1_600 - 17 * SIZE)
    assert not inbox.fits(ONE, 1_600 - 17 * SIZE + 1)
    assert inbox.held == 17 * SIZE


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
    assert inbox.held == 3 * SIZE
    assert list(inbox.resume(ONE)) == [first, second]
    assert inbox.held == 0
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


def test_what_stalls_gives_up_the_room_that_it_does_not_need() -> None:
    inbox = Inbox(1_600)
    inbox.stall(ONE)
    put(inbox, ONE)
    for each in inbox.take():
        inbox.keep(each)
    assert inbox.held == SIZE


def test_threads_that_stall_never_fill_it() -> None:
    inbox = Inbox(1_000)
    counts = []
    for thread in (ONE, TWO, THREE):
        inbox.stall(thread)
        counts.append(fill(inbox, thread))
    assert counts == [50, 25, 13]
    other = Thread()
    assert fill(inbox, other) == 100, "threads that go on have room of their own"


def test_a_closed_inbox_lets_no_thread_go_on_with_its_chunk() -> None:
    inbox = Inbox(100)
    put(inbox, ONE)
    inbox.close()
    assert inbox.last is None
    assert numbers(inbox.take()) == [("one", [0])]


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
    assert inbox.held == 0
    assert not inbox.stalled(ONE)
