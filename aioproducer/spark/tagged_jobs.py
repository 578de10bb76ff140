"""The jobs that one thread starts in Spark, so that others can cancel them, and no other job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import SparkSession

_INTERRUPT: Final = "spark.sql.execution.interruptOnCancel"


class TaggedJobs:
    """Jobs marked by a tag. With Spark Connect the server has them, and a session's tag marks them.

    Threads that are in their way are interrupted, unless ``spark.sql.execution.interruptOnCancel``
    is false. In Spark Classic a session's tag would not do: most jobs of ``toLocalIterator()``
    start when its SQL execution is over, and ``interruptTag()`` does not see them.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context: SparkContext | None = getattr(spark, "sparkContext", None)
        self._tag = f"aioproducer-{uuid4()}"

    @property
    def are_remote(self) -> bool:
        """True with Spark Connect, which tells little about the jobs."""
        return self._context is None

    @contextmanager
    def marked(self, local_properties: Mapping[str, str]) -> Iterator[None]:
        """Mark the jobs that this thread starts in the block, and the jobs that follow from them.

        ``local_properties`` stay with the thread: it has to be ours. (They would get into others
        with ``PYSPARK_PIN_THREAD=false``.)
        """
        if self._context is None:
            self._spark.addTag(self._tag)
        else:
            self._context.addJobTag(self._tag)
            # Jobs of SQL executions have it so; those of an RDD have none.
            self._context.setLocalProperty(
                "spark.job.interruptOnCancel", str(self._spark.conf.get(_INTERRUPT))
            )
            for name, value in local_properties.items():
                self._context.setLocalProperty(name, value)
        try:
            yield
        finally:
            if self._context is None:
                self._spark.removeTag(self._tag)
            else:
                self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        """Cancel the marked jobs that run now; from any thread."""
        if self._context is None:
            self._spark.interruptTag(self._tag)
        else:
            self._context.cancelJobsWithTag(self._tag)
