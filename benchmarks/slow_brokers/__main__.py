"""The part of the possible throughput that a client reaches with brokers that answer late.

``python -m benchmarks.slow_brokers``. A sender sends to a topic of few partitions as fast as the
client's flow control lets it, with default options. The bound is what the protocol allows with the
default options of ours: five requests of a mebibyte to each broker are always in flight.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import launch
from benchmarks.__main__ import names_of
from benchmarks.brokers import BROKERS
from benchmarks.distance import far_away
from benchmarks.machine import Neighbours, cpu_seconds_of_servers
from benchmarks.report import Measurement, Section, add_options, print_plain
from benchmarks.slow_brokers.client import Costs
from benchmarks.slow_brokers.picture import Measured, draw
from benchmarks.slow_brokers.plan import CLIENTS, Case, Client

_ROOT: Final = Path(__file__).parents[2]
_START_SECONDS: Final = 2
"""The time that a client takes to start and to end."""
_LONGEST: Final = 60.0
"""Seconds beside the measured ones."""
_USUAL: Final = ("aioproducer", "aioproducer-beats", "confluent", "confluent-idempotent")
_HEADINGS: Final = (
    *("client", "records/s", "range", "of bound", "CPU-µs/record", "brokers' CPU-µs"),
    *("KB/request", "ms", "in flight", "peak MB", "late p99.9", "own", "others' cores"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a client."""

    client: str
    others_cores: float
    measured: Measured

    @property
    def costs(self) -> Costs:
        return self.measured.costs


def run_all(
    cases: Sequence[Case],
    clients: Sequence[Client],
    options: argparse.Namespace,
    away: Sequence[str] = (),
) -> Iterator[tuple[Case, list[Run]]]:
    """The runs of each case, round by round: A B C, B C A.

    ``away`` begins the command of a process that is at a distance, see :func:`far_away`.
    A first round with real brokers is not counted: their JVMs compile what they run.
    """
    warm_up_rounds = 0 if options.brokers == "mock" else 1
    uncounted = warm_up_rounds * len(clients)
    with BROKERS[options.brokers]() as serving:
        for case in cases:
            found: list[Run] = []
            with serving(case.workload()) as target:
                for number in range(warm_up_rounds + options.rounds):
                    first = number % len(clients)
                    for client in (*clients[first:], *clients[:first]):
                        found.append(_run(case, client, target.bootstrap_servers, options, away))
            _refuse_void(found[:uncounted])
            yield case, found[uncounted:]


