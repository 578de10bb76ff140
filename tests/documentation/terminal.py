"""Commands at a terminal, and the picture of its screen."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence
from typing import Final

__all__ = ["picture", "run_at_a_terminal", "screen"]

WIDTH: Final = 110
_HEIGHT: Final = 40
_SEQUENCE: Final = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def run_at_a_terminal(command: Sequence[str]) -> str:
    """What ``command`` writes to a terminal, with all control sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, WIDTH, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while data := os.read(ours, 65536):
                seen += data
        except OSError:
            pass  # Linux's word for the end of a terminal
    os.close(ours)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {seen.decode()}")
    return seen.decode()


def screen(written: str) -> str:
    """The text on the screen at the end, with its colours, when lines were erased and rewritten."""
    lines = [""]
    row = 0
    for found in _SEQUENCE.finditer(written):
        argument, letter, end, text = found.groups()
        if text is not None:
            lines[row] += text
        elif end == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif letter == "m":
            lines[row] += found[0]
        elif letter == "A":
            row = max(0, row - int(argument or 1))
        elif letter == "K":
            lines[row] = ""
    return "\n".join(line.rstrip() for line in lines).rstrip()


def picture(title: str, text: str) -> str:
    """A screen as SVG, with neither fonts nor addresses from elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), record=True, width=WIDTH, highlight=False)
    for line in text.split("\n"):
        whole = Text.from_ansi(line)
        for at in range(0, max(1, len(whole)), WIDTH):  # a terminal cuts words
            console.print(whole[at : at + WIDTH], no_wrap=True)
    return plain_svg(console.export_svg(title=title))


def plain_svg(svg: str) -> str:
    """``svg`` without what it would load from elsewhere."""
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
