"""The options that commands share: Kafka's addresses, and the configuration of connections."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = ["BootstrapServers", "CommandConfig", "Properties", "Verbose"]

BootstrapServers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,…",
        help="The brokers to ask first.",
    ),
]
Properties: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        metavar="NAME=VALUE",
        help=(
            "Any option of the producer, by its Python or Java name; also Kafka's "
            "parse.key, key.separator, ignore.error and null.marker. Give a secret "
            "as ${env:NAME} or in --command-config: other users of the machine can "
            "see a command's arguments. Repeatable."
        ),
    ),
]
CommandConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="PATH",
        help="A Java client's .properties file; the command line's options come before it.",
    ),
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log the progress, and a summary at the end.")
]
