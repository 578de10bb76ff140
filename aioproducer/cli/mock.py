"""``aioproducer mock``: a mock cluster in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from aioproducer.cli import exit_codes
from aioproducer.cli.results import require_output
from aioproducer.errors import ConfigError, MissingExtraError
from aioproducer.testing.mock_cluster import MockClusterArgumentError
from aioproducer.testing.mock_cluster.cluster import DESCRIPTION, PORT, run

__all__ = ["mock"]

HELP = f"""\
{DESCRIPTION}

`aioproducer topics` can't create or delete its topics: use --topic for a topic that needs another \
number of partitions.
{
    exit_codes(
        "ended by Ctrl-C",
        "it did not start, for example because the port is in use",
        "wrong use: an option, or a missing extra",
    )
}

\b
Example:
  aioproducer mock --topic orders:6
"""


def mock(
    port: Annotated[
        int,
        typer.Option(min=0, metavar="PORT", help="The port of the first broker; 0: any free one."),
    ] = PORT,
    brokers: Annotated[int, typer.Option(min=1, metavar="N", help="The number of brokers.")] = 1,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="NAME[:PARTITIONS]",
            help="A topic to create at the start. Repeatable.",
        ),
    ] = None,
) -> int:
    require_output()
    try:
        run(brokers, topics or (), port)
    except (MissingExtraError, MockClusterArgumentError) as error:
        raise ConfigError(str(error)) from None
    return 0


mock.__doc__ = HELP
