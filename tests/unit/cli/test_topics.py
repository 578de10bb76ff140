"""`aioproducer topics delete`: several topics in one command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioproducer.cli import topics
from aioproducer.cli.app import run
from aioproducer.errors import UnknownTopicOrPartitionError

DELETE = ["topics", "delete", "a", "b", "c", "--yes", "-b", "host:9092"]


class Deletions:
    """The part of an Admin that deletes topics; each deletion takes ``seconds``."""

    def __init__(self, missing: str = "", seconds: float = 0.0) -> None:
        self.timeouts: list[float] = []
        self._missing = missing
        self._seconds = seconds

    async def delete_topics(self, name: str, *, timeout: float) -> None:
        self.timeouts.append(timeout)
        await asyncio.sleep(self._seconds)
        if name == self._missing:
            raise UnknownTopicOrPartitionError(f"topic {name!r}: there is no such topic")


def use(monkeypatch: pytest.MonkeyPatch, admin: Deletions) -> None:
    def call_admin(call: Callable[[Any], Awaitable[Any]], *_: Any) -> Any:
        async def called() -> Any:
            return await call(admin)

        return asyncio.run(called())

    monkeypatch.setattr(topics, "call_admin", call_admin)


def test_an_error_names_the_topics_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, Deletions(missing="c"))
    assert run(DELETE) == 1
    told, error = capsys.readouterr()
    assert (told, error.count("\n")) == ("", 1)
    assert "topic 'c'" in error
    assert error.endswith("there is no such topic; deleted: a, b\n")


def test_the_timeout_is_of_all_topics_together(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Deletions(seconds=0.02)
    use(monkeypatch, admin)
    assert run([*DELETE, "--timeout", "5"]) == 0
    assert 5 >= admin.timeouts[0] > admin.timeouts[1] > admin.timeouts[2]
