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
    for name in (
        *("README.md", "LICENSE", "NOTICE", "MANIFEST.in"),
        *("compiled_types.py", "pyspark_aioproducer.py", "pytest_aioproducer.py"),
    ):
        shutil.copy(ROOT / name, tree)
    _rewrite(tree, "setup.py", "    ext_modules=extensions(),\n", "")
    _rewrite(tree, "pyproject.toml", '"py.typed"', '"py.typed", "*.so"')
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", "dist", "."], cwd=tree, check=True)
    [built] = (tree / "dist").glob("*.whl")
    return built


def _rewrite(tree: Path, name: str, old: str, new: str) -> None:
    """Copy the file ``name`` into ``tree`` with one change."""
    text = (ROOT / name).read_text("utf-8")
    assert text.count(old) == 1
    (tree / name).write_text(text.replace(old, new), "utf-8")


_NO_CACHES = shutil.ignore_patterns("__pycache__")
