"""`aioproducer tail` at a terminal."""

from __future__ import annotations

import pytest

from aioproducer.cli.app import run
from aioproducer.cli.terminal import Terminal


@pytest.mark.parametrize(
    ("options", "waits"),
    [([], True), (["--from", "end"], True), (["--from", "-1"], False), (["-e"], False)],
    ids=["no position", "the end", "the last record", "until the end"],
)
def test_a_person_is_told_that_it_waits_for_new_records(
    options: list[str], waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Terminal, "is_interactive", True)
    monkeypatch.setattr(Terminal, "say", lambda _, text: said.append(text))
    assert run(["tail", "t", "-b", "127.0.0.1:1", "-X", "max_block_ms=1", *options]) == 1
    assert any("--from beginning shows old ones" in each for each in said) is waits
