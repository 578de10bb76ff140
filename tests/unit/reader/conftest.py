"""Fetchers before brokers that grant sessions, and before those whose cache of them is full."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[True, False], ids=["sessions", "no-sessions"])
def with_and_without_sessions(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripted leaders do, and do not."""
    from tests.unit.reader.test_fetcher import ScriptedClient

    monkeypatch.setattr(ScriptedClient, "grants_sessions", request.param)
