"""The deletion of several things by name, which is asked for once and done one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any, TypeAlias

import typer

from aioproducer.cli.admin_call import countdown
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError, KafkaError, ProducerError

__all__ = ["Yes", "delete_each", "is_confirmed"]

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
    """Delete ``names`` one by one within ``timeout`` seconds. Returns those that are gone.

    ``ignored``: the error of a name that is missing, if that is none. An error names what was
    deleted before.
    """
    left = countdown(timeout)
    gone: list[str] = []
    for name in names:
        try:
            await delete(name, left())
            gone.append(name)
        except ProducerError as error:
            if ignored is not None and isinstance(error, ignored):
                continue
            if gone:
                error.add_note(f"deleted: {', '.join(gone)}")
            raise
    return gone
