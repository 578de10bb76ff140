"""The console reader: records to standard output, and an exit code."""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.cli.byte_sink import ByteSink
from aioproducer.cli.first_answer import answer_seconds, first_answer
from aioproducer.cli.record_chunks import RecordChunks
from aioproducer.cli.record_template import Render
from aioproducer.cli.signals import EndSignals
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import counted

__all__ = ["ConsoleReader", "ReadingJob"]

_LOOK: Final = 0.5
"""Seconds between two looks at standard output: does anybody read it?"""


@dataclass(frozen=True, slots=True)
class ReadingJob:
    """The records to read, and their form."""

    source: RecordChunks
    render: Render
    count: int | None
    """The number of records after which the reading ends."""


class ConsoleReader:
    """One run of ``aioproducer tail``."""

    def __init__(self, job: ReadingJob, descriptor: int, terminal: Terminal) -> None:
        self._job = job
        self._terminal = terminal
        self._sink = ByteSink(descriptor)
        self._shown = 0
        self._ended = False
        self._gave_up: signal.Signals | None = None

    async def run(self) -> int:
        """Show records to the end, to a signal or until nobody reads them; return the exit code.

        Raises ProducerError.
        """
        task = asyncio.current_task()
        assert task is not None

        def end(_: signal.Signals) -> None:
            self._end(task)

        def give_up(number: signal.Signals) -> None:
            self._gave_up = number
            task.cancel()

        with EndSignals(end, give_up):
            self._look_for_readers(task)
            try:
                source = self._job.source
                seconds = answer_seconds(source.client.config)
                async with first_answer(source.client, seconds), source:
                    await self._show_all()
            except asyncio.CancelledError:
                if not self._ended:
                    raise
            except ProducerError:
                raise  # a timeout or a lost broker is an OSError, too
            except BrokenPipeError:
                self._ended = True
            except OSError as error:
                self._terminal.say(f"writing failed: {error.strerror}")
                return 1
        if self._terminal.verbose:
            self._terminal.say(counted(self._shown, "record", ","))
        return 0 if self._gave_up is None else 128 + self._gave_up

    async def _show_all(self) -> None:
        async with aclosing(self._job.source.chunks(self._job.count)) as chunks:
            async for records in chunks:
                lines = list(map(self._job.render, records))
                await self._sink.write(b"".join(lines))
                self._shown += len(lines)

    def _look_for_readers(self, task: asyncio.Task[Any]) -> None:
        """A closed pipe is noticed while no record comes, too."""
        if self._sink.broken:
            self._end(task)
        elif not self._ended:
            loop = asyncio.get_running_loop()
            loop.call_later(_LOOK, self._look_for_readers, task)

    def _end(self, task: asyncio.Task[Any]) -> None:
        if not self._ended:
            self._ended = True
            task.cancel()
