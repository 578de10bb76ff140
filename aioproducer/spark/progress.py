"""The progress of writing a DataFrame to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aioproducer.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console


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
