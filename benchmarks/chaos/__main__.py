"""The command line: ``python -m benchmarks.chaos --records 200000 --clients ours --seed 7``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom

from benchmarks.chaos.clients import CLIENTS, Client
from benchmarks.chaos.plan import Disturbances, Load
from benchmarks.chaos.report import details, table
from benchmarks.chaos.run import ChaosError, Outcome, Plan, run


def main(arguments: Sequence[str] | None = None) -> int:
    """1 when a promise of ours was broken, or our client died."""
    options = _parser().parse_args(arguments)
    load = Load(
        options.records,
        options.seed,
        options.rate,
        options.request_timeout_ms,
        options.delivery_timeout_ms,
    )
    kinds = [Disturbances(name) for name in options.disturbances]
    plan = Plan(load, kinds, options.every, options.cuts_every, options.at_once, options.session_ms)
    print(f"seed {load.seed}: {load}, disturbances {', '.join(kinds) or 'none'}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        clients = [CLIENTS[name] for name in options.clients]
        outcomes = asyncio.run(_run_all(clients, plan, directory))
    print("", *table(outcomes), sep="\n")
    ended = {outcome.client for outcome in outcomes}
    ours_died = any(client.ours and client not in ended for client in clients)
    return 1 if ours_died or any(outcome.broke_our_word for outcome in outcomes) else 0


async def _run_all(clients: Iterable[Client], plan: Plan, directory: Path) -> list[Outcome]:
    outcomes = []
    for client in clients:
        try:
            outcomes.append(await run(client, plan, directory))
        except ChaosError as error:
            print(error, flush=True)
        else:
            print(*details(outcomes[-1]), sep="\n", flush=True)
    return outcomes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    parser.add_argument("--rate", type=int, default=10_000, help="records/s, default: %(default)s")
    parser.add_argument(
        "--clients",
        type=_names_of(CLIENTS),
        default=list(CLIENTS),
        help=f"comma-separated, of {', '.join(CLIENTS)}",
    )
    parser.add_argument(
        "--disturbances",
        type=_names_of(list(Disturbances)),
        default=list(Disturbances),
        help=f"comma-separated, of {', '.join(Disturbances)}",
    )
    parser.add_argument(
        "--every",
        type=float,
        default=3.0,
        help="seconds from a broker's return to the next disturbance, on average",
    )
    parser.add_argument(
        "--cuts-every", type=float, default=0.5, help="seconds between faults of connections"
    )
    parser.add_argument(
        "--at-once", type=int, default=1, help="brokers disturbed at a time; 2 break the quorum"
    )
    parser.add_argument(
        "--session-ms",
        type=int,
        default=0,
        help="TLS, SCRAM, and logins that last so long (connections.max.reauth.ms); 0: plain text",
    )
    parser.add_argument("--request-timeout-ms", type=int, default=3_000)
    parser.add_argument("--delivery-timeout-ms", type=int, default=120_000)
    parser.add_argument("--directory", type=Path, help="keeps the clients' logs and ledgers")
    return parser


def _names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
