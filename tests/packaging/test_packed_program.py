"""PyInstaller finds everything that a program needs, without a hook."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.packaging import packed_program
from tests.packaging.wheel import CleanEnvironment
from tests.support.served_kafka import ServedKafka, serve

pytestmark = pytest.mark.soak

PYINSTALLER = ["pyinstaller==5.13.2", "pyinstaller==6.22.3"]
"""The first one sees no import statement of a compiled loop, the second one reads its source."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("version", PYINSTALLER)
async def test_a_packed_program(version: str, compiled: bool, wheel: Path, tmp_path: Path) -> None:
    environment = CleanEnvironment(tmp_path / ".venv")
    needed = (str(wheel), version, "setuptools<70")
    environment.run("python", "-m", "pip", "install", "--quiet", *needed, cwd=tmp_path)
    if not compiled:
        for binary in (tmp_path / ".venv").glob("lib*/python*/site-packages/aioproducer/**/*.so"):
            binary.unlink()
    program = packed_program.__file__
    form = "--onefile" if compiled else "--onedir"
    environment.run("pyinstaller", form, "--name", "packed", program, cwd=tmp_path, timeout=900)
    [packed] = [each for each in (tmp_path / "dist").rglob("packed") if each.is_file()]
    secured = ClusterOptions(credentials={"alice": "secret"})
    async with (
        ServedKafka(ClusterOptions(group_initial_rebalance_delay_ms=0)) as kafka,
        ServedKafka(secured) as other,
    ):
        for each in (kafka, other):
            each.model.create_topic("orders", 2)
        said, _ = await serve(
            [str(packed), kafka.bootstrap_servers, other.bootstrap_servers],
            orders={},
            cwd=tmp_path,
            environment={"PATH": os.environ["PATH"]},
            timeout=120,
        )
    assert said == ["compiled" if compiled else "source"]
