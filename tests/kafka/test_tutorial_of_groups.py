"""The tutorial about a group is a transcript: its programs run in terminals of their own.

A line of a member begins with its name. The lines of a block may come in any order.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from aioproducer.testing.kafka_distribution import KafkaDistribution
from aioproducer.testing.ports import free_ports
from tests.documentation.pages import DOCS, blocks
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE: Final = DOCS / "tutorial" / "consumer-group.md"
FIRST_PAGE: Final = DOCS / "tutorial" / "getting-started.md"
NAMED: Final = re.compile(r"`(\w+\.py)`")
EVENT: Final = re.compile(
    r"^```(?P<language>sh|text)\n(?P<text>.*?)^```$"
    r"|Press Ctrl-C in (?P<interrupted>\w+)'s terminal",
    re.M | re.S,
)
PATIENCE: Final = 60.0


class Terminal:
    """A program that goes on, and the lines that it has printed and nobody has looked at."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))

    def expect(self, lines: list[str]) -> None:
        wait_until(lambda: len(self._lines) >= len(lines), f"{lines} after {self._lines}")
        printed, self._lines = self._lines[: len(lines)], self._lines[len(lines) :]
        assert sorted(printed) == sorted(lines)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE) == 0

    def expect_no_more(self) -> None:
        assert self._lines == []


@contextmanager
def started(command: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *shlex.split(command)[1:]],
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def programs() -> dict[str, str]:
    """The Python blocks of both pages by the file's name, which is the last one before a block."""
    found = {}
    for page in (FIRST_PAGE, PAGE):
        lines = page.read_text("utf-8").splitlines()
        for block in blocks(page, "python"):
            found[NAMED.findall("\n".join(lines[: block.line - 1]))[-1]] = block.text
    return found


def test_the_page_is_what_its_programs_print(
    kafka_distribution: KafkaDistribution, tmp_path: Path
) -> None:
    cluster = blocks(PAGE, "sh")[0]
    terminals: dict[str, Terminal] = {}
    printed = ""
    with ExitStack() as stack:
        port = str(free_ports(1)[0])
        assert " --port 9092" in cluster.text
        kafka = stack.enter_context(started(cluster.text.replace("9092", port), tmp_path))
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == f"127.0.0.1:{port}\n"
        for name, text in programs().items():
            (tmp_path / name).write_text(text.replace("9092", port), "utf-8")
        for event in EVENT.finditer(PAGE.read_text("utf-8")):
            if event["interrupted"]:
                terminals[event["interrupted"].lower()].interrupt()
            elif event["language"] == "text":
                lines = event["text"].splitlines()
                if lines[0].split()[0] in terminals:
                    terminals[lines[0].split()[0]].expect(lines)
                else:
                    assert printed.splitlines() == lines
            elif (command := event["text"].strip()).startswith("python bill.py "):
                process = stack.enter_context(started(command, tmp_path))
                terminals[command.split()[-1]] = Terminal(process)
            elif command != cluster.text.strip():
                with started(command, tmp_path) as process:
                    printed, _ = process.communicate(timeout=PATIENCE)
        for terminal in terminals.values():
            terminal.expect_no_more()
