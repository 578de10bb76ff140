"""The event loop of the command line and the examples."""

from __future__ import annotations

import asyncio
import sys

import pytest

from aioproducer import IllegalStateError, loops
from tests.support.descriptors import CLOSED, run_without


async def kind_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_uvloop_is_used_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert loops.run(kind_of_loop()).startswith("uvloop")


def test_without_it_asyncio_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loops.run(kind_of_loop()).startswith("asyncio")


def test_what_is_raised_comes_out() -> None:
    async def fail() -> None:
        raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        loops.run(fail())


async def test_where_a_loop_runs_the_advice_is_to_await() -> None:
    with pytest.raises(IllegalStateError, match=r"use `await main\(\)` there"):
        loops.run(kind_of_loop())


PROGRAM = """
import asyncio, os, sys
from aioproducer import IllegalStateError, loops

async def main():
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    assert min(each.fileno() for each in server.sockets) > 2
    await reader.read()
    writer.close()
    server.close()
    assert (sys.stdin is None, sys.stdout is None, sys.stderr is None) == tuple(
        number in os.environ["CLOSED"] for number in "012"
    )
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import os; [os.fstat(number) for number in range(3)]"
    )
    assert await child.wait() == 0

loops.run(main())
"""


@pytest.mark.parametrize("closed", CLOSED)
def test_uvloop_runs_without_standard_descriptors(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("uvloop")
    monkeypatch.setenv("CLOSED", closed)
    done = run_without(closed, [sys.executable, "-c", PROGRAM])
    assert (done.returncode, done.stderr) == (0, b"")
