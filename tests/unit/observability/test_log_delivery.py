"""The queue of log records, as JSON: bounded, counted, quiet, and ended by interrupts."""

from __future__ import annotations

import json
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aioproducer.errors import BrokerConnectionError
from aioproducer.observability import log_delivery
from aioproducer.observability.log_delivery import LogEntry, LogQueue
from aioproducer.observability.log_handler import JsonFormatter, KafkaHandler
from tests.support.switches import at_switch
from tests.support.waiting import PATIENCE, wait_until


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def entry(number: int = 0) -> LogEntry:
    return LogEntry(b"%d" % number, None, None, number)


def values(entries: list[LogEntry]) -> list[bytes]:
    return [each.value for each in entries]


def test_an_outcome_counts_that_comes_as_an_entry_is_dropped(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = LogQueue("logs", 1, "oldest", clock)
    queue.put(entry(0))
    queue.take(1)
    queue.put(entry(1))
    take = queue.take

    def settling_take(most: int) -> list[LogEntry]:
        queue.settled()  # of the entry 0, by another thread
        return take(most)

    monkeypatch.setattr(queue, "take", settling_take)
    queue.put(entry(2))
    monkeypatch.undo()
    assert values(queue.take(10)) == [b"2"]
    queue.settled()
    assert queue.flush(0)


def test_an_entry_that_comes_as_the_queue_closes_is_counted(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(100):
        queue = LogQueue("logs", 10, "newest", clock)

        def close(queue: LogQueue = queue) -> None:
            queue.close()
            queue.tell_rest()

        with at_switch(number, log_delivery.__file__, close) as places:
            queue.put(entry())
        if not places:
            break
        assert (queue.dropped, queue.take(1)) == (1, []), places
        assert queue.flush(0)
    assert places == []
    assert number > 2
    assert capsys.readouterr().err.count("1 log record was not sent") == number


def test_the_reader_is_woken_for_the_first_entry_alone(clock: Clock) -> None:
    queue = LogQueue("logs", 10, "newest", clock)
    assert [queue.put(entry(number)) for number in range(3)] == [True, False, False]
    assert values(queue.take(2)) == [b"0", b"1"]
    assert values(queue.take(2)) == [b"2"]
    assert queue.put(entry())


@pytest.mark.parametrize(
    ("drop", "kept"), [("newest", [b"0", b"1", b"2"]), ("oldest", [b"7", b"8", b"9"])]
)
def test_a_full_queue_drops(
    drop: str, kept: list[bytes], clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = LogQueue("logs", 3, drop, clock)  # type: ignore[arg-type]
    for number in range(10):
        queue.put(entry(number))
    assert queue.dropped == 7
    assert values(queue.take(100)) == kept
    for _ in kept:
        queue.settled()
    assert queue.flush(0)
    assert capsys.readouterr().err.count("\n") == 1


def test_standard_error_gets_a_line_a_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = LogQueue("logs", 1, "newest", clock)
    for _ in range(125):
        queue.lose(10, "the reason")
        clock.now += 1.0
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "aioproducer: 10 log records were not sent to topic 'logs': the reason",
        "aioproducer: 600 log records were not sent to topic 'logs': the reason",
        "aioproducer: 600 log records were not sent to topic 'logs': the reason",
    ]
    queue.tell_rest()
    assert capsys.readouterr().err == (
        "aioproducer: 40 log records were not sent to topic 'logs': the reason\n"
    )


def test_failures_are_counted_too(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    queue = LogQueue("logs", 10, "newest", clock)
    queue.put(entry())
    queue.take(1)
    queue.settled(BrokerConnectionError("gone"))
    assert queue.dropped == 1
    assert "1 log record was not sent to topic 'logs': gone" in capsys.readouterr().err


def test_a_standard_error_that_nobody_reads(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = LogQueue("logs", 10, "newest", clock)
    monkeypatch.setattr(sys, "stderr", None)
    queue.lose(1, "nobody reads it")
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        clock.now += 61
        queue.lose(1, "it is full")
        monkeypatch.undo()
        with pytest.raises(OSError, match="space"):
            full.close()
    assert queue.dropped == 2


def test_what_is_put_back_comes_first(clock: Clock) -> None:
    queue = LogQueue("logs", 10, "newest", clock)
    for number in range(4):
        queue.put(entry(number))
    taken = queue.take(3)
    queue.put_back(taken[1:])
    assert values(queue.take(9)) == [b"1", b"2", b"3"]


def test_a_closed_queue_gives_the_rest_and_takes_nothing(clock: Clock) -> None:
    queue = LogQueue("logs", 10, "newest", clock)
    queue.put(entry(1))
    queue.close()
    assert not queue.put(entry(2))
    assert queue.wait()
    assert values(queue.take(9)) == [b"1"]
    assert not queue.wait()
    assert queue.dropped == 1


def test_a_flush_waits_for_outcomes(clock: Clock) -> None:
    queue = LogQueue("logs", 10, "newest", clock)
    queue.put(entry())
    assert not queue.flush(0.01)
    with ThreadPoolExecutor(1) as threads:
        flushed = threads.submit(queue.flush, PATIENCE)
        queue.take(1)
        assert not flushed.done()
        queue.settled()
        assert flushed.result(PATIENCE)


def test_many_threads(clock: Clock) -> None:
    queue = LogQueue("logs", 100_000, "newest", clock)
    taken: list[LogEntry] = []

    def read() -> None:
        while queue.wait():
            for each in queue.take(50):
                taken.append(each)
                queue.settled()

    reader = threading.Thread(target=read)
    reader.start()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: queue.put(entry(number)), range(5_000)))
    wait_until(lambda: len(taken) == 5_000)
    assert queue.flush(PATIENCE)
    queue.close()
    reader.join(PATIENCE)
    assert not queue.dropped


def formatted(message: str = "paid %s", *args: object, **given: Any) -> dict[str, Any]:
    record = logging.LogRecord("shop", logging.WARNING, "f.py", 1, message, args or ("x",), None)
    record.created = 1_700_000_000.25
    vars(record).update(given)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_fields() -> None:
    found = formatted(order=7, customer={"id": 3})
    assert found["timestamp"] == "2023-11-14T22:13:20.250+00:00"
    assert (found["level"], found["logger"], found["message"]) == ("WARNING", "shop", "paid x")
    assert (found["order"], found["customer"]) == (7, {"id": 3})
    assert "exception" not in found


def test_an_extra_field_replaces_none_of_the_record() -> None:
    assert formatted(level="mine", timestamp=1)["level"] == "WARNING"


def test_an_exception() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        found = formatted(exc_info=sys.exc_info(), stack_info="Stack (most recent call last):")
    assert found["exception"].endswith("ValueError: wrong")
    assert found["stack"].startswith("Stack")


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, {(1, 2): 3}, b"\xff"])
def test_a_value_that_json_does_not_have(value: object) -> None:
    assert isinstance(formatted(value=value)["value"], str)


def test_a_cycle() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    assert formatted(value=cycle)["value"] == "[[...]]"


def test_the_other_fields_keep_their_types() -> None:
    found = formatted(value=float("nan"), order=7)
    assert found["order"] == 7
    assert isinstance(found["process"], int)


def test_ctrl_c_ends_the_wait_of_close_and_the_threads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = KafkaHandler("logs", bootstrap_servers="127.0.0.1:1", client_id="interrupted-logs")
    handler.handle(logging.LogRecord("shop", logging.INFO, __file__, 1, "paid", None, None))
    wait_until(lambda: "aioproducer-interrupted-logs" in names())

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(handler._queue, "flush", interrupt)
    with pytest.raises(KeyboardInterrupt):
        handler.close()
    wait_until(lambda: "aioproducer-interrupted-logs" not in names())
    assert handler.dropped == 1
    assert "1 log record was not sent" in capsys.readouterr().err


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}
