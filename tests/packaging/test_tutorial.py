"""The tutorial is a transcript: its commands run in an empty environment, which is the README's.

The wheel of all tests is installed in place of the clone, which would be compiled once more.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from aioproducer.testing.ports import free_ports
from tests.documentation.pages import DOCS, ROOT, blocks
from tests.packaging.wheel import CleanEnvironment

pytestmark = [pytest.mark.slow, pytest.mark.mock_cluster]

PAGE: Final = DOCS / "tutorial" / "getting-started.md"
SECONDS: Final = re.compile(r"\b\d+\.\d s\b")
NAMED: Final = re.compile(r"`(?P<name>\w+\.py)`")
CLONE: Final = '"./aioproducer['


class Step(NamedTuple):
    """A command, and what the page says that it prints; ``...`` stands for any text.

    A time in seconds is one that a slow machine may exceed.
    """

    command: str
    output: str


def steps() -> Iterator[Step]:
    """Each command. A block of output is that of the last command before it."""
    found: list[Step] = []
    for block in sorted((*blocks(PAGE, "sh"), *blocks(PAGE, "text")), key=lambda each: each.line):
        if block.language == "text":
            found[-1] = found[-1]._replace(output=block.text)
        else:
            found += [Step(command, "") for command in block.text.splitlines()]
    yield from found


def programs() -> dict[str, str]:
    """The Python blocks by the file's name, the last one that is named before the block."""
    lines = PAGE.read_text("utf-8").splitlines()
    return {
        NAMED.findall("\n".join(lines[: block.line - 1]))[-1]: block.text
        for block in blocks(PAGE, "python")
    }


def matches(printed: str, documented: str) -> bool:
    documented, printed = (SECONDS.sub("N s", text.strip()) for text in (documented, printed))
    pattern = ".*?".join(re.escape(part) for part in documented.split("..."))
    return re.fullmatch(pattern, printed, re.S) is not None


def test_the_page_is_what_its_commands_print(wheel: Path, tmp_path: Path) -> None:
    clone, create, install, enter, version, cluster, *rest = steps()
    assert clone.command.startswith("git clone ")
    assert create.command == "python3 -m venv first && . first/bin/activate"
    assert enter.command == "cd first"
    environment = CleanEnvironment(tmp_path / "first")
    assert CLONE in install.command
    install = install._replace(command=install.command.replace(CLONE, f'"{wheel}['))
    environment.run("sh", "-c", install.command, cwd=tmp_path)  # pip's own output is not ours
    check(version, environment.run("sh", "-c", version.command, cwd=tmp_path))
    [port] = free_ports(1)
    command = (*shlex.split(cluster.command), "--port", str(port))
    with environment.start(*command, cwd=tmp_path) as mock_cluster:
        try:
            assert mock_cluster.stdout is not None
            address = f"localhost:{port}"
            ready = mock_cluster.stdout.readline()
            check(cluster, ready.replace(address, "localhost:9092"))
            for name, text in programs().items():
                (tmp_path / name).write_text(text.replace("localhost:9092", address), "utf-8")
            for step in rest:
                check(step, environment.run("sh", "-c", step.command, cwd=tmp_path))
        finally:
            mock_cluster.terminate()


def check(step: Step, printed: str) -> None:
    assert matches(printed, step.output), f"$ {step.command}\n{printed}\nis not\n{step.output}"


def test_the_readme_has_the_same_environment() -> None:
    [readme, *_] = blocks(ROOT / "README.md", "sh")
    commands = [line.partition("  #")[0] for line in readme.text.splitlines()]
    assert commands == [step.command for step in steps()][:4]


def test_every_program_is_run() -> None:
    run = {step.command.split()[1] for step in steps() if step.command.startswith("python ")}
    assert set(programs()) == run - {"-c"}
    assert len(programs()) == len(blocks(PAGE, "python"))


def test_a_difference_is_noticed() -> None:
    assert matches("orders-1 at offset 0\n", "orders-... at offset 0")
    assert matches("a\nb\n", "a\n...")
    assert matches("not within 0.6 s", "not within 0.5 s")
    assert not matches("orders-1 at offset 1\n", "orders-... at offset 0")
    assert not matches("", "a")
