"""A real PostgreSQL, behind a socket in a folder of its own.

``python -m tests.support.postgresql_server`` puts Debian's packages into the cache, without
installing them; ``make postgresql`` runs this.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NoReturn, Self

import pytest

from aioproducer.testing.kafka_distribution import cache_directory, cached_folder
from aioproducer.testing.processes import ProcessSupervisor
from tests.support.prometheus_server import APT

__all__ = ["PostgresqlServer", "programs"]

_FOLDER: Final = "postgresql"
_PATIENCE: Final = 60.0
_OWNER: Final = "app"
_DATABASE: Final = "postgres"
_SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",  # the machine does not fail, and a killed process loses nothing
    "jit": "off",
    "shared_buffers": "16MB",
    "max_connections": "50",
}
_DROP_PRIVILEGES: Final = (
    "import os, sys; user, group = map(int, sys.argv[1:3]); os.setgroups([]); os.setgid(group);"
    " os.setuid(user); os.execv(sys.argv[3], sys.argv[3:])"
)
_SYSTEM: Final = Path("/usr/lib/postgresql")


def programs() -> Path:
    """The folder of ``initdb`` and ``postgres``, newest first; without one, skip loudly."""
    there = [each for each in _candidates() if (each / "initdb").exists()]
    return there[0] if there else _say_that_there_is_none()


def _candidates() -> Iterator[Path]:
    if (on_path := shutil.which("initdb")) is not None:
        yield Path(on_path).resolve().parent
    for root in (_SYSTEM, _cached() / "usr" / "lib" / "postgresql"):
        versions = [each for each in root.glob("*/bin") if each.parent.name.isdecimal()]
        yield from sorted(versions, key=lambda each: int(each.parent.name), reverse=True)


def _cached() -> Path:
    return cache_directory() / _FOLDER


def _say_that_there_is_none() -> NoReturn:
    """Skip the test, or fail it where PostgreSQL is required."""
    what = f"no initdb on the PATH, in {_SYSTEM} or in {_cached()}; make postgresql gets it"
    if os.environ.get("AIOPRODUCER_REQUIRE_POSTGRESQL") == "1":
        pytest.fail(f"AIOPRODUCER_REQUIRE_POSTGRESQL=1, but {what}", pytrace=False)
    pytest.skip(f"NO POSTGRESQL HERE, NOTHING IS PROVED: {what}")


class PostgresqlServer:
    """One server with its own data, which trusts every local user.

    PostgreSQL refuses to run as root: then it runs as ``nobody``.
    """

    def __init__(self) -> None:
        programs_folder = programs()
        self._supervisor = ProcessSupervisor()
        self._folder = Path(tempfile.mkdtemp(prefix="aioproducer-postgresql-"))
        self._supervisor.remove_at_end(self._folder)
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._bin = self._readable(programs_folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.dsn = f"postgresql://{_OWNER}@/{_DATABASE}?host={self._folder}"
        """The address for clients such as asyncpg."""

    def __enter__(self) -> Self:
        try:
            self._initialize()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and remove its data."""
        if self._process is not None:
            self.stop_immediately()
        self._supervisor.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it takes connections; after a crash it recovers first."""
        settings = {**_SETTINGS, "unix_socket_directories": str(self._folder)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = process = self._supervisor.start(
                self._command("postgres", "-D", str(self._data), *options),
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=self._folder,
            )
        deadline = time.monotonic() + _PATIENCE
        while self._run("pg_isready", "-q", "-h", str(self._folder)).returncode:
            written = log.read_text("utf-8", "replace")[-2000:]
            assert process.poll() is None, written
            assert time.monotonic() < deadline, written
            time.sleep(0.05)

    def stop_immediately(self) -> None:
        """End it as a crash does: connections break, and the next start recovers."""
        process, self._process = self._process, None
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGQUIT)
        try:
            process.wait(_PATIENCE)
        finally:
            self._supervisor.kill(process)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _environment(self) -> dict[str, str]:
        libraries = [str(each.parent) for each in self._bin.parents[4].glob("usr/lib/*/libpq.so.5")]
        libraries.append(os.environ.get("LD_LIBRARY_PATH", ""))
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
        if self._bin.parents[4] != Path("/"):
            environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
        return environment

    def _readable(self, folder: Path) -> Path:
        """``folder``, or a copy that the server's user may read: root's cache is root's alone."""
        if self._user is None:
            return folder
        self._folder.chmod(0o755)
        os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        if all(each.stat().st_mode & 0o001 for each in folder.parents):
            return folder
        root = folder.parents[4]  # of usr/lib/postgresql/15/bin
        copy = self._folder / "programs"
        shutil.copytree(root, copy, symlinks=True)
        copy.chmod(0o755)
        return copy / folder.relative_to(root)

    def _initialize(self) -> None:
        options = ("--auth=trust", "--encoding=UTF8", "--no-sync", f"--username={_OWNER}")
        done = self._run("initdb", "-D", str(self._data), *options)
        assert not done.returncode, done.stdout.decode("utf-8", "replace")[-2000:]

    def _command(self, name: str, *arguments: str) -> Sequence[str]:
        command = [str(self._bin / name), *arguments]
        if self._user is None:
            return command
        ids = (str(self._user.pw_uid), str(self._user.pw_gid))
        return [sys.executable, "-I", "-S", "-c", _DROP_PRIVILEGES, *ids, *command]

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self._command(name, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd=self._folder,
            timeout=_PATIENCE,
            check=False,
        )


# --- the packages ------------------------------------------------------------------------------


def _fill(folder: Path) -> None:
    if not _depends("postgresql"):
        _run_in(folder, *APT, "update")
        _depends.cache_clear()
    server = next(each for each in _depends("postgresql") if each.startswith("postgresql-"))
    for package in (server, server.replace("-", "-client-", 1), *_missing_libraries(server)):
        _run_in(folder, *APT, "download", package)
        [file] = folder.glob("*.deb")
        _run_in(folder, "dpkg", "-x", file.name, ".")
        file.unlink()


@cache
def _depends(package: str) -> Sequence[str]:
    """The packages that ``package`` depends on."""
    done = subprocess.run(
        ["apt-cache", "depends", "--important", package],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return [line[1] for line in lines if line[0] == "Depends:" and not line[1].startswith("<")]


def _missing_libraries(server: str) -> Sequence[str]:
    """The libraries of the server that are not installed; those of the compiler are not needed."""
    missing: dict[str, None] = {}
    left = [server]
    while left:
        for package in _depends(left.pop()):
            needed = package.startswith("lib") and not package.startswith("libllvm")
            if needed and package not in missing and not _is_installed(package):
                missing[package] = None
                left.append(package)
    return list(missing)


def _is_installed(package: str) -> bool:
    command = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
    return done.stdout == b"installed"


def _run_in(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=600)


if __name__ == "__main__":
    print(cached_folder(_FOLDER, _fill))
