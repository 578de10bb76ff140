"""The numbers for people: a section for each framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.report import Section, say_median, say_range
from benchmarks.web.plan import NULL, OURS, PARTITIONS, Plan
from benchmarks.web.summary import Summary, ratio

_HEADINGS = (
    *("client", "connections", "requests/s", "range", "x peer's", "CPU-µs/request", "range"),
    *("Kafka's part", "range", "x peer's", "p50 ms", "x peer's", "p99 ms", "x peer's"),
    *("runs", "others' cores"),
)


def describe(framework: str, plan: Plan, summaries: Sequence[Summary]) -> Section:
    """``summaries`` are those of this framework."""
    by_client = {(each.connections, each.client): each for each in summaries}
    peer = next((client for client in plan.clients if client != OURS), None)
    done = [
        by_client[connections, client]
        for connections in plan.connections
        for client in (NULL, *plan.clients)
        if (connections, client) in by_client
    ]
    server = "aiohttp's server" if framework == "aiohttp" else "uvicorn with httptools"
    return Section(
        title=(
            f"{framework}: an awaited, keyed record per POST, {PARTITIONS} partitions, acks=all; "
            f"{plan.rounds} rounds of {plan.seconds} s, {server} on uvloop, wrk"
        ),
        rows=tuple(_row(each, _peer(each, by_client, peer)) for each in done),
        ratios=("Kafka's part: the CPU-µs above the null app's of the same round",),
        voids=tuple(f"VOID {each.client}, {void}" for each in done for void in each.voids),
        settings=tuple(
            f"{client}: its defaults, but acks=all and short timeouts"
            + "; batch_size=1, linger.ms=0" * (client == "confluent-aio")
            for client in plan.clients
        ),
        headings=tuple(heading.replace("peer", peer or "peer") for heading in _HEADINGS),
        labels=2,
    )


def _peer(
    summary: Summary, by_client: Mapping[tuple[int, str], Summary], peer: str | None
) -> Summary | None:
    if peer is None or summary.client in (peer, NULL):
        return None
    return by_client.get((summary.connections, peer))


def _row(summary: Summary, peer: Summary | None) -> tuple[str, ...]:
    return (
        summary.client,
        str(summary.connections),
        *_cells(summary, peer),
        f"{summary.counted}/{summary.counted + len(summary.voids)}",
        say_range(summary.others_cores, ".1f"),
    )


def _cells(summary: Summary, peer: Summary | None) -> Iterator[str]:
    for name, form, ranged, compared in (
        ("requests_per_second", ",.0f", True, True),
        ("cpu_us_per_request", ".1f", True, False),
        ("kafka_cpu_us", ".1f", True, True),
        ("p50_ms", ".2f", False, True),
        ("p99_ms", ".2f", False, True),
    ):
        numbers = summary.numbers.get(name)
        yield say_median(numbers, form)
        if ranged:
            yield say_range(numbers, form)
        if compared:
            found = ratio(summary, peer, name)
            yield "" if found is None else f"{found:.2f}"
