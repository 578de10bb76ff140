"""``aioproducer tail``: records to standard output, and an exit code.

The options have the habits of tail, kcat and Kafka's console consumer. A record is shown by kcat's
format string, or as a JSON object. :class:`ConsoleReader` is one run.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import struct
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, Protocol, Self, TypeAlias

import typer

from aioproducer import loops
from aioproducer.cli import EXIT_FAILED, exit_code, exit_codes
from aioproducer.cli.byte_streams import ByteSink
from aioproducer.cli.early_ends import (
    EndSignals,
    answer_seconds,
    first_answer,
    output_may_close,
)
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    Properties,
    Topic,
    TopicOption,
    Verbose,
)
from aioproducer.cli.positions import position
from aioproducer.cli.results import require_output
from aioproducer.cli.settings import client_config, one_topic, split_reader_options
from aioproducer.cli.terminal import Terminal
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import ConfigError, ProducerError
from aioproducer.errors.client import is_plain, shown
from aioproducer.foundation.logs import counted
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader import Assignment, Reader

__all__ = [
    "PartitionRecords",
    "RecordChunks",
    "Render",
    "as_json",
    "template",
    "ConsoleReader",
    "ReadingJob",
    "tail",
]


class RecordChunks(Protocol):
    """A source of records, to be entered."""

    client: ClusterClient

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def chunks(self, count: int | None) -> AsyncGenerator[Iterable[ConsumerRecord]]:
        """Records, ``count`` of them altogether. Asking for more means that the last are shown."""


class PartitionRecords:
    """The records of assigned partitions. ``arguments``: those of a Reader."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._reader = Reader(*arguments, **options)
        self.client = self._reader._client

    async def __aenter__(self) -> Self:
        await self._reader.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.close()

    async def chunks(self, count: int | None) -> AsyncGenerator[Iterable[ConsumerRecord]]:
        """Yield chunks of records, as :class:`RecordChunks` does."""
        left = count
        async for batch in self._reader.batches():
            records = list(islice(batch, left))
            yield records
            if left is not None:
                left -= len(records)
                if not left:
                    return


Render: TypeAlias = Callable[[ConsumerRecord], bytes]
"""The bytes that show a record."""

_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_SIZE: Final = struct.Struct(">i")


def template(text: str, null: str = "", *, for_people: bool = False) -> Render:
    r"""kcat's format: ``%t`` topic, ``%p`` partition, ``%o`` offset, ``%k`` key, ``%s`` value,
    ``%T`` timestamp in milliseconds, ``%h`` headers, ``%K`` and ``%S`` sizes, ``%R`` the value's
    size as four bytes; ``\n``, ``\t``, ``\r``, ``\0``, ``\xNN``. ``null`` stands for a null.
    ``for_people``: what a terminal would obey in a record is escaped.

    Raises:
        ConfigError: an unknown token, or none that shows a part of the record.
    """
    none = _encoded(null)
    fields = _fields(none)
    if for_people:
        fields |= {letter: _for_people(fields[letter]) for letter in "tksh"}
    parts: list[bytes | Render] = []
    for token in _TOKEN.finditer(text):
        letter, escape = token[1], token[2]
        if letter == "%":
            parts.append(b"%")
        elif letter is not None:
            if letter not in fields:
                raise ConfigError(f"the format has %{letter}: write one of {_names(fields)}, or %%")
            parts.append(fields[letter])
        elif escape is not None:
            parts.append(_character(escape))
        else:
            parts.append(_encoded(token[0]))
    return _joined(parts)


def as_json(record: ConsumerRecord) -> bytes:
    """A line with one JSON object; keys and values that are no UTF-8 are in base64."""
    found: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
        **_text("key", record.key),
        **_text("value", record.value),
        "headers": [{"key": key, **_text("value", value)} for key, value in record.headers],
    }
    line = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    if not line.isprintable():
        line = "".join([each if is_plain(each) else json.dumps(each)[1:-1] for each in line])
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _for_people(render: Render) -> Render:
    def shown_to_people(record: ConsumerRecord) -> bytes:
        return shown(render(record).decode("utf-8", "backslashreplace"), kept="\n\t").encode()

    return shown_to_people


