"""Live groups again: ``python -m tests.simulation.groups 17`` or ``0-1000``."""

from __future__ import annotations

import logging
import sys

from tests.simulation.groups.life import lived
from tests.simulation.groups.plan import make_plan


def main() -> int:
    """Live the seeds, and say which promises were broken."""
    first, _, end = sys.argv[1].partition("-")
    failures = 0
    if "-v" in sys.argv:
        logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(message)s")
    else:
        logging.disable(logging.CRITICAL)
    for seed in range(int(first), int(end or int(first) + 1)):
        plan = make_plan(seed)
        if found := lived(plan):
            failures += 1
            print(seed, plan, *found[:6], sep="\n    ", flush=True)
    print(f"{failures} lives broke a promise")
    return failures


if __name__ == "__main__":
    sys.exit(main())
