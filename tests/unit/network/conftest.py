"""The client that most tests of the client begin with."""

from __future__ import annotations

import pytest

from tests.unit.network.observed_client import ObservedClient


@pytest.fixture
async def world() -> ObservedClient:
    return ObservedClient()
