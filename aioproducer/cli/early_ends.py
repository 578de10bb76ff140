"""Early ends of a command: by a signal, by cancellation, without a reader of its output, and
without a broker's first answer.

The first SIGINT, SIGTERM or SIGHUP asks politely, the second gives up, the third kills. A command
whose output nobody reads any more finishes its work and prints nothing more. A command that gets no
answer from a broker ends soon, and says why.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Self

from aioproducer.cli.terminal import discard
from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import BootstrapError
from aioproducer.foundation.logs import duration
from aioproducer.producer import Producer

__all__ = [
    "EndSignals",
    "closed_if_cancelled",
    "output_may_close",
    "answer_seconds",
    "first_answer",
    "producer_answered",
]


_SIGNALS: Final = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)


class EndSignals:
    """A context in which these signals call ``first``, then ``second``, and then do as ever.

    A signal that the parent had ignored (``nohup``, a job in the background) stays ignored.
    """

    def __init__(
        self, first: Callable[[signal.Signals], None], second: Callable[[signal.Signals], None]
    ) -> None:
        self._calls = [first, second]
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._watch(loop, number)
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def _watch(self, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
        try:
            loop.add_signal_handler(number, self._on_signal, number)
        except NotImplementedError:  # the loops of Windows
            before = signal.signal(
                number, lambda *_: loop.call_soon_threadsafe(self._on_signal, number)
            )
            self._undo.append(partial(signal.signal, number, before))
        else:
            self._undo.append(partial(loop.remove_signal_handler, number))

    def _on_signal(self, number: signal.Signals) -> None:
        if not self._calls:
            return  # it arrived while it was let go
        call = self._calls.pop(0)
        if not self._calls:
            self._let_go()
        call(number)

    def _let_go(self) -> None:
        while self._undo:
            self._undo.pop()()


@asynccontextmanager
async def closed_if_cancelled(producer: Producer) -> AsyncIterator[None]:
    """Close the producer at once when the block is cancelled, before the end of an outer block
    would flush, or abort a transaction."""
    try:
        yield
    except asyncio.CancelledError:
        await producer.close(0)
        raise


@contextmanager
def output_may_close() -> Iterator[None]:
    """End the block, without an error, when nobody reads standard output any more.

    That is how ``head`` ends what is before it. The exit code stays that of the command's work:
    typer would end the program with 1, although a change was made.
    """
    try:
        yield
    except BrokenPipeError:
        discard(sys.stdout)


_SECONDS: Final = 10.0


def answer_seconds(config: ProducerConfig) -> float:
    """The time for the first answer: 10 seconds, or ``max_block_ms`` if the user has set it."""
    return config.max_block_ms / 1000 if "max_block_ms" in config.given else _SECONDS


@asynccontextmanager
async def first_answer(client: ClusterClient, seconds: float) -> AsyncIterator[None]:
    """End the block if no broker has answered ``client`` after ``seconds``.

    Raises :class:`BootstrapError` then.
    """
    loop = asyncio.get_running_loop()
    reason = ""
    limit = asyncio.timeout(None)

    def look() -> None:
        nonlocal reason
        if not client.answered:
            reason = client.why_no_answer()
            limit.reschedule(loop.time())

    timer = loop.call_later(seconds, look)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise _nobody(seconds, reason) from None
    finally:
        timer.cancel()


async def producer_answered(producer: Producer) -> None:
    """Return when a broker has answered. Raises :class:`BootstrapError` if none does in time."""
    seconds = answer_seconds(producer.config)
    try:
        await producer.check(seconds)
    except BootstrapError:
        reason = producer._core.engine.queries.why_no_answer()
        raise _nobody(seconds, reason) from None


def _nobody(seconds: float, reason: str) -> BootstrapError:
    return BootstrapError(
        f"no broker answered within {duration(seconds)}. {reason}. Check the address (-b) and "
        "the security protocol; `aioproducer mock` starts a mock cluster at localhost:9092, and "
        "-X max.block.ms=60000 waits longer"
    )
