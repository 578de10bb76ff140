"""The commands, and their errors: one line on standard error each, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from aioproducer.cli import version_line
from aioproducer.cli.commands import EXIT_USAGE, CommandGroup, new_program, register_all
from aioproducer.cli.terminal import Terminal, discard
from aioproducer.errors import ConfigError, ProducerError

__all__ = ["EXIT_UNDELIVERED", "EXIT_USAGE", "run"]

EXIT_UNDELIVERED = 1

app = new_program(
    name="aioproducer",
    help="Kafka from the command line: write, read, measure, and manage topics and groups.",
    cls=CommandGroup,
    add_completion=True,
)
register_all(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_line())
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options of the program itself."""


def run(arguments: Sequence[str]) -> int:
    """The exit code of the command that ``arguments`` name; without any, all commands are shown."""
    terminal = Terminal()
    try:
        code = app(arguments or ["--help"], prog_name="aioproducer", standalone_mode=False)
    except ConfigError as error:
        terminal.say(str(error))
        return EXIT_USAGE
    except ProducerError as error:
        terminal.say("; ".join((str(error), *getattr(error, "__notes__", ()))))
        return EXIT_UNDELIVERED
    except OSError as error:
        if sys.stdout is not None:
            discard(sys.stdout)
        terminal.say(f"the result can't be written: {error.strerror or error}")
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
    stop = "" if message.endswith("?") else "."
    terminal.say(f"{message.rstrip('.')}{stop} See --help")
    code = getattr(error, "exit_code", EXIT_USAGE)
    return code if isinstance(code, int) else EXIT_USAGE
