"""The command line, ``aioproducer`` or ``python -m aioproducer``.

::

    app.py               the program, and its errors
    commands.py          the table of commands
    produce.py           `aioproducer produce`: its options
    check.py             `aioproducer check`
    tail.py              `aioproducer tail`: its options
    topics.py            `aioproducer topics`
    groups.py            `aioproducer groups`
    cluster.py           `aioproducer cluster`
    perf.py              `aioproducer perf`: its options and its result
    top.py               `aioproducer top`
    dashboard.py         `aioproducer dashboard`
    options.py           options that commands share
    results.py           results as lines or as JSON
    settings.py          options and properties → ProducerConfig
    byte_source.py       input, never blocking
    lines.py             bytes → lines → keys and values
    console_producer.py  input → producer → exit code
    record_outcomes.py   outcomes of records that were sent in one call
    console_reader.py    reader → output → exit code
    positions.py         offsets and times as they are written
    record_template.py   records → text
    byte_sink.py         output, never blocking
    admin_call.py        a command → one call to an Admin
    topic_results.py     descriptions of topics
    group_results.py     descriptions of groups, and changes of their offsets
    offset_reset.py      an option of `aioproducer groups reset-offsets` → the new offsets
    deletion.py          confirmation, and deletion one by one
    replica_lists.py     replicas and settings of topics as they are written
    delivery_counter.py  counts deliveries
    performance_run.py   payloads → producer → measurement
    payloads.py          values to measure with
    rate_schedule.py     a rate → the number of records that are due
    measurement.py       acknowledgements → figures
    latency_histogram.py percentiles in bounded memory
    performance_display.py  figures while a run lasts
    metrics_endpoint.py  a process's endpoint for Prometheus
    top_display.py       figures of producers as a picture or as lines
    progress.py          the progress bar
    terminal.py          lines for the user
    signals.py           ends politely
    cancellation.py      ends at once
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, NoReturn

from aioproducer import __accelerated__, __version__

__all__ = ["main", "version_line"]

_LIBRARIES: Final = ("typer", "rich")
"""The extra ``cli``."""
_MISSING: Final = 2
"""The exit code without them: that of wrong use."""


def main() -> NoReturn:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from aioproducer.loops import open_standard_descriptors

        open_standard_descriptors()
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:  # before, or after, a command looked after its signals
        code = 130
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
    return _MISSING
