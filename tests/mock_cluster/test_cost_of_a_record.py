"""The price of a lone record in calls, which are the same on every machine, and in imports.

A feature that is off costs no call here, and one that is on is paid once for each request. Whoever
raises the budget says in the commit what it buys.
"""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys
from pathlib import Path

import pytest

import aioproducer
from aioproducer import Producer
from aioproducer.testing.mock_cluster import MockCluster

ROOT = Path(__file__).parents[2]

SEND_ONE = """
import sys
import asyncio
import aioproducer

async def main():
    async with aioproducer.Producer(bootstrap_servers=sys.argv[1]) as producer:
        assert (await producer.send("orders", b"value", key=b"key")).offset == 0
        print(*sys.modules, sep="\\n")

asyncio.run(main())
"""

NEEDLESS = {
    "codecs": ("cramjam", "lz4", "zstandard"),
    "TLS and logins": (
        "aioproducer.auth.mechanism",
        "aioproducer.auth.tls",
        "aioproducer.auth.tls_errors",
        "aioproducer.config.login",
        "aioproducer.engine.network.login",
    ),
    "transactions": (
        "aioproducer.engine.core.transaction_api",
        "aioproducer.engine.sender.transaction_driver",
        "aioproducer.engine.transactions.group_offsets",
        "aioproducer.engine.transactions.manager",
    ),
    "other calls": (
        "aioproducer.admin",
        "aioproducer.cli",
        "aioproducer.consumer",
        "aioproducer.reader",
        "aioproducer.sync",
        "aioproducer.testing",
    ),
    "libraries": (
        "argparse",
        "crc32c",
        "difflib",
        "email",
        "fractions",
        "http",
        "importlib.metadata",
        "importlib.util",
        "ipaddress",
        "json",
        "kio",
        "mmh3",
        "pathlib",
        "pydantic",
        "rich",
        "typer",
        "urllib",
    ),
    "tables of Unicode": ("encodings.idna", "unicodedata"),
}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    with MockCluster(brokers=1, topics={"orders": 1}) as cluster:
        ran = subprocess.run(
            [sys.executable, "-c", SEND_ONE, cluster.bootstrap_servers],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


@pytest.mark.any_form
@pytest.mark.parametrize("kind", NEEDLESS)
def test_the_first_record_does_not_import(kind: str, imported: set[str]) -> None:
    found = {
        name
        for name in imported
        for needless in NEEDLESS[kind]
        if name == needless or name.startswith(f"{needless}.")
    }
    assert found == set()


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
