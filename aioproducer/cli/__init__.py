"""The command line, ``aioproducer`` or ``python -m aioproducer``.

::

    app.py               the program, the table of commands, and their errors
    produce.py           `aioproducer produce`: input → producer → exit code
    check.py             `aioproducer check`
    tail.py              `aioproducer tail`: reader → output → exit code
    topics.py            `aioproducer topics`
    groups.py            `aioproducer groups`
    cluster.py           `aioproducer cluster`
    perf.py              `aioproducer perf`: its options and its result
    top.py               `aioproducer top`
    dashboard.py         `aioproducer dashboard`
    mock.py              `aioproducer mock`
    options.py           options that commands share
    results.py           results as lines or as JSON
    settings.py          options and properties → ProducerConfig
    positions.py         offsets and times as they are written
    lines.py             bytes → lines → keys and values
    byte_streams.py      input and output, never blocking
    record_outcomes.py   outcomes of records, counted
    group_records.py     records for `aioproducer tail` as a member of a group
    performance_run.py   payloads → producer → measurement → figures
    admin_call.py        a command → one call to an Admin; deletion one by one
    terminal.py          lines for the user, and the progress bar
    early_ends.py        signals, cancellation, a closed output, no answer of a broker
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, NoReturn

from aioproducer import __accelerated__, __version__

__all__ = [
    "EXIT_FAILED",
    "EXIT_USAGE",
    "exit_code",
    "exit_codes",
    "main",
    "version_line",
]


EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_LIBRARIES: Final = ("typer", "rich")
"""The extra ``cli``."""


def exit_code(*, failed: object = False, gave_up: int | None = None) -> int:
    """The exit code of a command that has run; ``gave_up``: the signal that ended its work."""
    if gave_up is not None:
        return 128 + gave_up
    return EXIT_FAILED if failed else 0


def exit_codes(
    done: str = "done",
    failed: str = "not done; standard error shows the reason",
    usage: str = "wrong use: an option or the configuration",
    *,
    gives_up: bool = False,
) -> str:
    """A paragraph of a command's help; ``gives_up``: a second signal ends its work."""
    meanings: dict[object, str] = {0: done, EXIT_FAILED: failed, EXIT_USAGE: usage}
    if gives_up:
        meanings["129, 130, 143"] = "a second signal gave up (128 + signal)"
    width = max(len(str(code)) for code in meanings)
    lines = [f"  {code!s:{width}}  {meaning}" for code, meaning in meanings.items()]
    return "\n".join(["\n\b\nExit codes:", *lines, ""])


def main() -> NoReturn:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from aioproducer.loops import open_standard_descriptors

        open_standard_descriptors()
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:  # before, or after, a command looked after its signals
        code = exit_code(gave_up=signal.SIGINT)
    sys.exit(code)


def version_line() -> str:
    """The answer to ``--version``."""
    return f"aioproducer {__version__}, {'compiled' if __accelerated__ else 'not compiled'}"


def _run(arguments: Sequence[str]) -> int:
    missing = [each for each in _LIBRARIES if find_spec(each) is None]
    if not missing:
        from aioproducer.cli.app import run

        return run(arguments)
    from aioproducer.cli.terminal import Terminal

    if list(arguments) == ["--version"]:
        print(version_line())
        return 0
    Terminal().say(
        f"the command line needs {' and '.join(missing)}: pip install 'aioproducer[cli]'"
    )
    return EXIT_USAGE
