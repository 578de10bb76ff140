"""``aioproducer produce``: from input to a producer, and from the outcomes to an exit code.

The options have the habits of Kafka's console producer and kcat. :class:`ConsoleProducer` is one
run, and :class:`LineSender` puts many lines into batches in one call.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import add
from pathlib import Path
from typing import Annotated, cast

import typer

from aioproducer import loops
from aioproducer.cli import exit_code, exit_codes
from aioproducer.cli.byte_streams import ByteSource
from aioproducer.cli.early_ends import EndSignals, closed_if_cancelled, producer_answered
from aioproducer.cli.lines import LineSplitter, MissingKeyError, RecordFormat
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    CompressionType,
    Json,
    Properties,
    Topic,
    TopicOption,
    Verbose,
)
from aioproducer.cli.record_outcomes import DeliveryCounter, RecordOutcomes, Refused
from aioproducer.cli.results import print_result, require_output
from aioproducer.cli.settings import (
    given,
    one_topic,
    parse_headers,
    producer_config,
    record_format,
    split_properties,
)
from aioproducer.cli.terminal import FileProgress, Terminal, discard
from aioproducer.config import ProducerConfig
from aioproducer.engine.bulk.writers import ColumnWriter
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.records.acceleration import BinaryColumn
from aioproducer.engine.records.columns import Columns
from aioproducer.errors import ConfigError, ProducerError, RecordTooLargeError
from aioproducer.foundation.logs import counted, duration
from aioproducer.model import Header, Headers
from aioproducer.producer import Producer
from aioproducer.serialization.serializer import shared_headers

__all__ = [
    "LineSender",
    "ConsoleProducer",
    "ConsoleJob",
    "produce",
]


class LineSender:
    """Sends lines to one topic.

    ``refused`` gets the number of each line that can't be sent, with the reason. ``partition`` and
    ``headers`` are of all records.
    """

    def __init__(
        self,
        core: ProducerCore,
        topic: str,
        record_format: RecordFormat,
        partition: int | None,
        headers: Headers | None,
        deliveries: DeliveryCounter,
        refused: Refused,
    ) -> None:
        self._core = core
        self._topic = topic
        self._format = record_format
        self._partition = partition
        self._headers = None if headers is None else shared_headers(headers, topic)
        self._deliveries = deliveries
        self._refused = refused
        self._writer: ColumnWriter | None = None

    def stop(self) -> None:
        """Send none of the further lines of a :meth:`send` under way."""
        if self._writer is not None:
            self._writer.stop()

    async def send(self, lines: list[bytes], number: int) -> None:
        """Put lines into batches, in order; ``number``: of the first. The call waits for memory.

        Raises ProducerError if the producer has ended.
        """
        if self._format.is_plain:
            writer = self._write(number, list(map(len, lines)))
            await writer.write(self._topic, lines, self._partition, self._headers)
        elif (split := self._format.split(lines)) is not None:
            keys, values = split
            writer = self._write(number, list(map(add, map(len, keys), map(len, values))))
            columns = Columns(_column(values), _column(keys))
            await writer.write_columns(self._topic, columns, self._partition, self._headers)
        else:
            await self._send_pairs(lines, number)

    async def _send_pairs(self, lines: list[bytes], number: int) -> None:
        pairs = []
        missing: MissingKeyError | None = None
        for line in lines:
            try:
                pairs.append(self._format.parse(line))
            except MissingKeyError as error:
                missing = error
                break
        sizes = [len(key or b"") + len(value or b"") for key, value in pairs]
        writer = self._write(number, sizes)
        await writer.write_pairs(self._topic, pairs, self._partition, self._headers)
        if missing is not None and not writer.stopped:
            self._refused(number + len(pairs), missing)

    def _write(self, number: int, sizes: Sequence[int]) -> ColumnWriter:
        outcomes = RecordOutcomes(self._deliveries, self._refused, number, sizes)
        self._writer = ColumnWriter(self._core, outcomes)
        return self._writer


def _column(fields: list[bytes]) -> BinaryColumn:
    offsets = array("q", accumulate(map(len, fields), initial=0))
    return BinaryColumn(None, offsets, b"".join(fields), 0, len(fields), wide=True)


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
        return exit_code(failed=counter.failed, gave_up=self._gave_up)

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


HELP = f"""\
Send each line of standard input, or of a file, as a record.

A line is sent unchanged, without its newline. An interrupt (SIGINT), SIGTERM or SIGHUP stops \
reading; records read so far are delivered before the program exits. A second signal gives up.

Properties (-X) can also be Kafka's parse.key, key.separator, ignore.error and null.marker.
{
    exit_codes(
        "every line read was delivered, even if interrupted",
        "some were not; standard error shows the errors and the count",
        "wrong use: an option, the configuration or the file",
        gives_up=True,
    )
}

\b
Example:
  tail -f log | aioproducer produce logs -b localhost:9092 -z zstd
"""


def produce(
    topic: Topic = None,
    topic_option: TopicOption = None,
    bootstrap_servers: BootstrapServers = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="PATH", help="Read this file, not standard input."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-K",
            metavar="SEP",
            help=r"A line is key, separator, value; \t, \0 and \xNN are allowed. A line "
            "without it ends the reading with an error.",
        ),
    ] = None,
    ignore_error: Annotated[
        bool,
        typer.Option("--ignore-error", help="A line without separator is a value without key."),
    ] = False,
    null_marker: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A key or value that is this text is null."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="NAME=VALUE",
            help="A header of every record; NAME alone has a null value. Repeatable.",
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="The partition of all records."),
    ] = None,
    sync: Annotated[
        bool,
        typer.Option(
            "--sync",
            help="Await each record's delivery before the next; the first failure ends the run.",
        ),
    ] = False,
    compression_type: CompressionType = None,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    if as_json:
        require_output()
    terminal = Terminal(verbose=verbose)
    terminal.show_log()
    options, reader = split_properties(properties or ())
    options |= given(bootstrap_servers=bootstrap_servers, compression_type=compression_type)
    if options.setdefault("transactional_id") is not None:  # nor that of an application's file
        raise ConfigError(
            "transactional.id: `aioproducer produce` has no transactions; leave it out"
        )
    job = ConsoleJob(
        topic=one_topic("produce", topic, topic_option),
        config=producer_config(command_config, options),
        format=record_format(
            key_separator=key_separator,
            null_marker=null_marker,
            ignore_error=ignore_error,
            reader=reader,
        ),
        partition=partition,
        headers=parse_headers(header or ()),
        sync=sync,
        as_json=as_json,
    )
    return loops.run(ConsoleProducer(job, _open(file), terminal).run())


produce.__doc__ = HELP


def _open(path: Path | None) -> int:
    """The input's file descriptor; it is open until the process ends."""
    if path is None:
        if sys.stdin is None:
            raise ConfigError("standard input is closed; give --file")
        return sys.stdin.fileno()
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise ConfigError(f"cannot read {path}: it is a directory")
    return descriptor
