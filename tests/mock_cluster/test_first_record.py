"""A new process with one plain record imports only what its producer may need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
        "aioproducer.auth.tls",
        "aioproducer.auth.tls_errors",
        "aioproducer.config.login",
        "aioproducer.config.login",
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


@pytest.mark.parametrize("kind", NEEDLESS)
def test_the_first_record_does_not_import(kind: str, imported: set[str]) -> None:
    found = {
        name
        for name in imported
        for needless in NEEDLESS[kind]
        if name == needless or name.startswith(f"{needless}.")
    }
    assert found == set()
