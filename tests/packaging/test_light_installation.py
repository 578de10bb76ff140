"""An installation without an extra: few packages, and a command that names what it lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aioproducer.foundation.version import __version__
from tests.packaging.wheel import CleanEnvironment

pytestmark = pytest.mark.slow

MOST_PACKAGES = 6
LIBRARIES = {"lz4", "crc32c", "mmh3", "zstandard"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    place = tmp_path_factory.mktemp("light")
    environment = CleanEnvironment(place / ".venv")
    environment.run("python", "-m", "pip", "install", "--quiet", str(wheel), cwd=place)
    return environment


def test_few_packages_come_with_it(installed: CleanEnvironment, tmp_path: Path) -> None:
    listed = installed.run("python", "-m", "pip", "list", "--format", "json", cwd=tmp_path)
    names = {each["name"] for each in json.loads(listed)} - {"aioproducer", "pip", "setuptools"}
    assert names <= LIBRARIES
    assert len(names) <= MOST_PACKAGES


@pytest.mark.parametrize("command", ["aioproducer", "python -m aioproducer"])
def test_the_command_names_the_extra(
    installed: CleanEnvironment, tmp_path: Path, command: str
) -> None:
    version = installed.run("sh", "-c", f"{command} --version", cwd=tmp_path)
    assert version.startswith(f"aioproducer {__version__}, ")
    with pytest.raises(AssertionError, match=r"ended with 2") as caught:
        installed.run("sh", "-c", f"{command} topics list", cwd=tmp_path)
    assert "needs typer and rich: pip install 'aioproducer[cli]'" in str(caught.value)
