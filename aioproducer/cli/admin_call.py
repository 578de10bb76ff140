"""One call of a command to an Admin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from aioproducer import loops
from aioproducer.admin import Admin
from aioproducer.cli.first_answer import answer_seconds, first_answer
from aioproducer.cli.results import require_output
from aioproducer.cli.settings import client_config
from aioproducer.cli.terminal import Terminal
from aioproducer.config import ProducerConfig
from aioproducer.engine.client import arguments

__all__ = ["call_admin", "countdown"]

T = TypeVar("T")

_CLIENT_ID: Final = "adminclient"
_CONNECTIONS: Final = ("aioproducer.network.client",)
"""The logger of failed connections: the error that ends the call has them."""


def call_admin(
    call: Callable[[Admin], Awaitable[T]],
    bootstrap_servers: str | None,
    properties: Iterable[str] | None,
    command_config: Path | None,
    verbose: bool,
) -> T:
    """The result of ``call``; the other arguments are the options of connections.

    Raises:
        ConfigError: an option is wrong, or standard output is closed.
        ProducerError: the call failed, or no broker answered in time.
    """
    require_output()
    Terminal(verbose=verbose).show_log(told_otherwise=_CONNECTIONS)
    config = client_config(_CLIENT_ID, bootstrap_servers, properties, command_config)
    return loops.run(_call(config, call))


async def _call(config: ProducerConfig, call: Callable[[Admin], Awaitable[T]]) -> T:
    async with Admin(config) as admin, first_answer(admin._client, answer_seconds(config)):
        return await call(admin)


def countdown(timeout: float) -> Callable[[], float]:
    """The seconds that are left of a command that takes several steps, from now on."""
    return arguments.countdown(timeout, asyncio.get_running_loop().time)
