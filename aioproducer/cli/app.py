"""The commands, and their errors: one line on standard error each, never a traceback."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from aioproducer.cli.check import check
from aioproducer.cli.produce import produce
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError, ProducerError
from aioproducer.version import __version__

__all__ = ["EXIT_UNDELIVERED", "EXIT_USAGE", "run"]

EXIT_UNDELIVERED = 1
EXIT_USAGE = 2

app = typer.Typer(
    name="aioproducer",
    help="The Kafka producer for asyncio, from the command line.",
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("produce")(produce)
app.command("check")(check)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"aioproducer {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options of the program itself."""


def run(arguments: Sequence[str]) -> int:
    """The exit code of the command that ``arguments`` name."""
    terminal = Terminal()
    try:
        code = app(arguments, prog_name="aioproducer", standalone_mode=False)
    except ConfigError as error:
        terminal.say(str(error))
        return EXIT_USAGE
    except ProducerError as error:
        terminal.say(str(error))
        return EXIT_UNDELIVERED
    except Exception as error:
        return _refusal(error, terminal)
    return code if isinstance(code, int) else 0


def _refusal(error: Exception, terminal: Terminal) -> int:
    """Typer's own errors have a message and an exit code; whatever else comes here is our bug.

    Their classes are click's, which older versions of typer import and newer ones contain.
    """
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        terminal.say(f"this is a bug of aioproducer: {type(error).__name__}: {error}")
        return EXIT_UNDELIVERED
    message = " ".join(str(format_message()).split())
    terminal.say(
        f"{message.rstrip('.')}. See --help" if message else "no command given, see --help"
    )
    code = getattr(error, "exit_code", EXIT_USAGE)
    return code if isinstance(code, int) else EXIT_USAGE
