"""``aioproducer tail``: its options, with the habits of tail, kcat and Kafka's console consumer."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from aioproducer import loops
from aioproducer.cli.console_reader import ConsoleReader, ReadingJob
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    Properties,
    Topic,
    TopicOption,
    Verbose,
)
from aioproducer.cli.positions import position
from aioproducer.cli.record_chunks import PartitionRecords, RecordChunks
from aioproducer.cli.record_template import Render, as_json, template
from aioproducer.cli.results import require_output
from aioproducer.cli.settings import client_config, one_topic, split_reader_options
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError
from aioproducer.model import TopicPartition
from aioproducer.reader import Assignment

__all__ = ["tail"]

HELP = """\
Show the records of a topic as they arrive, starting at its end.

With --group the command joins a consumer group: it shows the records of its share of the \
partitions, continues where the group stopped, and commits the records that it has shown.

A position is beginning, end, an offset, -N for the last N records of each partition, or a time: \
2026-01-31T12:00:00 (local unless it has a zone), @ and the seconds since 1970, or a duration such \
as 1h for an hour ago.

A format can contain %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp \
in milliseconds, %K and %S sizes of key and value, and \\n, \\t, \\xNN.

\b
Exit codes:
  0              the end, an interrupt, or a closed output pipe was reached
  1              reading failed; standard error shows the reason
  2              wrong use: an option or the configuration
  129, 130, 143  a second signal gave up (128 + signal)

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
            "--from and --group: leave one out. The group goes on at its offsets: "
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
