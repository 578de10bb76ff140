"""The command line, ``aioproducer`` or ``python -m aioproducer``.

::

    app.py       the commands, and their errors                 terminal.py    lines for the user
    produce.py   `aioproducer produce`: its options             progress.py    the progress bar
    check.py     `aioproducer check`                            options.py     options of both
    console.py   input → producer → exit code                   signals.py     ends politely
    settings.py  options and properties → ProducerConfig        byte_source.py input, never blocking
    lines.py     bytes → lines → keys and values                deliveries.py  counts fates
"""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from aioproducer.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before, or after, a command looked after its signals
        code = 130
    sys.exit(code)
