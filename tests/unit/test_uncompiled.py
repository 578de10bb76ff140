"""A process without the compiled modules says so once, and says where it was imported from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import aioproducer
from aioproducer.cli import version_line

pytestmark = pytest.mark.any_form

PACKAGE: Final = Path(aioproducer.__file__).parent
START_TWO: Final = """
import asyncio, logging, sys
from aioproducer import Producer
if "info" in sys.argv:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)

async def main():
    for _ in range(2):
        async with Producer(bootstrap_servers="localhost:1") as producer:
            print("compiled:", producer.health().compiled)

asyncio.run(main())
"""
SLOW: Final = "runs without its compiled modules"


def uncompiled(folder: Path, *, types: bool = True) -> Path:
    """A copy of the package in ``folder``. ``types``: with what compiles it, as in a checkout."""
    left_out = ("__pycache__", "*.so", "*.pyd", *(() if types else ("*.pxd", "*.pyx")))
    shutil.copytree(PACKAGE, folder / "aioproducer", ignore=shutil.ignore_patterns(*left_out))
    if types:
        shutil.copy(PACKAGE.parent / "compiled_types.py", folder)
    return folder


def run(
    folder: Path, *arguments: str, pure: str = "", also: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """``-S``: no other installation of the environment is found."""
    places = os.pathsep.join(str(each) for each in (folder, also) if each is not None)
    environment = os.environ | {"AIOPRODUCER_PURE_PYTHON": pure, "PYTHONPATH": places}
    return subprocess.run(
        [sys.executable, "-S", "-c", START_TWO, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_source_folder_warns_once_and_names_itself(tmp_path: Path) -> None:
    ended = run(uncompiled(tmp_path))
    assert ended.stderr.count(SLOW) == 1
    assert f"imported from {tmp_path / 'aioproducer'}; " in ended.stderr
    assert ended.stdout == "compiled: False\n" * 2


def test_a_source_folder_beside_an_installed_copy_names_both(tmp_path: Path) -> None:
    clone, installed = tmp_path / "clone", tmp_path / "installed"
    uncompiled(clone)
    (installed / "aioproducer-1.0.dist-info").mkdir(parents=True)
    (installed / "aioproducer-1.0.dist-info" / "METADATA").write_text("Name: aioproducer\n")
    (installed / "aioproducer").mkdir()
    (installed / "aioproducer" / "__init__.py").touch()
    ended = run(clone, also=installed)
    assert f"imported from {clone / 'aioproducer'}; " in ended.stderr
    assert f"another copy is installed in {installed / 'aioproducer'}" in ended.stderr


def test_an_installation_without_a_compiler_is_told_what_to_do(tmp_path: Path) -> None:
    ended = run(uncompiled(tmp_path, types=False))
    assert "install a wheel, or have a C compiler when you install it" in ended.stderr


def test_who_chooses_the_source_is_not_warned(tmp_path: Path) -> None:
    ended = run(uncompiled(tmp_path), pure="1")
    assert (ended.stdout, ended.stderr) == ("compiled: False\n" * 2, "")


def test_the_started_line_tells_the_form(tmp_path: Path) -> None:
    ended = run(uncompiled(tmp_path), "info")
    started = f"Started: aioproducer {aioproducer.__version__} (not compiled), bootstrap servers"
    assert ended.stdout.count(started) == 2
    assert ended.stdout.count(SLOW) == 1


def test_the_version_tells_the_form() -> None:
    form = "compiled" if aioproducer.__accelerated__ else "not compiled"
    assert version_line() == f"aioproducer {aioproducer.__version__}, {form}"


@pytest.mark.skipif(not aioproducer.__accelerated__, reason="nothing is compiled here")
def test_a_compiled_process_warns_of_nothing() -> None:
    ended = run(PACKAGE.parent)
    assert (ended.stdout, ended.stderr) == ("compiled: True\n" * 2, "")
