"""Environments of Python for executors, and the package as it is shipped to them."""

from __future__ import annotations

import shutil
import site
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Final

import aioproducer
from benchmarks.spark import sessions

PACKAGE: Final = Path(aioproducer.__file__).parent
FINDER: Final = sessions.ROOT / "pyspark_aioproducer.py"


def an_environment(folder: Path, *, has_the_package: bool = True) -> Path:
    """An environment that refers to the libraries of this one.

    The package is in it as a wheel installs it, with the compiled modules that it has here.
    """
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text("\n".join(site.getsitepackages()))
    if has_the_package:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, packages / "aioproducer", ignore=ignored)
        shutil.copy(FINDER, packages)
    return folder


def an_archive(folder: Path) -> Path:
    """An environment packed as venv-pack does it."""
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(an_environment(folder / "environment"), "")
    return archive


def a_zip(folder: Path) -> Path:
    """The package for ``--py-files``: Python does not import compiled modules from there."""
    path = folder / "aioproducer.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for each in [FINDER, *PACKAGE.rglob("*.py")]:
            packed.write(each, each.relative_to(sessions.ROOT))
    return path
