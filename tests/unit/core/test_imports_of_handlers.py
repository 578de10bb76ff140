"""Calls that a signal handler makes import nothing: the import may be what it interrupts."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALLS = """
import asyncio, sys
import aioproducer
from aioproducer import sync

def look(producer):
    known = set(sys.modules)
    producer.health()
    producer.metrics()
    producer.latencies()
    producer.send("orders", b"1")
    print(*set(sys.modules) - known)

async def main():
    producer = aioproducer.Producer(bootstrap_servers="127.0.0.1:1")
    known = set(sys.modules)
    producer.health()
    print(*set(sys.modules) - known)
    await producer.start()
    look(producer)
    await producer.close(0)

if sys.argv[1] == "asyncio":
    asyncio.run(main())
else:
    producer = sync.Producer(bootstrap_servers="127.0.0.1:1")
    producer.start()
    look(producer)
    producer.close(0)
"""


@pytest.mark.parametrize("shell", ["asyncio", "blocking"])
def test_looks_and_sends_import_nothing(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALLS, shell],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
