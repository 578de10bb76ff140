"""What is measured. Every number that a run can have stands here, once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """How one number is said."""

    heading: str
    form: str
    """How it is formatted."""
    ranged: bool = False
    """Whether its range over the rounds is said, too."""
    ratio: str | None = None
    """What its ratio to a peer's is called; None: it is not said."""


METRICS = {
    "records_per_second": Metric("records/s", ",.0f", ranged=True, ratio="records/s"),
    # Of values; 1 MB = 1,000,000 bytes.
    "megabytes_per_second": Metric("MB/s", ".1f"),
    # User and system, all threads of the client's process.
    "cpu_us_per_record": Metric("CPU-µs/record", ".2f", ranged=True, ratio="CPU"),
    # The same of all brokers together.
    "brokers_cpu_us_per_record": Metric("brokers' CPU-µs", ".2f"),
    # Interpreter and values included.
    "peak_megabytes": Metric("peak MB", ".0f"),
    # From the call to the confirmation, where every record is awaited.
    "p50_ms": Metric("p50 ms", ".3f", ratio="p50"),
    "p99_ms": Metric("p99 ms", ".3f", ratio="p99"),
    # The median micro-batch of a stream: the part of it in which its rows are written.
    "add_batch_ms": Metric("addBatch ms", ".0f", ranged=True),
    # A task that does nothing, in the same process: its start and its end.
    "task_us": Metric("CPU-µs/task", ".2f"),
    # How late the event loop was.
    "late_p50_ms": Metric("late p50 ms", ".2f"),
    "late_p99_ms": Metric("p99", ".2f"),
    "late_p999_ms": Metric("p99.9", ".2f", ranged=True, ratio="p99.9 of lateness"),
    "late_max_ms": Metric("max", ".1f", ranged=True),
    # For how long one call that sends a record held the event loop.
    "longest_send_ms": Metric("longest send ms", ".2f", ranged=True),
    # Resident memory: before the first record, and after each quarter of the time.
    "before_megabytes": Metric("MB before", ".0f"),
    "quarter_1_megabytes": Metric("at 1/4", ".0f"),
    "quarter_2_megabytes": Metric("at 2/4", ".0f"),
    "quarter_3_megabytes": Metric("at 3/4", ".0f"),
    "quarter_4_megabytes": Metric("at the end", ".0f"),
}
