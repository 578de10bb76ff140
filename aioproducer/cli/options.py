"""The options that commands share: Kafka's addresses, the configuration of connections, output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = [
    "BootstrapServers",
    "CommandConfig",
    "CompressionType",
    "Json",
    "Properties",
    "Timeout",
    "Topic",
    "TopicOption",
    "Verbose",
]

Topic: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)
]
TopicOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="The topic, instead of the argument."),
]
BootstrapServers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT,...",
        help="The brokers to contact first; default: the environment variable BOOTSTRAP_SERVERS.",
    ),
]
Properties: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        metavar="NAME=VALUE",
        help=(
            "Any option of the client, by its Python or Java name. Give a secret as ${env:NAME} "
            "or in --command-config: other users of the machine can see a command's arguments. "
            "Repeatable."
        ),
    ),
]
CommandConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="PATH",
        help="A Java client's .properties file; the command line's options override it.",
    ),
]
CompressionType: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--compression-type", "-z", metavar="TYPE", help="none, gzip, snappy, lz4 or zstd."
    ),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object.")
]
Timeout: TypeAlias = Annotated[
    float, typer.Option(min=0.001, metavar="SECONDS", help="The time limit of the whole command.")
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log what the client does.")
]
