"""The reports of a session's streams, sent by their commits to the user's own process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from pyspark import Accumulator
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aioproducer.spark.report import WriteReport

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
