"""Commands run in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logger() -> Iterator[None]:
    """A command tells the library's log on standard error; the next test does not want it."""
    logger = logging.getLogger("aioproducer")
    state = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = state
