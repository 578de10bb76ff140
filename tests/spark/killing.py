"""The sink, with places at which a process of Spark is killed: once for each that is planned."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest import mock

import psutil  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from aioproducer import sync
from aioproducer.spark import task
from aioproducer.spark.source import KafkaDataSource, StreamWriter, TaskDone


class Point(StrEnum):
    """Where in a micro-batch."""

    BEFORE_ANY_WRITE = "before any write"
    MID_WRITE = "mid-write"
    AFTER_TASKS = "after the tasks, before the commit"
    BEFORE_END = "in the commit, before EndTxn"
    AFTER_END = "in the commit, after EndTxn"


class Victim(StrEnum):
    """Who is killed."""

    WORKER = "the Python worker"
    JVM = "the JVM"
    DRIVER = "the driver, and its JVM"


@dataclass(frozen=True)
class Kill:
    batch: int
    point: Point
    victim: Victim


class Plan:
    """Kills, in a folder that all processes see. ``done`` has those that happened."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def write(self, kills: Sequence[Kill]) -> None:
        self.folder.mkdir()
        text = json.dumps([asdict(kill) for kill in kills])
        (self.folder / "kills.json").write_text(text)

    def kills(self) -> list[Kill]:
        said = json.loads((self.folder / "kills.json").read_text())
        return [Kill(each["batch"], Point(each["point"]), Victim(each["victim"])) for each in said]

    def done(self) -> list[Kill]:
        return [
            kill for number, kill in enumerate(self.kills()) if (self.folder / str(number)).exists()
        ]

    def reach(self, point: Point, batch: int) -> None:
        for number, kill in enumerate(self.kills()):
            if (kill.batch, kill.point) == (batch, point):
                try:
                    os.close(os.open(self.folder / str(number), os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                _kill(kill.victim)


def _kill(victim: Victim) -> None:
    """From a worker, whose parents are its daemon, the JVM, and the driver."""
    own = psutil.Process()
    parents = own.parents()
    jvm = next(number for number, each in enumerate(parents) if each.name() == "java")
    doomed = {
        Victim.WORKER: [own],
        Victim.JVM: [parents[jvm]],
        Victim.DRIVER: [parents[jvm + 1], parents[jvm]],
    }[victim]
    for process in doomed:
        process.send_signal(signal.SIGKILL)
    if victim is not Victim.WORKER:
        os.kill(own.pid, signal.SIGSTOP)  # it goes no further until it dies with its parents


class KillingSource(KafkaDataSource):
    """``format("killing")``, with the option ``plan``: the folder of a :class:`Plan`."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return KillingWriter(self._plan(schema), Plan(self.options["plan"]))


class KillingWriter(StreamWriter):
    def __init__(self, plan: Any, kills: Plan) -> None:
        super().__init__(plan)
        self.kills = kills

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        self.kills.reach(Point.BEFORE_ANY_WRITE, batch)
        task._AT_ONCE = 1  # type: ignore[misc]  # each Arrow batch is sent by itself
        send = task.RowWriter._send

        def send_and_tell(writer: task.RowWriter, rows: pa.RecordBatch) -> Any:
            reports = send(writer, rows)
            self.kills.reach(Point.MID_WRITE, batch)
            return reports

        with mock.patch.object(task.RowWriter, "_send", send_and_tell):
            return super().write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.kills.reach(Point.AFTER_TASKS, batchId)
        end = sync.Producer.commit_transaction

        def end_and_tell(producer: sync.Producer, timeout: float | None = None) -> None:
            self.kills.reach(Point.BEFORE_END, batchId)
            end(producer, timeout)
            self.kills.reach(Point.AFTER_END, batchId)

        with mock.patch.object(sync.Producer, "commit_transaction", end_and_tell):
            super().commit(messages, batchId)
