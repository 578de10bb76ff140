"""A wheel of this tree, built once: the compiled modules are those of the environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.wheel import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``make wheel`` compiles for a minute; this one takes over what make env has compiled."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "aioproducer", tree / "aioproducer", ignore=_NO_CACHES)
    for name in ("README.md", "LICENSE", "NOTICE", "setup.py", "pyspark_aioproducer.py"):
        shutil.copy(ROOT / name, tree)
    before, _, rest = (
        (ROOT / "pyproject.toml").read_text("utf-8").partition("[[tool.setuptools.ext")
    )
    after = rest[rest.index("[tool.distutils") :]
    settings = before.replace('"py.typed"', '"py.typed", "*.so"') + after
    (tree / "pyproject.toml").write_text(settings, "utf-8")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", "dist", "."], cwd=tree, check=True)
    [built] = (tree / "dist").glob("*.whl")
    return built


_NO_CACHES = shutil.ignore_patterns("__pycache__")
