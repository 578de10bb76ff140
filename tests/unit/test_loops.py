"""The event loop of the command line and the examples."""

from __future__ import annotations

import asyncio
import sys

import pytest

from aioproducer import loops


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
