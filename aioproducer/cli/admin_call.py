"""One call of a command to an Admin, and the deletion of several things by name.

A deletion is asked for once and done one by one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import typer

from aioproducer import loops
from aioproducer.admin import Admin
from aioproducer.cli.early_ends import answer_seconds, first_answer
from aioproducer.cli.results import require_output
from aioproducer.cli.settings import client_config
from aioproducer.cli.terminal import CONNECTIONS, Terminal
from aioproducer.config import ProducerConfig
from aioproducer.engine.client import arguments
from aioproducer.errors import ConfigError, KafkaError, ProducerError

__all__ = [
    "call_admin",
    "countdown",
    "Yes",
    "delete_each",
    "is_confirmed",
]


T = TypeVar("T")

_CLIENT_ID: Final = "adminclient"


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
    Terminal(verbose=verbose).show_log(told_otherwise=CONNECTIONS)
    config = client_config(_CLIENT_ID, bootstrap_servers, properties, command_config)
    return loops.run(_call(config, call))


async def _call(config: ProducerConfig, call: Callable[[Admin], Awaitable[T]]) -> T:
    async with Admin(config) as admin, first_answer(admin._client, answer_seconds(config)):
        return await call(admin)


def countdown(timeout: float) -> Callable[[], float]:
    """The seconds that are left of a command that takes several steps, from now on."""
    return arguments.countdown(timeout, asyncio.get_running_loop().time)


Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")
]


def is_confirmed(names: Iterable[str], content: str) -> bool:
    """The answer on a terminal; ``content``: the loss. Raises ConfigError without a terminal."""
    shown = f"{', '.join(names)} with {content}"
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(f"give --yes to delete {shown}: there is no terminal to ask on")
    return Terminal().confirm(f"Delete {shown}?")


async def delete_each(
    names: Iterable[str],
    delete: Callable[[str, float], Coroutine[Any, Any, None]],
    timeout: float,
    ignored: type[KafkaError] | None,
) -> list[str]:
    """Delete ``names`` one by one within ``timeout`` seconds. Returns those that were deleted.

    ``ignored``: the error of a name that is missing, if that is none. After an attempt without a
    response, such a name counts as deleted, and the doubt is said. An error names what was deleted
    before.
    """
    left = countdown(timeout)
    gone: list[str] = []
    for name in names:
        try:
            await delete(name, left())
            gone.append(name)
        except ProducerError as error:
            if ignored is not None and isinstance(error, ignored):
                if error.may_have_been_written:
                    Terminal().say(str(error))
                    gone.append(name)
                continue
            if gone:
                error.add_note(f"deleted: {', '.join(gone)}")
            raise
    return gone