def _text(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {name: b64encode(value).decode("ascii"), f"{name}_encoding": "base64"}


def _fields(none: bytes) -> dict[str, Render]:
    def size(value: bytes | None) -> int:
        return -1 if value is None else len(value)

    def headers(record: ConsumerRecord) -> bytes:
        return b",".join(
            _encoded(key) + b"=" + (none if value is None else value)
            for key, value in record.headers
        )

    return {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "k": lambda record: none if record.key is None else record.key,
        "s": lambda record: none if record.value is None else record.value,
        "h": headers,
        "T": lambda record: b"%d" % record.timestamp_ms,
        "K": lambda record: b"%d" % size(record.key),
        "S": lambda record: b"%d" % size(record.value),
        "R": lambda record: _SIZE.pack(size(record.value)),
    }


def _joined(parts: list[bytes | Render]) -> Render:
    def render(record: ConsumerRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return render


def _character(escape: str) -> bytes:
    if len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    return _ESCAPED.get(escape, _encoded("\\" + escape))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _names(fields: Iterable[str]) -> str:
    return ", ".join(f"%{name}" for name in fields)


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
                with output_may_close():
                    async with first_answer(source.client, seconds), source:
                        await self._show_all()
            except asyncio.CancelledError:
                if not self._ended:
                    raise
            except ProducerError:
                raise  # a timeout or a lost broker is an OSError, too
            except OSError as error:
                self._terminal.say(f"writing failed: {error.strerror}")
                return EXIT_FAILED
        if self._terminal.verbose:
            self._terminal.say(counted(self._shown, "record", ","))
        return exit_code(gave_up=self._gave_up)

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


HELP = f"""\
Show the records of a topic as they arrive, starting at its end.

With --group the command joins a consumer group: it shows the records of its share of the \
partitions, continues where the group stopped, and commits the records that it has shown.

A position is beginning, end, an offset, -N for the last N records of each partition, or a time: \
2026-01-31T12:00:00 (local unless it has a zone), @ and the seconds since 1970, or a duration such \
as 1h for an hour ago.

A format can contain %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp \
in milliseconds, %K and %S sizes of key and value, and \\n, \\t, \\xNN.
{
    exit_codes(
        "the end, an interrupt, or a closed output pipe was reached",
        "reading failed; standard error shows the reason",
        gives_up=True,
    )
}

\b
Examples:
  aioproducer tail orders -b localhost:9092
  aioproducer tail orders -b localhost:9092 --from -10 --until end --json
  aioproducer tail orders -b localhost:9092 --group billing
"""

_CLIENT_ID: Final = "console-consumer"
_VALUE: Final = r"%s\n"
_HEADERS_AND_VALUE: Final = r"%h\t%s\n"


def tail(
    topic: Topic = None,
    topic_option: TopicOption = None,
    bootstrap_servers: BootstrapServers = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            "-o",
            metavar="POSITION",
            help="The first record to show.",
            show_default="end",
        ),
    ] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", hidden=True)] = False,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="POSITION", help="Where to stop; this record is not shown."
        ),
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Short for --until end.")
    ] = False,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="A partition. Repeatable; default: all."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-G",
            metavar="GROUP",
            help="Read as a member of this consumer group, and commit shown records.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", metavar="FORMAT", help="The format of a record, as in kcat."
        ),
    ] = None,
    headers: Annotated[
        bool, typer.Option("--headers", help="Show headers before the value.")
    ] = False,
    null_marker: Annotated[
        str, typer.Option(metavar="TEXT", help="Shown for a key or value that is null.")
    ] = "",
    json_lines: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per record.")
    ] = False,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Skip open and aborted transactions.")
    ] = False,
    properties: Properties = None,
    command_config: CommandConfig = None,
    verbose: Verbose = False,
) -> int:
    terminal = Terminal(verbose=verbose)
    terminal.show_log()
    require_output()
    if from_beginning:
        start = "beginning"
    if exit_at_end:
        until = until or "end"
    name = one_topic("tail", topic, topic_option)
    source: RecordChunks
    if group is not None:
        _refuse_positions(start, until, partition)
        from aioproducer.cli.group_records import OPTIONS, GroupRecords  # only if it is wanted

        of_connections, own = split_reader_options(properties or (), OPTIONS)
        config = client_config(_CLIENT_ID, bootstrap_servers, of_connections, command_config)
        own |= _isolation(read_committed)
        source = GroupRecords(name, group_id=group, config=config, **own)
    else:
        of_connections, own = split_reader_options(properties or ())
        config = client_config(_CLIENT_ID, bootstrap_servers, of_connections, command_config)
        now = datetime.now(UTC)
        source = PartitionRecords(
            _assignment(name, partition),
            config,
            start=position("--from", start or "end", now),
            end=None if until is None else position("--until", until, now),
            **own | _isolation(read_committed),
        )
    job = ReadingJob(
        source,
        _render(form, headers, null_marker, json_lines),
        count=None if count is None else min(count, sys.maxsize),
    )
    if group is None and until is None and start in (None, "end") and terminal.is_interactive:
        terminal.say("waiting for new records; --from beginning shows old ones as well")
    return loops.run(_run(job, sys.stdout.fileno(), terminal))


tail.__doc__ = HELP


async def _run(job: ReadingJob, descriptor: int, terminal: Terminal) -> int:
    return await ConsoleReader(job, descriptor, terminal).run()


def _refuse_positions(start: str | None, until: str | None, partitions: list[int] | None) -> None:
    """Raise :class:`ConfigError`: the group says where its members read."""
    if start is not None:
        raise ConfigError(
            "--from and --group: leave one out. The group continues at its offsets: "
            "`aioproducer groups reset-offsets` changes them. A group without offsets begins at "
            "the end, or at the beginning with -X auto.offset.reset=earliest"
        )
    if until is not None:
        raise ConfigError(
            "--until, or --exit, and --group: leave one out. A member waits for new records; "
            "--count N ends it"
        )
    if partitions:
        raise ConfigError(
            "--partition and --group: leave one out. The group divides the partitions among its "
            "members"
        )


def _isolation(read_committed: bool) -> dict[str, Any]:
    return {"isolation_level": "read_committed"} if read_committed else {}


def _assignment(topic: str, partitions: list[int] | None) -> Assignment:
    if not partitions:
        return topic
    return [TopicPartition(topic, partition) for partition in dict.fromkeys(partitions)]


def _render(form: str | None, headers: bool, null_marker: str, json_lines: bool) -> Render:
    if (form is not None) + headers + json_lines > 1:
        raise ConfigError("give one of --format, --headers and --json")
    if json_lines:
        return as_json
    form = form or (_HEADERS_AND_VALUE if headers else _VALUE)
    return template(form, null_marker, for_people=sys.stdout.isatty())
