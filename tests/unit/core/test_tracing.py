"""The decision about each record, and an observer that fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from aioproducer.engine.core.sending import (
    PythonFastPath,
    Tracing,
    end,
    end_refused,
    joined_headers,
)
from aioproducer.engine.observer import BatchOutcome, RequestOutcome, Untraced
from aioproducer.errors import ProducerError
from aioproducer.model import Header, RecordMetadata

FIELDS = ("orders", b"v", b"k", 3, None, None)
CONTEXT: Header = ("traceparent", b"00-1")


class Trace:
    headers = (CONTEXT,)

    def __init__(self, behind: Untraced | None = None) -> None:
        self.behind = behind
        self.ends: list[tuple[RecordMetadata, BaseException | None]] = []

    def ended(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.ends.append((metadata, error))


class FakeObserver:
    """Returns the decisions it was made with, and notes the questions."""

    traces = True

    def __init__(self, *decisions: Any) -> None:
        self._decisions: Iterator[Any] = iter(decisions)
        self.asked: list[tuple[Any, ...]] = []
        self.present = object()

    def context(self) -> object:
        return self.present

    def record_sent(self, *fields: Any) -> Any:
        self.asked.append(fields)
        decision = next(self._decisions)
        if isinstance(decision, Exception):
            raise decision
        return decision

    def call_started(self, topic: str, headers: Any) -> Any:
        return self.record_sent(topic, headers)

    def batch_ended(self, outcome: BatchOutcome) -> None: ...

    def request_ended(self, outcome: RequestOutcome) -> None: ...

    def close(self) -> None: ...


def test_a_traced_record_has_its_context_behind_its_own_headers() -> None:
    trace = Trace()
    observer = FakeObserver(trace, trace)
    tracing = Tracing(observer, PythonFastPath())
    assert tracing.begin(FIELDS) == (("orders", b"v", b"k", 3, (CONTEXT,), None), trace)
    fields, _ = tracing.begin((*FIELDS[:4], {"own": b"1"}, None))
    assert fields[4] == (("own", b"1"), CONTEXT)
    assert observer.asked == [("orders", b"k", 3, None), ("orders", b"k", 3, {"own": b"1"})]


def test_a_decision_holds_for_its_number_of_records_in_its_context() -> None:
    observer = FakeObserver(Untraced(3, (CONTEXT,)), Untraced(), Untraced())
    tracing = Tracing(observer, PythonFastPath())
    sent = [tracing.begin(FIELDS) for _ in range(3)]
    assert sent == [((*FIELDS[:4], (CONTEXT,), None), None)] * 3
    assert len(observer.asked) == 1
    assert tracing.begin(FIELDS) == (FIELDS, None)
    assert len(observer.asked) == 2
    observer.present = object()
    tracing.begin(FIELDS)
    assert len(observer.asked) == 3


def test_a_traced_record_brings_a_decision_about_those_behind_it() -> None:
    trace = Trace(Untraced(2, (CONTEXT,)))
    observer = FakeObserver(trace, trace, Trace(Untraced(0)), Trace(), Untraced())
    tracing = Tracing(observer, PythonFastPath())
    assert tracing.begin((*FIELDS[:4], {"own": b"1"}, None))[1] is trace
    assert tracing.begin(FIELDS)[1] is trace
    sent = [tracing.begin(FIELDS) for _ in range(2)]
    assert sent == [((*FIELDS[:4], (CONTEXT,), None), None)] * 2
    assert len(observer.asked) == 2
    for asked in (3, 4, 5):
        tracing.begin(FIELDS)
        assert len(observer.asked) == asked


def test_a_record_with_headers_is_always_asked_about() -> None:
    observer = FakeObserver(Untraced(9), Untraced(9), Untraced(9))
    tracing = Tracing(observer, PythonFastPath())
    for _ in range(3):
        tracing.begin((*FIELDS[:4], (("own", b"1"),), None))
    assert len(observer.asked) == 3


@pytest.mark.parametrize("own", [None, (), [("a", b"1")], {"a": b"1"}])
def test_joined_headers(own: Any) -> None:
    joined = joined_headers(own, (CONTEXT,))
    assert joined == ((("a", b"1"), CONTEXT) if own else (CONTEXT,))


def test_invalid_headers_stay_for_the_check_that_refuses_them() -> None:
    assert joined_headers(7, (CONTEXT,)) == 7
    assert joined_headers(7, ()) == 7


def test_an_observer_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Trace):
        def ended(self, metadata: RecordMetadata, error: BaseException | None) -> None:
            raise ValueError("no span")

    tracing = Tracing(FakeObserver(ValueError("a"), ValueError("b")), PythonFastPath())
    with caplog.at_level(logging.ERROR, "aioproducer.core.sending"):
        assert tracing.begin(FIELDS) == (FIELDS, None)
        assert tracing.begin_call("orders", None) is None
        end(Fails(), RecordMetadata("orders", 0, 1, 2, 3, 4), None)
    assert len(caplog.records) == 3


@pytest.mark.parametrize(("given", "told"), [(None, -1), (2, 2), ("2", -1), (-7, -1)])
def test_a_record_that_failed_has_its_topic_and_partition(given: Any, told: int) -> None:
    trace, error = Trace(), ProducerError("no")
    end_refused(trace, ("orders", b"v", None, given, None, None), error)
    assert trace.ends == [(RecordMetadata("orders", told, -1, -1, -1, -1), error)]
