"""The program: the table of its commands, and their errors.

A module is imported when its command runs, so that no command pays for the imports of another. An
error is one line on standard error, never a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from aioproducer.cli import EXIT_FAILED, EXIT_USAGE, version_line
from aioproducer.cli.terminal import Terminal, discard
from aioproducer.errors import ConfigError, ProducerError

__all__ = [
    "CommandGroup",
    "SubcommandGroup",
    "new_program",
    "register_all",
    "run",
]


_NAMES_OF_KAFKA: Final = {
    "bootstrap-server": "bootstrap-servers",
    "command-property": "property",
    "producer-property": "property",
    "producer.config": "command-config",
    "under-replicated-partitions": "under-replicated",
    "unavailable-partitions": "unavailable",
    "max-messages": "count",
    "force": "yes",
    "to-earliest": "to-beginning",
    "to-latest": "to-end",
    "to-datetime": "to-time",
}
"""Names of options in Kafka's own tools, and ours."""


class _Command(NamedTuple):
    """The function of a command, or the program of its subcommands."""

    module: str
    attribute: str
    help: str

    def load(self, name: str) -> Any:
        """The command itself, with its options."""
        found = getattr(import_module(f"aioproducer.cli.{self.module}"), self.attribute)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        program = new_program()
        program.command(name)(found)
        return typer.main.get_command(program)


_COMMANDS: Final = {
    "produce": _Command(
        "produce", "produce", "Send each line of standard input, or of a file, as a record."
    ),
    "tail": _Command("tail", "tail", "Show the records of a topic as they arrive."),
    "perf": _Command("perf", "perf", "Send records at a rate, and measure throughput and latency."),
    "topics": _Command(
        "topics", "topics", "List, describe, create and delete topics, and add partitions."
    ),
    "groups": _Command(
        "groups", "groups", "List, describe and delete groups, and reset their offsets."
    ),
    "cluster": _Command(
        "cluster", "cluster", "Show the brokers of a cluster, their racks, and its features."
    ),
    "top": _Command("top", "top", "Show the activity of a running process's producers."),
    "dashboard": _Command(
        "dashboard", "dashboard", "Print a Grafana dashboard for the metrics of producers."
    ),
    "mock": _Command("mock", "mock", "Run a mock cluster at localhost:9092, for a first try."),
    "check": _Command(
        "check", "check", "Connect, log in, and check whether a producer could write."
    ),
}


class CommandGroup(TyperGroup):
    """Commands by name. Until one is called, its help line stands for it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first argument names, and the other arguments."""
        if args and args[0] in _COMMANDS:
            self.commands[args[0]] = _COMMANDS[args[0]].load(args[0])
        return super().resolve_command(ctx, args)


class SubcommandGroup(TyperGroup):
    """Subcommands by name. Without one, the help says which there are: wrong use."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """The arguments that are left for the subcommand."""
        if not args:
            Terminal().print_line(ctx.get_help())
            ctx.exit(EXIT_USAGE)
        return super().parse_args(ctx, args)


def new_program(**options: Any) -> typer.Typer:
    """A program whose help is plain text: 80 columns, and no word is cut."""
    return typer.Typer(
        **{"add_completion": False, **options},
        rich_markup_mode=None,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "token_normalize_func": lambda name: _NAMES_OF_KAFKA.get(name, name),
        },
    )


def register_all(program: typer.Typer) -> None:
    """Give ``program`` the names of all commands."""
    for name, command in _COMMANDS.items():
        program.command(name, help=command.help)(_not_loaded)


def _not_loaded() -> None:
    """Stands for a command until `CommandGroup` loads it."""


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
        return EXIT_FAILED
    except OSError as error:
        if sys.stdout is not None:
            discard(sys.stdout)
        terminal.say(f"the result can't be written: {error.strerror or error}")
        return EXIT_FAILED
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
        return EXIT_FAILED
    message = " ".join(str(format_message()).split())
    stop = "" if message.endswith("?") else "."
    terminal.say(f"{message.rstrip('.')}{stop} See --help")
    code = getattr(error, "exit_code", EXIT_USAGE)
    return code if isinstance(code, int) else EXIT_USAGE
