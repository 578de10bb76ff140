"""The demo and the site take the environment of development if it is there, else a small one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documentation.pages import ROOT


def commands(target: str, place: Path) -> str:
    """The commands that make would run for ``target`` in ``place``."""
    done = subprocess.run(
        ["make", "-n", target, "VENV=.venv"],
        cwd=place,
        env={name: os.environ[name] for name in os.environ if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="NOT TESTED: there is no make")
@pytest.mark.parametrize("target", ["demo", "docs"])
def test_a_clean_clone_gets_a_small_environment(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "setup.py", "compiled_types.py", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    made = commands(target, tmp_path)
    assert f'-m venv ".venv-{target}"' in made
    assert "[dev" not in made
    assert f'".venv-{target}/bin/' in made.splitlines()[-1]

    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".ready").touch()
    for command in commands(target, tmp_path).splitlines():
        assert command.startswith('".venv/bin/')
