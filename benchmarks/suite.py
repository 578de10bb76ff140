"""Every measurement that the pages show, one after the other: ``make bench``.

``python -m benchmarks.suite`` runs the programs of `SUITE`, and records what they have written. One
that fails, has a void run or writes nothing is named at the end, and only the others are recorded.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from benchmarks import recorded
from benchmarks.report import RESULTS, Measurement, add_options, say_seconds

_ROOT: Final = Path(__file__).parents[1]
SUITE: Final = {
    "benchmarks --settings defaults --workloads cold_topics --clients aioproducer,aiokafka "
    "--rounds 3": 3,
    "benchmarks --settings defaults --workloads bound_1k,far,far_1k,many_partitions "
    "--clients aioproducer,confluent,confluent-idempotent --rounds 3": 7,
    "benchmarks --settings defaults --brokers kafka "
    "--workloads bulk,bulk_tls,bulk_1k,bulk_1k_tls --clients aioproducer,confluent,java "
    "--rounds 3": 5,
    "benchmarks --settings defaults --rounds 3": 21,
    "benchmarks.web --frameworks starlette,fastapi": 9,
    "benchmarks.reading --rounds 3": 5,
    "benchmarks.reading --brokers kafka --loads read_100,read_1k --rounds 3": 2,
    "benchmarks.shim --rounds 3": 1,
    "benchmarks.shim --brokers kafka --rounds 3": 3,
    "benchmarks.compat_confluent": 1,
    "benchmarks.new_process": 1,
    "benchmarks.produce_lines": 1,
    "benchmarks.slow_brokers --rounds 2": 14,
    "benchmarks.slow_brokers --brokers kafka --rtt-ms 0 --partitions 6 "
    "--clients aioproducer,confluent-idempotent": 4,
    "benchmarks.messages": 1,
    "benchmarks.tiny_parts": 1,
    "benchmarks.flushes": 1,
    "benchmarks.tls_handshakes": 2,
    "benchmarks.observability --rounds 3": 2,
    "benchmarks.serializers": 1,
    "benchmarks.columnar": 1,
    "benchmarks.light": 2,
    "benchmarks.metadata --rounds 3": 1,
    "benchmarks.freezes --rounds 3": 3,
    "benchmarks.silent_brokers": 5,
}
"""The programs with their options, and about how many minutes each takes on two cores. ``make
bench-report`` draws the last one of the main program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a program failed, or nothing was recorded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    add_options(parser)
    options = parser.parse_args(arguments)
    results: Path = options.results.resolve()
    minutes = sum(SUITE.values())
    Measurement.begin(parser, arguments, options, seconds=60 * minutes)
    seen, written, failed = {*results.glob("*.json")}, [], []
    began = monotonic()
    for number, (command, each) in enumerate(SUITE.items(), 1):
        print(
            f"\n[{number} of {len(SUITE)}, {minutes} minutes left] python -m {command}", flush=True
        )
        program = [sys.executable, "-m", *shlex.split(command)]
        if options.results != RESULTS:
            program += ["--results", str(results)]
        if options.uncompiled:
            program.append("--uncompiled")
        code = subprocess.run(program, cwd=_ROOT, check=False).returncode
        new = sorted({*results.glob("*.json")} - seen)
        seen.update(new)
        if code or not new:
            failed.append(command)
        else:
            written += new
        minutes -= each
    print(f"\nit took {say_seconds(monotonic() - began)}")
    print(*(f"FAILED: python -m {command}" for command in failed), sep="\n")
    if not written:
        return 1
    return max(recorded.main([*map(str, written)]), bool(failed))


if __name__ == "__main__":
    sys.exit(main())
