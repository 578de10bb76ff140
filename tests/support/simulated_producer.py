"""Producers in simulated time, which do the same in each run."""

from __future__ import annotations

import asyncio
from random import Random

from aioproducer.engine.client.environment import Environment
from tests.support.inside import in_environment

SimulatedProducer = in_environment(
    Environment(
        clock=lambda: asyncio.get_running_loop().time(),
        random=lambda: Random(5),
    )
)
"""A producer reads the clock of the loop it runs on, and draws the same numbers each time."""
