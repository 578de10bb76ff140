"""The table of ``aioproducer perf`` while a run lasts."""

from __future__ import annotations

import io

from rich.console import Console

from aioproducer.cli.performance_run import Summary, performance_table

LATENCIES = ("avg", "p50", "p95", "p99", "p99.9", "max")


def test_every_column_has_its_unit_and_fits_a_terminal() -> None:
    summary = Summary(1_234_567, 60 << 20, 10.0, dict.fromkeys(LATENCIES, 123.4))
    console = Console(file=io.StringIO(), width=80)
    console.print(performance_table({"now": summary, "so far": summary}))
    written = console.file
    assert isinstance(written, io.StringIO)
    names, units, _, now, _ = written.getvalue().strip("\n ").split("\n")[:5]
    assert names.split() == list(LATENCIES)
    assert units.split() == ["records", "records/s", "MiB/s", *["ms"] * len(LATENCIES)]
    assert now.split() == ["now", "1,234,567", "123,457", "6.0", *["123.4"] * len(LATENCIES)]
