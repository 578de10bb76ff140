"""The console producer: from input to a producer, and from the outcomes to an exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from aioproducer.cli.byte_source import ByteSource
from aioproducer.cli.cancellation import closed_if_cancelled
from aioproducer.cli.delivery_counter import DeliveryCounter
from aioproducer.cli.first_answer import producer_answered
from aioproducer.cli.line_sender import LineSender
from aioproducer.cli.lines import LineSplitter, MissingKeyError, RecordFormat
from aioproducer.cli.progress import FileProgress
from aioproducer.cli.results import print_result
from aioproducer.cli.signals import EndSignals
from aioproducer.cli.terminal import Terminal, discard
from aioproducer.config import ProducerConfig
from aioproducer.errors import ProducerError, RecordTooLargeError
from aioproducer.foundation.logs import counted, duration
from aioproducer.model import Header
from aioproducer.producer import Producer

__all__ = ["ConsoleProducer", "ConsoleJob"]


@dataclass(frozen=True, slots=True)
class ConsoleJob:
    """The records to send, their destination and the configuration."""

    topic: str
    config: ProducerConfig
    format: RecordFormat
    partition: int | None = None
    headers: Sequence[Header] = ()
    sync: bool = False
    as_json: bool = False
    """Print a summary as JSON at the end."""


class ConsoleProducer:
    """One run of ``aioproducer produce``."""

    def __init__(self, job: ConsoleJob, descriptor: int, terminal: Terminal) -> None:
        self._job = job
        self._terminal = terminal
        self._source = ByteSource(descriptor)
        self._splitter = LineSplitter(job.config.max_request_size)
        self._deliveries = DeliveryCounter(terminal.say, self._on_failure)
        self._producer = Producer(job.config)
        self._sender = LineSender(
            self._producer._core,
            job.topic,
            job.format,
            job.partition,
            job.headers or None,
            self._deliveries,
            self._refuse,
        )
        self._prompts = terminal.is_interactive and os.isatty(descriptor)
        self._lines = self._dropped = 0
        self._bytes_read = 0
        self._ended = False
        self._gave_up: signal.Signals | None = None

    async def run(self) -> int:
        """Read to the end or to a signal, deliver, and return the exit code."""
        began = time.monotonic()
        task = asyncio.current_task()
        assert task is not None

        def give_up(number: signal.Signals) -> None:
            self._gave_up = number
            task.cancel()

        progress = FileProgress(
            self._terminal,
            self._source.size,
            lambda: (self._bytes_read, self._deliveries.delivered),
        )
        with EndSignals(self._stop, give_up), progress:
            try:
                async with self._producer, closed_if_cancelled(self._producer):
                    await producer_answered(self._producer)
                    await self._read()
            except asyncio.CancelledError:
                if self._gave_up is None:
                    raise
            await asyncio.sleep(0)  # the last futures tell their callbacks
        return self._conclude(time.monotonic() - began)

    # --- the end ---------------------------------------------------------------------------

    def _stop(self, number: signal.Signals) -> None:
        self._source.stop()
        if self._prompts:
            self._terminal.print_line("")
        self._terminal.say(
            f"{number.name}: delivering the records read so far; a second signal gives up"
        )

    def _end(self) -> None:
        """Read no further: the next record would fail like the last."""
        self._ended = True
        self._source.stop()
        self._sender.stop()

    def _on_failure(self, error: BaseException) -> None:
        """End the reading if the next record would fail like this one, or with ``sync``."""
        hopeless = not self._deliveries.delivered and not isinstance(error, RecordTooLargeError)
        if self._job.sync or hopeless:
            self._end()

    def _conclude(self, seconds: float) -> int:
        counter = self._deliveries
        rate = counter.delivered / max(seconds, 1e-9)
        if self._job.as_json:
            self._print_summary(seconds, rate)
        if counter.failed:
            sent = counter.failed + counter.delivered
            self._terminal.say(
                f"{counter.failed:,} of {counted(sent, 'record', ',')} "
                f"{'was' if counter.failed == 1 else 'were'} not delivered"
            )
        elif self._terminal.verbose or self._terminal.is_interactive:
            self._terminal.say(
                f"{counted(counter.delivered, 'record', ',')} delivered, "
                f"{counter.bytes / 1e6:,.1f} MB in {duration(seconds)} ({rate:,.0f} records/s)"
            )
        if self._gave_up is not None:
            return 128 + self._gave_up
        return 1 if counter.failed else 0

    def _print_summary(self, seconds: float, rate: float) -> None:
        """Print the counts as JSON. That this fails is told, and changes nothing: the records are
        delivered, and a script that runs the command again would write them twice."""
        counter = self._deliveries
        summary = {
            "topic": self._job.topic,
            "delivered": counter.delivered,
            "failed": counter.failed,
            "bytes": counter.bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(rate, 1),
        }
        try:
            print_result(summary, (), as_json=True)
        except OSError as error:
            discard(sys.stdout)
            self._terminal.say(f"the summary can't be written: {error.strerror or error}")

    # --- from line to record ---------------------------------------------------------------

    async def _read(self) -> None:
        """Send every line, until the end of the input or `_end()`.

        After a signal what was read is still sent, except with ``sync``, where that may be long.
        """
        self._prompt()
        try:
            while chunk := await self._source.read():
                await self._send(self._splitter.feed(chunk))
                if self._ended or (self._job.sync and self._source.stopped):
                    return
                self._bytes_read += len(chunk)
                self._prompt()
        except OSError as error:
            self._deliveries.fail(f"reading failed after line {self._lines}: {error.strerror}")
            return
        if not self._source.stopped:
            await self._send(self._splitter.end())
        elif self._splitter.unfinished and not self._ended:
            self._terminal.say(f"line {self._lines + 1} was incomplete and was not sent")

    async def _send(self, lines: list[bytes | None]) -> None:
        """Send lines and wait for room; None is a line that was too long to be kept."""
        dropped, self._dropped = self._dropped, self._splitter.dropped
        if self._job.sync:
            await self._send_one_by_one(lines)
        elif dropped == self._dropped:
            await self._send_together(cast(list[bytes], lines))
        else:
            for is_dropped, group in groupby(lines, lambda line: line is None):
                together = list(group)
                if is_dropped:
                    for _ in together:
                        self._drop()
                else:
                    await self._send_together(cast(list[bytes], together))

    async def _send_together(self, lines: list[bytes]) -> None:
        if self._ended:
            return
        number = self._lines + 1
        self._lines += len(lines)
        try:
            await self._sender.send(lines, number)
        except ProducerError as error:
            self._refuse(number, error)

    async def _send_one_by_one(self, lines: list[bytes | None]) -> None:
        """Send each line when the one before is delivered."""
        job = self._job
        for line in lines:
            if self._ended or self._source.stopped:
                return
            if line is None:
                self._drop()
                continue
            self._lines += 1
            try:
                key, value = job.format.parse(line)
                future = self._producer.send(
                    job.topic, value, key=key, partition=job.partition, headers=job.headers
                )
                self._deliveries.watch(future)
                await asyncio.wait([future])
            except (ProducerError, MissingKeyError) as error:
                self._refuse(self._lines, error)

    def _drop(self) -> None:
        """Count a line that was too long to be kept."""
        if not self._ended:
            self._lines += 1
            limit = self._job.config.max_request_size
            error = RecordTooLargeError(f"longer than {limit} bytes (max_request_size)")
            self._refuse(self._lines, error)

    def _refuse(self, number: int, error: ProducerError | MissingKeyError) -> None:
        """Count a line that can't be sent; the reading ends unless the line alone is the reason."""
        self._deliveries.fail(f"line {number}: {error}")
        if self._job.sync or not isinstance(error, RecordTooLargeError):
            self._end()

    def _prompt(self) -> None:
        if self._prompts:
            self._terminal.prompt()
