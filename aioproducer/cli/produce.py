"""``aioproducer produce``: its options, with the habits of Kafka's console producer and kcat."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer

from aioproducer import loops
from aioproducer.cli.console_producer import ConsoleJob, ConsoleProducer
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
from aioproducer.cli.results import require_output
from aioproducer.cli.settings import (
    given,
    one_topic,
    parse_headers,
    producer_config,
    record_format,
    split_properties,
)
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError

__all__ = ["produce"]

HELP = """\
Send each line of standard input, or of a file, as a record.

A line is sent unchanged, without its newline. An interrupt (SIGINT), SIGTERM or SIGHUP stops \
reading; records read so far are delivered before the program exits. A second signal gives up.

Properties (-X) can also be Kafka's parse.key, key.separator, ignore.error and null.marker.

\b
Exit codes:
  0              every line read was delivered, even if interrupted
  1              some were not; standard error shows the errors and the count
  2              wrong use: an option, the configuration or the file
  129, 130, 143  a second signal gave up (128 + signal)

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