def _run(
    case: Case,
    client: Client,
    bootstrap: str,
    options: argparse.Namespace,
    away: Sequence[str],
) -> Run:
    arguments = [client.name, "--bootstrap", bootstrap, "--partitions", str(case.partitions)]
    arguments += ["--value-bytes", str(case.value_bytes), "--rtt-ms", str(case.rtt_ms)]
    arguments += ["--warm-up", str(options.warm_up), "--seconds", str(options.seconds)]
    arguments += ["--distance-ms", str(case.distance_ms)]
    arguments += ["--keyed"] if case.keyed else []
    neighbours, brokers_cpu = Neighbours(), cpu_seconds_of_servers()
    done = subprocess.run(
        [*away, *launch.command("benchmarks.slow_brokers.client", *arguments)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=options.warm_up + options.seconds + _LONGEST,
        check=True,
    )
    costs = Costs(**json.loads(done.stdout.splitlines()[-1]))
    brokers_cpu = cpu_seconds_of_servers() - brokers_cpu
    return Run(client.name, neighbours.cores_used(), Measured(costs, brokers_cpu))


def _refuse_void(runs: Sequence[Run]) -> None:
    """Raise if a record of ``runs``, which no table shows, failed or is out of order."""
    for run in runs:
        if run.costs.is_void:
            raise SystemExit(
                f"{run.client}, in the round that is not counted: {run.costs.failed} records "
                f"failed, {run.costs.out_of_order} are out of order"
            )


def describe(case: Case, runs: Sequence[Run]) -> Section:
    """One case: medians over the rounds, and the range of the rates."""
    bound = case.bound()
    limit = "" if bound is None else f"; bound {bound:,.0f} records/s"
    names = dict.fromkeys(run.client for run in runs)
    valid = [run for run in runs if not run.costs.is_void]
    return Section(
        title=f"{case.name}: {case.meaning}{limit}",
        headings=_HEADINGS,
        rows=tuple(
            _row(name, [run for run in valid if run.client == name], bound) for name in names
        ),
        voids=tuple(
            f"VOID {run.client}: {run.costs.failed} failed, {run.costs.out_of_order} out of order"
            for run in runs
            if run.costs.is_void
        ),
    )


def _row(client: str, runs: Sequence[Run], bound: float | None) -> tuple[str, ...]:
    if not runs:
        return client, *["-"] * (len(_HEADINGS) - 1)
    costs = [run.costs for run in runs]
    rates = [each.delivered / each.seconds for each in costs]
    rate = median(rates)
    requests = median(each.requests / each.seconds for each in costs)
    size = median(each.request_bytes / each.requests for each in costs if each.requests)
    part = "-" if bound is None else f"{rate / bound:.0%}"
    response_ms = median(each.response_ms for each in costs)
    brokers = median(run.measured.brokers_cpu_seconds / run.costs.delivered_in_all for run in runs)
    others = [run.others_cores for run in runs]
    return (
        *(client, f"{rate:,.0f}", f"{min(rates):,.0f}..{max(rates):,.0f}", part),
        f"{median(each.cpu_seconds / each.delivered for each in costs) * 1e6:.2f}",
        *(f"{brokers * 1e6:.2f}", f"{size / 1_024:,.0f}", f"{response_ms:.1f}"),
        f"{requests * response_ms / 1_000:.1f}",
        f"{max(each.peak_bytes for each in costs) / 1e6:.0f}",
        *(_late(costs, "late_p999_ms"), _late(costs, "own_p999_ms")),
        f"{min(others):.1f}..{max(others):.1f}",
    )


def _late(costs: Sequence[Costs], name: str) -> str:
    late = [each.lateness_ms[name] for each in costs if name in each.lateness_ms]
    return f"{median(late):.2f}" if late else "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a record failed or is out of order: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.brokers != "mock" and options.rtt_ms != [0]:
        raise SystemExit("only mock brokers can be told to be slow: --rtt-ms 0")
    cases = [
        Case(partitions, value_bytes, rtt_ms, options.keyed, options.distance_ms)
        for rtt_ms in options.rtt_ms
        for value_bytes in options.value_bytes
        for partitions in options.partitions
    ]
    run_seconds = options.warm_up + options.seconds + _START_SECONDS
    measurement = Measurement.begin(
        parser,
        arguments,
        options,
        ["confluent-kafka", "uvloop"],
        brokers=options.brokers,
        seconds=len(cases) * options.rounds * len(options.clients) * run_seconds,
    )
    sections: list[Section] = []
    costs: list[Costs] = []
    drawn: dict[str, dict[str, list[Measured]]] = {}
    distance = options.distance_ms / 1_000
    with far_away(distance) if distance else nullcontext(()) as away:
        for case, runs in run_all(cases, options.clients, options, away):
            sections.append(describe(case, runs))
            costs += (run.costs for run in runs)
            drawn[case.meaning] = {
                client.name: [run.measured for run in runs if run.client == client.name]
                for client in options.clients
            }
            print_plain(sections[-1:])
            sys.stdout.flush()
    print(f"\nwritten to {measurement.write(sections)}")
    if options.plot:
        options.plot.write_text(draw(drawn))
    return 1 if any(each.is_void for each in costs) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_brokers", description=__doc__)
    parser.add_argument(
        "--clients",
        type=names_of(CLIENTS),
        default=[CLIENTS[name] for name in _USUAL],
        help=f"comma-separated, of {', '.join(CLIENTS)}",
    )
    for name, default in (("partitions", "1,3,12"), ("value-bytes", "100,1000"), ("rtt-ms", "250")):
        parser.add_argument(f"--{name}", type=_numbers, default=default, help="default %(default)s")
    parser.add_argument(
        "--distance-ms",
        type=int,
        default=0,
        metavar="MS",
        help="round-trip time of the way to the brokers (Linux, root); default %(default)s",
    )
    parser.add_argument(
        "--keyed", action="store_true", help="with keys, so that no batch is chosen"
    )
    parser.add_argument("--brokers", choices=BROKERS, default="mock", help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds; default %(default)s")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    add_options(parser)
    parser.add_argument("--plot", type=Path, metavar="SVG", help="the medians as bars")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
