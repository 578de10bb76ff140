"""A real Prometheus on loopback.

``python -m tests.support.prometheus_server`` puts Debian's package into the cache, without
installing it; ``make prometheus`` runs this.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self

import httpx
import pytest

from aioproducer.testing.kafka_distribution import cache_directory, cached_folder
from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor

__all__ = ["APT", "PrometheusServer", "check_metrics", "program"]

_FOLDER: Final = "prometheus"
_PATIENCE: Final = 60.0
_INTERVAL: Final = "500ms"
APT: Final = (
    *("apt-get", "-qq"),
    # The hash of a package is in Debian's signed index, whatever the machine's own settings allow.
    *("-o", "Acquire::AllowInsecureRepositories=false"),
    *("-o", "APT::Get::AllowUnauthenticated=false"),
)
"""The command that downloads packages of Debian, and never one without a signature."""


def program(name: str) -> str:
    """``prometheus`` or ``promtool``, of the PATH or of the cache; without one, skip loudly."""
    cached = cache_directory() / _FOLDER / "usr" / "bin" / name
    found = shutil.which(name) or (str(cached) if cached.exists() else None)
    return found or _say_that_there_is_none(name)


def _say_that_there_is_none(name: str) -> NoReturn:
    """Skip the test, or fail it where Prometheus is required."""
    what = f"no {name} on the PATH or in {cache_directory() / _FOLDER}; make prometheus gets it"
    if os.environ.get("AIOPRODUCER_REQUIRE_PROMETHEUS") == "1":
        pytest.fail(f"AIOPRODUCER_REQUIRE_PROMETHEUS=1, but {what}", pytrace=False)
    pytest.skip(f"NO PROMETHEUS HERE, NOTHING IS PROVED: {what}")


def check_metrics(exposition: bytes) -> None:
    """Let ``promtool check metrics`` look at what a process exposes."""
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=exposition,
        capture_output=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


class PrometheusServer:
    """Scrapes ``targets``, each ``host:port``, twice a second."""

    def __init__(self, targets: Sequence[str]) -> None:
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._program = program("prometheus")
        self._targets = targets
        self._supervisor = ProcessSupervisor()
        self._folder = Path(tempfile.mkdtemp(prefix="aioproducer-prometheus-"))

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and remove its data."""
        self._supervisor.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def query(self, promql: str) -> list[dict[str, Any]]:
        """The series of an instant query: ``metric`` has the labels, ``value`` time and value."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": promql}, timeout=_PATIENCE)
        found = answer.json()
        assert found["status"] == "success", f"{promql}: {found}"
        return list(found["data"]["result"])

    def values(self, promql: str, label: str = "") -> dict[str, float]:
        """The values of an instant query by a label."""
        found = self.query(promql)
        values = {each["metric"].get(label, ""): float(each["value"][1]) for each in found}
        assert len(values) == len(found), f"{promql}: {label!r} is not all that differs"
        return values

    def scrapes_of_all_targets(self, count: int) -> None:
        """Wait until each target was scraped ``count`` times more, and answered."""
        self._wait_for(
            lambda before: all(
                after >= before.get(target, 0.0) + count
                for target, after in self._scrapes().items()
            ),
            self._scrapes(),
        )

    def _scrapes(self) -> dict[str, float]:
        return self.values("sum_over_time(up[1h])", "instance")

    def _wait_for(self, met: Any, before: dict[str, float]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while len(self._scrapes()) < len(self._targets) or not met(before):
            assert time.monotonic() < deadline, self.query("up")
            time.sleep(0.1)

    def _start(self) -> None:
        jobs = [{"job_name": "app", "static_configs": [{"targets": list(self._targets)}]}]
        times = {"scrape_interval": _INTERVAL, "scrape_timeout": _INTERVAL}
        config = self._folder / "prometheus.yml"  # JSON is YAML
        config.write_text(json.dumps({"global": times, "scrape_configs": jobs}))
        with (self._folder / "log").open("wb") as log:
            process = self._supervisor.start(
                [
                    self._program,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _PATIENCE
        while not self._is_ready():
            written = (self._folder / "log").read_text("utf-8", "replace")
            assert process.poll() is None, written[-2000:]
            assert time.monotonic() < deadline, written[-2000:]
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=_PATIENCE).is_success
        except httpx.TransportError:
            return False


def _fill(folder: Path) -> None:
    def run(*command: str) -> None:
        subprocess.run(command, cwd=folder, check=True, timeout=600)

    try:
        run(*APT, "download", "prometheus")
    except subprocess.CalledProcessError:
        run(*APT, "update")
        run(*APT, "download", "prometheus")
    [package] = folder.glob("prometheus_*.deb")
    run("dpkg", "-x", package.name, ".")
    package.unlink()


if __name__ == "__main__":
    print(cached_folder(_FOLDER, _fill))
