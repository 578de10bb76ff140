"""The reports of writes: the number of records and their offsets, and the progress until then.

The reports of a session's streams are sent by their commits to the user's own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
from pyspark import Accumulator
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aioproducer.engine.bulk.send_report import OffsetRange, SendReport
from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.errors import MissingExtraError
from aioproducer.foundation.logs import counted
from aioproducer.model import TopicPartition

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class WriteReport:
    """The records of a task, or of several. It can be pickled."""

    records: int = 0
    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    """First and last offset by Kafka partition. Records of other producers can be in between."""
    dead_letters: int = 0
    """The rows that are in the dead letter topic instead of their own, see the option
    ``errors.deadletterqueue.topic.name``; ``records`` does not count them, ``ranges`` does."""
    bytes: int = 0
    """The size of the rows' Arrow columns, as they were sent."""
    commit_seconds: float = field(default=0.0, compare=False)
    """The time of the transaction's commit, with exactly once."""
    compiled: bool = field(default=True, compare=False)
    """False: a task's Python lacks the compiled modules, and takes several times as much CPU time;
    see ``Producer.health().compiled``."""

    @classmethod
    def of_rows(cls, rows: pa.RecordBatch, sent: SendReport) -> WriteReport:
        """The report of ``rows`` that this process has sent."""
        return cls(sent.delivered, sent.ranges, bytes=rows.nbytes, compiled=is_compiled())

    @classmethod
    def of(cls, reports: Iterable[WriteReport]) -> WriteReport:
        """The sum of ``reports``."""
        records = dead_letters = size = 0
        compiled = True
        ranges: dict[TopicPartition, OffsetRange] = {}
        for report in reports:
            compiled &= report.compiled
            records += report.records
            dead_letters += report.dead_letters
            size += report.bytes
            for place, there in report.ranges.items():
                known = ranges.get(place)
                ranges[place] = there if known is None else _joined(known, there)
        return cls(records, ranges, dead_letters, size, compiled=compiled)

    def __str__(self) -> str:
        places = ", ".join(
            f"{place} from {there.first} to {there.last}"
            for place, there in sorted(self.ranges.items())
        )
        letters = counted(self.dead_letters, "dead letter", ",")
        return (
            f"{counted(self.records, 'record', ',')} written"
            + (f", {letters}" if self.dead_letters else "")
            + (f" ({places})" if places else "")
        )


def _joined(one: OffsetRange, other: OffsetRange) -> OffsetRange:
    return OffsetRange(
        min(one.first, other.first), max(one.last, other.last), one.count + other.count
    )


Reports: TypeAlias = dict[tuple[str, int], WriteReport]

_KEPT: Final = 1_000  # micro-batches


class LatestReports(AccumulatorParam[Reports]):
    """The reports of the newest micro-batches."""

    def zero(self, value: Reports) -> Reports:
        """The start value in a process that adds to it."""
        return {}

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:  # noqa: N802
        """The reports of both."""
        value1 |= value2
        for key in list(value1)[:-_KEPT]:
            del value1[key]
        return value1


class WrittenBatches(Mapping[tuple[str, int], WriteReport]):
    """Reports of the last 1,000 micro-batches by the query's id and the batch's.

    A report is there before the query's progress event for its batch is.
    """

    def __init__(self, reports: Accumulator[Reports] | None) -> None:
        self._reports = reports

    def __getitem__(self, key: tuple[str, int]) -> WriteReport:
        return self._now()[key]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(list(self._now()))

    def __len__(self) -> int:
        return len(self._now())

    def _now(self) -> Reports:
        return {} if self._reports is None else self._reports.value


def reports_accumulator(spark: SparkSession) -> Accumulator[Reports] | None:
    """The accumulator for the reports of commits; None with Spark Connect, which has none."""
    try:
        context = spark.sparkContext
    except PySparkException:
        return None
    return context.accumulator({}, LatestReports())


@dataclass(frozen=True, slots=True)
class PublishProgress:
    """The rows in Kafka so far. Counts never decrease."""

    rows: int
    bytes: int
    """The size of the Arrow columns that the driver has received."""
    partitions_done: int
    """The number of the DataFrame's partitions that are completely in Kafka."""
    partitions_total: int | None
    """The number of partitions; None while unknown, and always with Spark Connect."""
    seconds: float
    """The time since the call."""

    @property
    def rows_per_second(self) -> float:
        """The mean rate since the call, including Spark's start."""
        return self.rows / self.seconds if self.seconds else 0.0


@contextmanager
def rich_progress(
    description: str = "", *, console: Console | None = None
) -> Iterator[Callable[[PublishProgress], None]]:
    """Show a progress bar in the terminal (stderr, or ``console``) for
    ``publish_dataframe(progress=...)``.

    ::

        with rich_progress("flights") as progress:
            await publish_dataframe(df, producer, "flights", progress)

    Raises:
        MissingExtraError: rich is not installed (``aioproducer[cli]``).
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as error:
        raise MissingExtraError(
            "the progress bar needs rich: pip install 'aioproducer[cli]'"
        ) from error
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[speed]:,.0f} rows/s"),
        TimeElapsedColumn(),
        console=console or Console(stderr=True),
    )
    task = shown.add_task(description, total=None, rows=0, speed=0.0)

    def show(progress: PublishProgress) -> None:
        shown.update(
            task,
            completed=progress.partitions_done,
            total=progress.partitions_total,
            rows=progress.rows,
            speed=progress.rows_per_second,
        )

    with shown:
        yield show
