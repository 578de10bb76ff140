"""The numbers for people: a section for each protocol and load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.report import Section, say_median, say_range
from benchmarks.summary import Spread
from benchmarks.transactions.plan import Client, Load
from benchmarks.transactions.summary import Summary


def describe(
    protocol: int, load: Load, clients: Sequence[Client], summaries: Sequence[Summary], number: int
) -> Section:
    """``summaries`` are those of this load; ``number``: how many transactions were measured."""
    by_name = {summary.client: summary for summary in summaries}
    done = [client for client in clients if client.name in by_name]
    return Section(
        title=(
            f"{load.name}-v{protocol}: {number:,} transactions of {load.records:,} x "
            f"{load.value_bytes} bytes, {load.partitions} partitions, replication 3, acks=all"
        ),
        rows=tuple(_row(load, by_name[client.name]) for client in done),
        ratios=tuple(_ratios(done, by_name)),
        voids=tuple(
            f"VOID {summary.client}, {void}" for summary in summaries for void in summary.voids
        ),
        settings=tuple(f"{client.name}: {_say_settings(client, load)}" for client in done),
        headings=_headings(load),
    )


def _unit(load: Load) -> tuple[str, int]:
    """What is counted, and how many of it are in a transaction."""
    return ("commit", 1) if load.spread else ("record", load.records)


def _headings(load: Load) -> tuple[str, ...]:
    unit, _ = _unit(load)
    return (
        "client",
        *(f"{unit}s/s", "range", f"CPU-µs/{unit}", "range"),
        *("p50 ms", "range", "p99 ms", "range", "runs", "others' cores"),
    )


def _row(load: Load, summary: Summary) -> tuple[str, ...]:
    unit, units = _unit(load)
    rate = _times(summary.transactions_per_second, units)
    cpu = _times(summary.cpu_us, 1 / units)
    rates, costs = (".1f", ",.0f") if unit == "commit" else (",.0f", ".2f")
    return (
        summary.client,
        *(say_median(rate, rates), say_range(rate, rates)),
        *(say_median(cpu, costs), say_range(cpu, costs)),
        *(say_median(summary.p50_ms, ".1f"), say_range(summary.p50_ms, ".1f")),
        *(say_median(summary.p99_ms, ".1f"), say_range(summary.p99_ms, ".1f")),
        f"{summary.counted}/{summary.counted + len(summary.voids)}",
        say_range(summary.others_cores, ".1f"),
    )


def _times(spread: Spread | None, factor: float) -> Spread | None:
    if spread is None:
        return None
    return Spread(spread.median * factor, spread.low * factor, spread.high * factor)


def _ratios(clients: Sequence[Client], by_name: dict[str, Summary]) -> Iterator[str]:
    """Each of ours to each peer, medians."""
    for mine in (by_name[client.name] for client in clients if client.ours):
        for peer in (by_name[client.name] for client in clients if not client.ours):
            pairs = (
                ("rate", mine.transactions_per_second, peer.transactions_per_second),
                ("CPU", mine.cpu_us, peer.cpu_us),
                ("p50", mine.p50_ms, peer.p50_ms),
                ("p99", mine.p99_ms, peer.p99_ms),
            )
            said = [
                f"{one.median / other.median:.2f} x {what}"
                for what, one, other in pairs
                if one is not None and other is not None and other.median
            ]
            if said:
                yield f"{mine.client} / {peer.client}: {', '.join(said)}"


def _say_settings(client: Client, load: Load) -> str:
    settings = client.settings(load)
    text = ", ".join(f"{name}={value}" for name, value in settings.items()) or "defaults"
    return f"{text}, uvloop" if client.uvloop else text
