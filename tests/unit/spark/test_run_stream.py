"""When a failed query is started again, and when its error is raised."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from aioproducer.errors import ConfigError, IllegalStateError
from aioproducer.spark import run_stream

LOST = """[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure:
Traceback (most recent call last):
    raise RetriableWriteError(
aioproducer.spark.exactly_once.RetriableWriteError: task 0 runs again (attempt 3)
"""


class Query:
    """Ends with ``error``, after a micro-batch if it has made ``progress``."""

    def __init__(
        self, error: BaseException | None, *, progress: bool = False, name: str = "a-query"
    ) -> None:
        self.error = error
        self.id = name
        self.lastProgress = object() if progress else None
        self.stopped = False

    def awaitTermination(self) -> None:  # noqa: N802
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.stopped = True


def lost(*, progress: bool = False) -> Query:
    return Query(StreamingQueryException(LOST), progress=progress)


def start_of(*queries: Query) -> Callable[[], StreamingQuery]:
    left = iter(queries)
    return lambda: cast("StreamingQuery", next(left))


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    return waits


def test_a_query_that_ends_is_returned(waits: list[float]) -> None:
    query = Query(None)
    assert run_stream(start_of(query)) is cast("Any", query)
    assert waits == []


def test_a_lost_task_is_a_reason_to_restart_and_the_log_names_it(
    caplog: pytest.LogCaptureFixture, waits: list[float]
) -> None:
    end = Query(None)
    assert run_stream(start_of(lost(), lost(), lost(), end)) is cast("Any", end)
    assert all(0.8 * at <= wait <= 1.2 * at for at, wait in zip((1, 2, 4), waits, strict=True))
    assert [each.levelno for each in caplog.records] == [logging.WARNING] * 3
    assert "limit is 10): aioproducer.spark.exactly_once.RetriableWriteError: task 0" in caplog.text


def test_a_registry_that_is_away_is_a_reason_to_restart() -> None:
    away = Query(StreamingQueryException("SchemaRegistryUnavailableError: no registry answers"))
    end = Query(None)
    assert run_stream(start_of(away, end)) is cast("Any", end)


def test_restarts_are_limited() -> None:
    with pytest.raises(StreamingQueryException):
        run_stream(start_of(*(lost() for _ in range(3)), Query(None)), restarts=2)


def test_progress_renews_the_limit() -> None:
    queries = [lost(progress=True) for _ in range(20)]
    end = Query(None)
    assert run_stream(start_of(*queries, end), restarts=1) is cast("Any", end)


def test_a_query_without_a_checkpoint_is_not_restarted_for_ever() -> None:
    queries = (
        Query(StreamingQueryException(LOST), progress=True, name=f"query {number}")
        for number in range(100)
    )
    with pytest.raises(IllegalStateError, match="start it with the option checkpointLocation"):
        run_stream(start_of(*queries))


def test_other_errors_are_raised_at_once(waits: list[float]) -> None:
    wrong = Query(StreamingQueryException("RowsNotWrittenError: task 0: a row is too large"))
    with pytest.raises(StreamingQueryException, match="too large"):
        run_stream(start_of(wrong, Query(None)))
    assert waits == []


def test_an_interrupt_stops_the_query() -> None:
    query = Query(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_stream(start_of(query))
    assert query.stopped


def test_a_query_that_was_started_is_no_way_to_start_it() -> None:
    started: Any = Query(None)
    with pytest.raises(ConfigError, match=r"run_stream\(writer\.start\), not a Query"):
        run_stream(started)
