"""``python -m tests.simulation --seeds 1000-2000``: lives, judged; a failing one is shrunk."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Iterable
from typing import Final

from tests.simulation.drawing import make_plan
from tests.simulation.judge import Judge
from tests.simulation.life import Life
from tests.simulation.mutations import MUTATIONS, mutated
from tests.simulation.plan import Plan
from tests.simulation.search import first_finding, shrink, violations
from tests.simulation.switches import BLOCK, Pairs

MOST_LINES: Final = 3
MOST_CHARACTERS: Final = 400


def main(arguments: list[str]) -> int:
    """The exit code: 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0-200", help="one, or the first and behind the last")
    parser.add_argument("--without", default="", help="labels of parts that are left out")
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="a fault of the engine")
    parser.add_argument("--shrink", action="store_true", help="find the smallest failing life")
    parser.add_argument("--find", action="store_true", help="for each fault the first seed")
    parser.add_argument("--story", action="store_true", help="print what happened in a life")
    parser.add_argument("--plain", action="store_true", help="without any switch")
    parser.add_argument("--most", type=int, default=1, help="failing lives until it ends")
    options = parser.parse_args(arguments)
    if options.find:
        return _find(_seeds(options.seeds), options.mutation)
    gone = [label for label in options.without.split(",") if label]
    with mutated(options.mutation):
        return _live(_seeds(options.seeds), gone, options)


def _find(seeds: range, mutation: str | None) -> int:
    missed = 0
    for name in [mutation] if mutation else sorted(MUTATIONS):
        found = first_finding(name, seeds)
        missed += found is None
        print(name, "is not found" if found is None else f"{found[0]}, {sorted(found[1])}")
    return 1 if missed else 0


def _live(seeds: Iterable[int], gone: list[str], options: argparse.Namespace) -> int:
    began, lives, failed = time.process_time(), 0, 0
    pairs = Pairs()
    for seed in seeds:
        plan = make_plan(seed, plain=options.plain).without(gone)
        life = Life(plan)
        life.live()
        found = Judge(life).violations()
        lives += 1
        pairs.add(life.lived)
        if options.story:
            print("\n".join([*plan.lines(), *life.story]))
            print(f"digest {life.trace.hexdigest()}")
        if found:
            failed += 1
            print(report(plan, found, gone, options.mutation, shrunk=options.shrink))
            if failed >= options.most:
                break
    seconds = time.process_time() - began
    print(
        f"{lives} lives, {failed} failed; {seconds:.1f} s of CPU, "
        f"{lives / seconds * 60:.0f} lives a minute"
    )
    if lives >= BLOCK:
        print("\n".join(pairs.lines()))
    return 1 if failed else 0


def report(
    plan: Plan, found: list[str], gone: list[str], mutation: str | None, *, shrunk: bool
) -> str:
    """A failing life in words, with the command that lives it again."""
    lines = [f"life {plan.seed} broke {len(found)} promises:"]
    lines += _shown(found)
    lines.append(f"again: {command(plan.seed, gone, mutation)}")
    if shrunk:
        gone = gone + [each for each in shrink(plan, found) if each not in gone]
        smallest = make_plan(plan.seed).without(gone)
        lines += ["the smallest one:", *smallest.lines()]
        lines += _shown(violations(smallest))
        lines.append(f"again: {command(plan.seed, gone, mutation)}")
    return "\n".join(lines)


def _shown(found: list[str]) -> list[str]:
    """The first violations of each promise."""
    shown: dict[str, list[str]] = {}
    for each in found:
        shown.setdefault(each.partition(":")[0], []).append(each)
    lines: list[str] = []
    for these in shown.values():
        lines += [f"  {textwrap.shorten(each, MOST_CHARACTERS)}" for each in these[:MOST_LINES]]
        if len(these) > MOST_LINES:
            lines.append(f"  … and {len(these) - MOST_LINES} more")
    return lines


def command(seed: int, gone: list[str], mutation: str | None) -> str:
    """The command that lives a life again, exactly."""
    parts = ["python -m tests.simulation", f"--seeds {seed}"]
    if gone:
        parts.append(f"--without {','.join(gone)}")
    if mutation:
        parts.append(f"--mutation {mutation}")
    return " ".join(parts)


def _seeds(text: str) -> range:
    first, _, end = text.partition("-")
    return range(int(first), int(end or int(first) + 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
