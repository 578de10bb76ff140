"""Users' providers of tokens and credentials: how they are called, and what their errors mean."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, final

from aioproducer.foundation.runtime.threads import ThreadForEach

__all__ = ["Provider", "Raised", "ask", "is_final", "told"]

Provider: TypeAlias = Callable[[], Any]
"""Gives what it provides, or an awaitable of it. One that is no ``async def`` runs in a thread."""

_WRONG_PROGRAM: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    TypeError,
)
"""A provider that raises one of these is not mended by asking it again."""
_WRONG_ANSWER: Final = (LookupError, ValueError)
"""These are final until the provider has worked. A provider that has worked once has met an
answer that it did not expect (an outage's page instead of JSON, say), and is asked again."""


@final
class Raised:
    """An exception as a value: a future can't carry StopIteration, and asyncio ends at some."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def ask(provider: Provider, threads: ThreadForEach) -> object:
    """The answer of ``provider``, or what it has :class:`Raised` in a thread of ``threads``."""
    if _is_async(provider):
        return await provider()
    answer = await asyncio.get_running_loop().run_in_executor(threads, _guarded, provider)
    return await answer if isinstance(answer, Awaitable) else answer


def is_final(error: BaseException, *, has_worked: bool) -> bool:
    """True if a provider that raised ``error`` is not to be asked again soon."""
    final = _WRONG_PROGRAM if has_worked else (*_WRONG_PROGRAM, *_WRONG_ANSWER)
    return isinstance(error, final) and not isinstance(error, OSError)


def told(error: BaseException) -> str:
    """``error`` in an error's text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _guarded(provider: Provider) -> object:
    try:
        return provider()
    except BaseException as error:
        return Raised(error)


def _is_async(provider: Provider) -> bool:
    call = getattr(provider, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(call)
