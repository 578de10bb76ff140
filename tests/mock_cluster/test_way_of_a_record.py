"""The price of a lone awaited record in calls, which are the same on every machine.

A feature that is off costs no call here, and one that is on is paid once for each request. Whoever
raises the budget says in the commit what it buys.
"""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

import aioproducer
from aioproducer import Producer
from aioproducer.testing.mock_cluster import MockCluster

CALLS, FILES = (8, 5) if aioproducer.__accelerated__ else (130, 37)
"""Calls of the package's Python functions, for a record with a key that begins a batch, and files
with these functions: with the compiled modules, and with the source of all (`make pure`)."""
RECORDS, ROUNDS = 50, 8
PACKAGE = str(Path(aioproducer.__file__).parent)


async def test_a_lone_awaited_record_keeps_to_its_budget(
    mock_cluster: MockCluster, mock_topic: str
) -> None:
    best = 10_000.0, 0
    async with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, enable_metrics_push=False
    ) as producer:
        for _ in range(ROUNDS):
            profile = cProfile.Profile()
            for number in range(2 * RECORDS):
                if number == RECORDS:
                    profile.enable()
                await producer.send(mock_topic, b"x" * 100, key=b"customer-%d" % number)
            profile.disable()
            best = min(best, passed(profile))
    calls, files = best
    assert calls <= CALLS
    assert files <= FILES


def passed(profile: cProfile.Profile) -> tuple[float, int]:
    """The package's calls for a record, and the files with the functions that each record calls."""
    calls, files = 0, set()
    for (file, _, _), (_, times, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if file.startswith(PACKAGE) and times >= RECORDS // 2:
            calls += times
            files.add(file)
    return calls / RECORDS, len(files)
