"""A project of a user of the plugin of pytest: its files, and a run of its tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
_ARGUMENTS: Final = ("-W", "error", "-p", "no:cacheprovider", "--strict-markers", "-rA")
_OUTCOME: Final = re.compile(r"(\d+) (passed|failed|skipped|errors?|warnings?)")


class Run(NamedTuple):
    """A run of pytest."""

    outcomes: dict[str, int]
    """The numbers in its last line: ``passed``, ``failed``, ``skipped``, …"""
    output: str


def run_pytest(
    directory: Path,
    files: Mapping[str, str],
    *arguments: str,
    plugins: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Write ``files`` into ``directory``, and run pytest there with no plugins but the named ones.

    Warnings are errors.
    """
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(textwrap.dedent(text), "utf-8")
    enabled = [each for plugin in plugins for each in ("-p", plugin)]
    if "pytest_asyncio.plugin" in plugins and "pyproject.toml" not in files:
        enabled += ["-o", "asyncio_default_fixture_loop_scope=function"]
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "AIOPRODUCER_REQUIRE"))
    }
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *_ARGUMENTS, *enabled, *arguments],
        cwd=directory,
        env=inherited
        | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join((str(directory), str(ROOT))),
        }
        | dict(environment or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    output = run.stdout + run.stderr
    last = next((line for line in reversed(run.stdout.splitlines()) if " in " in line), "")
    return Run({kind: int(number) for number, kind in _OUTCOME.findall(last)}, output)
