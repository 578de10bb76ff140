"""What a marker says about a batch."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from aioproducer.engine.bulk.send_report import OffsetRange
from aioproducer.errors import (
    BrokerConnectionError,
    DeliveryTimeoutError,
    DuplicateSequenceNumberError,
    IllegalStateError,
    InvalidProducerEpochError,
    LeaderNotAvailableError,
    MessageTooLargeError,
    MetadataTimeoutError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    SchemaRegistryUnavailableError,
    SerializationError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aioproducer.model import TopicPartition, TransactionHandle
from aioproducer.spark import exactly_once, executors
from aioproducer.spark.exactly_once import (
    Batch,
    Begun,
    FailureKind,
    RetriableWriteError,
    RowsNotWrittenError,
    TaskFailure,
    TaskOutcome,
    commit,
    kind_of,
    tells_what_may_pass,
)
from aioproducer.spark.executors import _outcome, _told, publish_partitions
from aioproducer.spark.plan import plan_write
from aioproducer.spark.report import WriteReport

HANDLE = TransactionHandle("s", 1, 2, 2)
PLAN = plan_write(
    {
        "kafka.bootstrap.servers": "localhost:1",
        "topic": "t",
        "delivery.guarantee": "exactly_once",
        "sink.id": "s",
    },
    {"value": "string"},
)


def test_without_a_marker_nothing_is_written_yet(caplog: pytest.LogCaptureFixture) -> None:
    new = Begun(HANDLE, None, "")
    assert not new.is_written(Batch(0, "q"))
    assert not new.is_written(Batch(7))
    assert not caplog.records


def test_a_stream_that_has_lost_its_marker_is_told_loudly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert not Begun(HANDLE, None, "").is_written(Batch(7, "q"))
    assert "its topic was deleted and created again" in caplog.text
    assert "offsets.retention.minutes" in caplog.text
    assert caplog.records[0].levelno == logging.WARNING
    new = Begun(HANDLE, None, "")
    with pytest.raises(IllegalStateError, match="To continue, set failOnDataLoss=false once"):
        new.is_written(Batch(7, "q"), fail_on_data_loss=True)
    assert not new.is_written(Batch(0, "q"), fail_on_data_loss=True)


def test_the_next_batch_is_not_written_and_those_before_are() -> None:
    begun = Begun(HANDLE, 3, "q")
    assert not begun.is_written(Batch(3, "q"))
    assert begun.is_written(Batch(2, "q"))


def test_numbers_of_batch_writes_may_leave_some_out() -> None:
    assert not Begun(HANDLE, 3, "").is_written(Batch(20261122))


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_stream_leaves_none_out_and_goes_back_by_one(number: int) -> None:
    with pytest.raises(IllegalStateError, match=f"all batches up to 2, and this is batch {number}"):
        Begun(HANDLE, 3, "q").is_written(Batch(number, "q"))


def test_a_batch_write_does_not_go_back_by_more_than_one() -> None:
    assert Begun(HANDLE, 20261122, "").is_written(Batch(20261121))
    with pytest.raises(IllegalStateError, match=r"sink\.batch\.id does not grow"):
        Begun(HANDLE, 20261122, "").is_written(Batch(20261120))


def test_a_marker_without_an_owner_is_taken_over() -> None:
    assert not Begun(HANDLE, 1, "?").is_written(Batch(1, "q"))
    assert Begun(HANDLE, 1, "?").is_written(Batch(0, "q"))


def test_a_batch_write_without_a_number_has_no_marker_but_an_owner() -> None:
    assert not Begun(HANDLE, 3, "").is_written(None)
    with pytest.raises(IllegalStateError, match="belongs to the streaming query q"):
        Begun(HANDLE, 3, "q").is_written(None)


@pytest.mark.parametrize(
    ("batch", "its", "says"),
    [
        (Batch(3, "q"), "p", "the streaming query p, .* each sink needs its own sink.id"),
        (Batch(0, "q"), "p", "the streaming query p, .* whose checkpoint was deleted or moved"),
        (Batch(3, "q"), "", "batch writes, .* each sink needs its own sink.id"),
        (
            Batch(3),
            "p",
            r"query p, .* a batch write: each sink needs its own sink\.id",
        ),
    ],
)
def test_a_sink_id_belongs_to_one_query(batch: Batch, its: str, says: str) -> None:
    with pytest.raises(IllegalStateError, match=says):
        Begun(HANDLE, 5, its).is_written(batch)


@pytest.mark.parametrize(
    ("number", "says"),
    [(0, "checkpoint is older"), (4, "batch 3 did not pass"), (6, "batches 3 to 5 did not pass")],
)
def test_an_older_checkpoint_and_batches_that_were_left_out_have_their_own_texts(
    number: int, says: str
) -> None:
    with pytest.raises(IllegalStateError, match=says):
        Begun(HANDLE, 3, "q").is_written(Batch(number, "q"))


def outcome(*partitions: int, begun: Begun | None = None, number: int = 0) -> TaskOutcome:
    ranges = {TopicPartition("t", partition): OffsetRange(0, 0, 1) for partition in partitions}
    return TaskOutcome(
        WriteReport(len(ranges), ranges), begun or Begun(HANDLE, None, ""), Batch(number, "q")
    )


def test_two_tasks_in_one_partition_are_not_committed() -> None:
    with pytest.raises(IllegalStateError, match=r"two tasks wrote into t-1.*repartition_by_key"):
        commit(PLAN, [outcome(0, 1), outcome(1, 2)], 0)


def failed(kind: FailureKind, *partitions: int) -> TaskOutcome:
    failure = TaskFailure(f"task 7: {kind} for a reason", kind)
    return replace(outcome(*partitions), failure=failure)


@pytest.mark.parametrize(
    ("kinds", "error", "says"),
    [
        ([FailureKind.FINAL], RowsNotWrittenError, "^task 7: final for a reason$"),
        ([FailureKind.RETRIABLE], RetriableWriteError, r"^task 7: retriable .* run_stream\(\)"),
        ([FailureKind.FENCED], RetriableWriteError, "another query, job or driver began a write"),
        ([*FailureKind][::-1], RowsNotWrittenError, "^task 7: final"),
        ([FailureKind.FENCED, FailureKind.RETRIABLE], RetriableWriteError, "^task 7: retriable"),
        ([FailureKind.FINAL] * 3, RowsNotWrittenError, r"\(and 2 more tasks\)"),
    ],
)
def test_the_failure_that_explains_the_others_is_raised(
    kinds: list[FailureKind], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        commit(PLAN, [outcome(9), *(failed(each) for each in kinds)], 0)


def test_tasks_that_share_a_partition_explain_what_brokers_said_about_it() -> None:
    with pytest.raises(IllegalStateError, match=r"two tasks wrote into t-1.*repartition_by_key"):
        commit(PLAN, [outcome(0, 1), failed(FailureKind.RETRIABLE, 1)], 0)


def late(cause: Exception) -> MetadataTimeoutError:
    """The error of a row for a topic that stays unknown because of ``cause``."""
    error = MetadataTimeoutError(f"topic 't' is unknown: {cause}")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SerializationError("no topic"), FailureKind.FINAL),
        (MetadataTimeoutError("no such partition"), FailureKind.FINAL),
        (late(UnknownTopicOrPartitionError("no such topic")), FailureKind.FINAL),
        (late(UnsupportedVersionError("35")), FailureKind.FINAL),
        (late(LeaderNotAvailableError("5")), FailureKind.RETRIABLE),
        (late(BrokerConnectionError("no broker answered")), FailureKind.RETRIABLE),
        (MessageTooLargeError("10"), FailureKind.FINAL),
        (ValueError("a bug"), FailureKind.FINAL),
        (DeliveryTimeoutError("late"), FailureKind.RETRIABLE),
        (BrokerConnectionError("lost"), FailureKind.RETRIABLE),
        (OutOfOrderSequenceNumberError("45"), FailureKind.RETRIABLE),
        (DuplicateSequenceNumberError("46"), FailureKind.RETRIABLE),
        (InvalidProducerEpochError("47"), FailureKind.FENCED),
        (ProducerFencedError("90"), FailureKind.FENCED),
    ],
)
def test_the_kind_of_a_failure_is_that_of_its_cause(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind
    above = RowsNotWrittenError("1 of 1 rows was not written")
    above.__cause__ = error
    assert TaskFailure.of(3, above) == TaskFailure("task 3: 1 of 1 rows was not written", kind)


def test_the_text_of_an_error_says_whether_a_repetition_helps() -> None:
    rows = RowsNotWrittenError("1 of 1 rows was not written")
    rows.__cause__ = BrokerConnectionError("lost")
    for error, text in (
        (rows, "^1 of 1 rows was not written$"),
        (
            SchemaRegistryUnavailableError("no answer"),
            "^SchemaRegistryUnavailableError: no answer$",
        ),
    ):
        with pytest.raises(RetriableWriteError, match=text), tells_what_may_pass():
            raise error
    for same in (MessageTooLargeError("10"), RetriableWriteError("no broker"), ValueError("a bug")):
        with pytest.raises(type(same)) as caught, tells_what_may_pass():
            raise same
        assert caught.value is same


def test_tasks_of_different_plans_are_not_committed() -> None:
    other = Begun(TransactionHandle("s", 1, 3, 2), None, "")
    with pytest.raises(IllegalStateError, match="not all write for the same plan"):
        commit(PLAN, [outcome(0), outcome(1, begun=other)], 0)
    with pytest.raises(IllegalStateError, match="not all write for the same plan"):
        commit(PLAN, [outcome(0), outcome(1, number=1)], 0)
    with pytest.raises(IllegalStateError, match="not all write for the same plan"):
        commit(PLAN, [outcome(0)], 1)


def test_what_was_skipped_is_not_committed_again() -> None:
    begun = Begun(HANDLE, 1, "q")
    skipped = TaskOutcome(WriteReport(), begun, Batch(0, "q"))
    assert commit(PLAN, [skipped, skipped], 0) == WriteReport()
    assert commit(PLAN, [skipped, skipped], None) == WriteReport(), "of the user's own foreachBatch"


def test_of_a_batch_write_without_rows_there_is_nothing_to_commit() -> None:
    empty = TaskOutcome(WriteReport(), Begun(HANDLE, None, ""))
    assert commit(PLAN, [empty], None) == WriteReport()


class _Committing:
    """A producer of a transaction of others, which does nothing."""

    made: ClassVar[list[_Committing]] = []

    def __init__(self, *_: object, **__: object) -> None:
        self.commits = 0
        self.made.append(self)

    def __enter__(self) -> _Committing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def commit_transaction(self, timeout: float) -> None:
        self.commits += 1


def test_a_batch_write_of_dead_letters_alone_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactly_once, "Producer", _Committing)
    letters = WriteReport(0, {TopicPartition("failed", 0): OffsetRange(0, 0, 1)}, dead_letters=1)
    report = commit(PLAN, [TaskOutcome(letters, Begun(HANDLE, None, ""))], None)
    assert (report.records, report.dead_letters) == (0, 1)
    assert [each.commits for each in _Committing.made] == [1]


def test_a_beginning_without_brokers_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []

    def refuse(plan: object) -> Begun:
        began.append(plan)
        raise RetriableWriteError("no broker")

    monkeypatch.setattr(executors, "begin", refuse)
    monkeypatch.setattr("time.sleep", lambda _: None)
    df = SimpleNamespace(
        schema=StructType([StructField("value", StringType())]),
        sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=lambda _: None)),
    )
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "sink.id": "s"}
    with pytest.raises(RetriableWriteError, match="no broker"):
        publish_partitions(cast("Any", df), **options, **{"delivery.guarantee": "exactly_once"})
    assert len(began) == 4


def test_outcomes_pickle() -> None:
    there = pickle.loads(pickle.dumps(outcome(0, 1)))
    assert there == outcome(0, 1)


def test_reports_add_up() -> None:
    place = TopicPartition("t", 0)
    one = WriteReport(2, {place: OffsetRange(5, 6, 2)}, 4, 100)
    other = WriteReport(
        3, {place: OffsetRange(9, 12, 3), TopicPartition("t", 1): OffsetRange(0, 0, 1)}
    )
    both = WriteReport.of([one, other])
    assert both.records == 5
    assert both.ranges[place] == OffsetRange(5, 12, 5)
    assert (both.dead_letters, both.bytes) == (4, 100)
    assert str(both) == ("5 records written, 4 dead letters (t-0 from 5 to 12, t-1 from 0 to 0)")
    assert str(WriteReport()) == "0 records written"


# --- the outcomes of tasks ------------------------------------------------------------------------

RANGES = {
    TopicPartition("t", 0): OffsetRange(5, 9, 5),
    TopicPartition('"é', 2**31 - 1): OffsetRange(0, 2**62, 2**62 + 1),
}


@pytest.mark.parametrize("batch", [None, Batch(0), Batch(7, "a query")])
@pytest.mark.parametrize("begun", [None, Begun(HANDLE, 3, "q")])
@pytest.mark.parametrize("failure", [None, TaskFailure("ü", FailureKind.FENCED)])
def test_an_outcome_comes_back_as_text(
    batch: Batch | None, begun: Begun | None, failure: TaskFailure | None
) -> None:
    report = WriteReport(6, RANGES, 2, 1234, compiled=False)
    outcome = TaskOutcome(report, begun, batch, failure)
    found = _outcome(_told(outcome), begun)
    assert found == outcome
    assert not found.report.compiled


def told(**wrong: Any) -> str:
    right = {"records": 6, "dead_letters": 0, "bytes": 9, "compiled": True}
    return json.dumps({**right, "ranges": [], "batch": None, "failure": None, **wrong})


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        "{}",
        "[" * 100_000,
        b"\xff",
        7,
        told(records="6"),
        told(records=True),
        told(bytes=None),
        told(compiled=1),
        told(ranges=None),
        told(ranges=[["t", 0, 1, 2]]),
        told(ranges=[[["t"], 0, 1, 2, 3]]),
        told(batch=[1, 2]),
        told(batch=1),
        told(failure=["why"]),
        told(failure=["why", "so"]),
        told(failure=[1, "final"]),
    ],
)
def test_a_text_that_is_no_outcome_is_refused(text: Any) -> None:
    with pytest.raises(IllegalStateError, match="a task of the write did not report its records"):
        _outcome(text, None)


def test_a_text_that_is_an_outcome_is_not() -> None:
    assert _outcome(told(), None).report.records == 6


class _Opened:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("as_text", [False, True])
def test_a_server_of_spark_connect_runs_no_code_in_its_client(
    tmp_path: Path, *, as_text: bool
) -> None:
    evil = pickle.dumps(_Opened(tmp_path / "run"), protocol=0)
    row = SimpleNamespace(outcome=evil.decode() if as_text else evil)
    table = SimpleNamespace(collect=lambda: [row])
    rows = SimpleNamespace(mapInArrow=lambda *_: table)
    df = SimpleNamespace(
        schema=StructType([StructField("value", StringType())]), select=lambda *_: rows
    )
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
    with pytest.raises(IllegalStateError, match="did not report"):
        publish_partitions(cast("Any", df), **options)
    assert not list(tmp_path.iterdir())
