"""Records of many threads on their way into one loop: in order, bounded, each thread by itself."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread

from aioproducer.sync.inbox import Inbox, Item, Marker

SIZE = 10
ONE, TWO, THREE = Thread(name="one"), Thread(name="two"), Thread(name="three")


def item(thread: Thread, number: int = 0, size: int = SIZE) -> Item:
    return Item((number,), Future(), thread, size)


def marker() -> tuple[Marker, Future[None]]:
    future: Future[None] = Future()
    return Marker(future), future


def fill(inbox: Inbox, thread: Thread) -> int:
    """Put what fits, and let the loop take it; how many records."""
    count = 0
    while inbox.fits(thread, SIZE):
        inbox.put(item(thread, count))
        count += 1
    for each in inbox.take():
        inbox.keep(each)
    return count


def test_records_keep_their_order_whoever_sends_them() -> None:
    inbox = Inbox(100)
    sent = [item(ONE), item(TWO), item(ONE), item(THREE)]
    assert [inbox.put(each) for each in sent] == [True, False, False, False]
    assert list(inbox.take()) == sent
    assert inbox.put(item(ONE)), "whoever finds it empty is told so"


def test_it_is_full_and_empty_again() -> None:
    inbox = Inbox(100)
    assert fill(inbox, ONE) == 10
    assert fill(inbox, ONE) == 10
    assert inbox.held == 0


def test_a_record_of_any_size_may_be_there_alone() -> None:
    inbox = Inbox(100)
    assert inbox.fits(ONE, 1_000)
    inbox.put(item(ONE, size=1_000))
    assert not inbox.fits(ONE, 1)
    assert inbox.fits(TWO, 1_000), "each thread has one"


def test_a_thread_that_stalls_keeps_its_order_and_lets_others_pass() -> None:
    inbox = Inbox(100)
    inbox.stall(ONE)
    sent = [item(ONE, 1), item(TWO), item(ONE, 2), item(TWO)]
    for each in sent:
        inbox.put(each)
    assert [inbox.keep(each) for each in inbox.take()] == [True, False, True, False]
    assert list(inbox.stalled(ONE)) == [sent[0], sent[2]]
    assert inbox.held == 2 * SIZE
    assert list(inbox.resume(ONE)) == [sent[0], sent[2]]
    assert inbox.held == 0
    assert not inbox.keep(item(ONE))


def test_what_comes_while_it_resumes_stays_behind() -> None:
    inbox = Inbox(100)
    inbox.stall(ONE)
    first, late = item(ONE, 1), item(ONE, 2)
    inbox.keep(first)
    resumed = inbox.resume(ONE)
    assert next(resumed) is first
    assert inbox.keep(late)
    assert list(resumed) == [late]


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
    for each in (item(ONE), item(TWO), item(THREE)):
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
    stalled, fresh = item(ONE), item(TWO)
    inbox.keep(stalled)
    inbox.put(fresh)
    assert list(inbox.take_rest()) == [stalled, fresh]
    assert inbox.held == 0
    assert not inbox.stalled(ONE)
