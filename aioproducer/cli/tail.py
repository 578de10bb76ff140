"""``aioproducer tail``: its options, with the habits of tail, kcat and Kafka's console consumer."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated, Final

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
from aioproducer.cli.record_template import Render, as_json, template
from aioproducer.cli.results import require_output
from aioproducer.cli.settings import client_config, one_topic, split_reader_options
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError
from aioproducer.model import TopicPartition
from aioproducer.reader import Assignment

__all__ = ["tail"]

HELP = """\
Show the records of a topic, from its end on, as they come.

A position is beginning, end, an offset, -N for the last N records of each partition, or a time: \
2026-01-31T12:00:00 (local, if it has no zone), @ and the seconds since 1970, or a duration such \
as 1h, which means an hour ago.

A format has %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp in \
milliseconds, %K and %S the sizes of key and value, and \\n, \\t, \\xNN.

\b
Exit codes:
  0              read to the end, to an interrupt, or until nobody read it
  1              it failed; standard error has the reason
  2              wrong use: an option or the configuration
  129, 130, 143  a second signal gave up (128 + signal)

\b
Examples:
  aioproducer tail orders -b localhost:9092
  aioproducer tail orders -b localhost:9092 --from -10 --until end --json
"""

_CLIENT_ID: Final = "console-consumer"
_VALUE: Final = r"%s\n"
_HEADERS_AND_VALUE: Final = r"%h\t%s\n"


def tail(
    topic: Topic = None,
    topic_option: TopicOption = None,
    bootstrap_servers: BootstrapServers = None,
    start: Annotated[
        str, typer.Option("--from", "-o", metavar="POSITION", help="The first record to show.")
    ] = "end",
    from_beginning: Annotated[bool, typer.Option("--from-beginning", hidden=True)] = False,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="POSITION", help="The first record that is not shown any more."
        ),
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Short for --until end.")
    ] = False,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="One partition. Repeatable; none: all."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", metavar="N", min=1, help="End after N records.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", "-f", metavar="FORMAT", help="The form of a record, as of kcat."),
    ] = None,
    headers: Annotated[bool, typer.Option("--headers", help="Headers before each value.")] = False,
    null_marker: Annotated[
        str, typer.Option(metavar="TEXT", help="Shown for a key or value that is null.")
    ] = "",
    json_lines: Annotated[
        bool, typer.Option("--json", help="A JSON object per line and record.")
    ] = False,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Leave out open and aborted transactions.")
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
    of_connections, of_reader = split_reader_options(properties or ())
    if read_committed:
        of_reader["isolation_level"] = "read_committed"
    now = datetime.now(UTC)
    job = ReadingJob(
        assignment=_assignment(one_topic("tail", topic, topic_option), partition),
        config=client_config(_CLIENT_ID, bootstrap_servers, of_connections, command_config),
        render=_render(form, headers, null_marker, json_lines),
        start=position("--from", start, now),
        end=None if until is None else position("--until", until, now),
        count=None if count is None else min(count, sys.maxsize),
        options=of_reader,
    )
    return loops.run(_run(job, sys.stdout.fileno(), terminal))


tail.__doc__ = HELP


async def _run(job: ReadingJob, descriptor: int, terminal: Terminal) -> int:
    return await ConsoleReader(job, descriptor, terminal).run()


def _assignment(topic: str, partitions: list[int] | None) -> Assignment:
    if not partitions:
        return topic
    return [TopicPartition(topic, partition) for partition in dict.fromkeys(partitions)]


def _render(form: str | None, headers: bool, null_marker: str, json_lines: bool) -> Render:
    if (form is not None) + headers + json_lines > 1:
        raise ConfigError("give one of --format, --headers and --json")
    if json_lines:
        return as_json
    return template(form or (_HEADERS_AND_VALUE if headers else _VALUE), null_marker)
