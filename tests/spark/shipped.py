"""An environment of Python in an archive, as it is shipped to executors."""

from __future__ import annotations

import site
import tarfile
import venv
from pathlib import Path

from benchmarks.spark import sessions


def an_environment(folder: Path) -> Path:
    """Packed as venv-pack does it, but for the packages: those of this one are referred to."""
    made = folder / "environment"
    venv.create(made, symlinks=True)
    [packages] = made.glob("lib/python*/site-packages")
    (packages / "all.pth").write_text("\n".join([*site.getsitepackages(), str(sessions.ROOT)]))
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(made, "")
    return archive
