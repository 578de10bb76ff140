"""The numbers for people: a section for each load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.metrics import METRICS
from benchmarks.report import Section, say_median, say_range
from benchmarks.spark.plan import Contender
from benchmarks.summary import Spread, Summary
from benchmarks.workloads import Workload


def describe(
    load: Workload, contenders: Sequence[Contender], summaries: Sequence[Summary], rows: int
) -> Section:
    """``summaries`` are those of this load."""
    by_name = {summary.client: summary for summary in summaries}
    done = [contender for contender in contenders if contender.name in by_name]
    measured = [name for name in METRICS if any(name in summary.numbers for summary in summaries)]
    return Section(
        title=(
            f"{load.name}: {load.meaning}; {rows:,} rows of {load.value_bytes} bytes to "
            f"{load.partitions} partitions, acks=all, local[2]"
        ),
        rows=tuple(_row(by_name[contender.name], measured) for contender in done),
        ratios=tuple(_ratios(done, by_name)),
        voids=tuple(
            f"VOID {summary.client}, {void}" for summary in summaries for void in summary.voids
        ),
        settings=tuple(f"{each.name}: {_say_settings(each)}" for each in done if each.sends),
        headings=("sink", *_headings(measured), "runs", "others' cores"),
    )


def _headings(measured: Sequence[str]) -> Iterator[str]:
    for name in measured:
        yield METRICS[name].heading.replace("record", "row")
        if METRICS[name].ranged:
            yield "range"


def _row(summary: Summary, measured: Sequence[str]) -> tuple[str, ...]:
    cells = []
    for name in measured:
        metric, numbers = METRICS[name], summary.numbers.get(name)
        cells.append(say_median(numbers, metric.form))
        if metric.ranged:
            cells.append(say_range(numbers, metric.form))
    runs = f"{summary.counted}/{summary.counted + len(summary.voids)}"
    return (summary.client, *cells, runs, say_range(summary.others_cores, ".1f"))


def _ratios(contenders: Sequence[Contender], by_name: Mapping[str, Summary]) -> Iterator[str]:
    """Each to Spark's own sink: medians, and the best rounds, which noise disturbs least."""
    for contender in contenders:
        if contender.peer is None:
            continue
        mine = by_name[contender.name].numbers
        peer = by_name.get(contender.peer) or by_name.get("spark")
        if peer is None or not mine or not peer.numbers:
            continue
        rate, other_rate = mine["records_per_second"], peer.numbers["records_per_second"]
        cpu, other_cpu = mine["cpu_us_per_record"], peer.numbers["cpu_us_per_record"]
        yield (
            f"{contender.name} / {peer.client}: "
            f"{rate.median / other_rate.median:.2f} x rows/s (best rounds "
            f"{rate.high / other_rate.high:.2f}), "
            f"{cpu.median / other_cpu.median:.2f} x CPU (best {cpu.low / other_cpu.low:.2f})"
            f"{_batch_ratio(mine, peer.numbers)}"
        )


def _batch_ratio(mine: Mapping[str, Spread], peer: Mapping[str, Spread]) -> str:
    """Of a micro-batch; nothing, if there are none."""
    if "p50_ms" not in mine or "p50_ms" not in peer:
        return ""
    return f", {mine['p50_ms'].median / peer['p50_ms'].median:.2f} x p50"


def _say_settings(contender: Contender) -> str:
    return ", ".join(f"{name}={value}" for name, value in contender.settings.items()) or "defaults"
