"""Tracebacks with the values of their frames show no secret of read_back() and expect()."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from traceback import TracebackException
from typing import Any

import pytest

from aioproducer.errors import ConfigError
from aioproducer.testing import expect, read_back

SECRET = "a secret of alice"


def options() -> dict[str, Any]:
    return {"bootstrap_servers": "localhost:1", "sasl_password": SECRET, "isolation_level": "none"}


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_back("orders", **options()),
        lambda: expect("orders", **options()).has(),
    ],
)
async def test_no_frame_shows_a_password(read: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(ConfigError) as refused:
        await read()
    shown = TracebackException.from_exception(refused.value, capture_locals=True)
    assert SECRET not in "".join(shown.format())
