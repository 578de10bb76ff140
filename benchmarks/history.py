"""What stays of a measurement: ``python -m benchmarks.history [JSON]``.

It takes what ``python -m benchmarks`` has written, the newest if none is named, and keeps the
commit, the date, the machine and the medians in a small file of ``history/``. The documentation
shows these files, so each figure has its age.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from benchmarks.page import RESULTS, newest
from benchmarks.summary import Run, Summary, summarise

HISTORY: Final = Path(__file__).parent / "history"


@dataclass(frozen=True, slots=True)
class Figure:
    """The medians of one client at one workload."""

    workload: str
    client: str
    settings: str
    rounds: int
    """The runs that count."""
    others_cores: float
    """Cores that other programs used meanwhile, the median."""
    numbers: Mapping[str, float]
    """By the names of `METRICS`."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One measurement."""

    commit: str
    measured_at: str
    """ISO 8601, UTC."""
    machine: Mapping[str, Any]
    """The fields of a `Machine`."""
    brokers: str
    figures: tuple[Figure, ...]

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a file of the history."""
        content = json.loads(path.read_text("utf-8"))
        return cls(**content | {"figures": tuple(Figure(**each) for each in content["figures"])})


def recorded(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the history keeps of the JSON of ``python -m benchmarks``.

    Raises:
        ValueError: the JSON names no commit, or the tree was not that of its commit.
    """
    commit = content.get("commit")
    if not commit or commit.endswith("-dirty"):
        raise ValueError(f"only a measurement of a commit is recorded, and this is of {commit}")
    return {
        "commit": commit,
        "measured_at": content["measured_at"],
        "machine": content["machine"],
        "brokers": content["brokers"],
        "figures": list(_figures(summarise(Run(**run) for run in content["runs"]))),
    }


def history(folder: Path = HISTORY) -> list[Recorded]:
    """All recorded measurements, newest first."""
    found = [Recorded.load(path) for path in folder.glob("*.json")]
    return sorted(found, key=lambda each: each.measured_at, reverse=True)


def _figures(summaries: Sequence[Summary]) -> Iterator[dict[str, Any]]:
    for each in summaries:
        if each.numbers and each.others_cores:
            yield {
                "workload": each.workload,
                "client": each.client,
                "settings": each.settings,
                "rounds": each.counted,
                "others_cores": round(each.others_cores.median, 2),
                "numbers": {name: round(found.median, 3) for name, found in each.numbers.items()},
            }


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 where there is nothing to record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("json", nargs="?", type=Path, help="default: the newest measurement")
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        source = options.json or newest(RESULTS)
        kept = recorded(json.loads(source.read_text("utf-8")))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    options.history.mkdir(exist_ok=True)
    target = options.history / source.name
    target.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{target}; now: make docs-tables")
    return 0


if __name__ == "__main__":
    sys.exit(main())
