"""A Spark cluster on this machine: a master and workers in processes of their own.

Executors run below their workers, and their Python below them: nothing of a job runs in the process
tree of its driver but the driver.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import psutil  # type: ignore[import-untyped]

from aioproducer.testing.ports import ReservedPort, free_ports
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.spark import sessions

HOST: Final = "127.0.0.1"
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SMALL_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Of processes that end soon: they compile quickly, and not again for speed."""
_POLL: Final = 0.05

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SMALL_JVM,
        "spark.port.maxRetries": "100",
    }
)
"""For sessions on such a cluster: each worker has one executor, however small the machine is."""


class StandaloneError(RuntimeError):
    """The cluster did not do what was asked; the message has the end of the process's log."""


class StandaloneCluster:
    """A master and ``workers`` of Spark, listening on loopback only; used with ``with``.

    Each worker offers ``cores`` and memory for one executor. The master keeps what it knows in a
    file, so one that is started again knows workers and applications. When this process dies, so
    do the others. Every method blocks.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        cores: int = 1,
        environment: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 120.0,
    ) -> None:
        """``environment``: of the workers and their executors, over this process's."""
        ports = free_ports(2 + 2 * workers, HOST)
        self._master_port, self._web_port, *self._worker_ports = ports
        self._environment = environment
        self._cores = cores
        self._timeout = timeout
        self._supervisor: ProcessSupervisor | None = None
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes] | None] = [None] * workers
        self._reserved: ReservedPort | None = None
        self.directory = Path()

    @property
    def url(self) -> str:
        """What a driver has as its master."""
        return f"spark://{HOST}:{self._master_port}"

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self._workers)

    def __enter__(self) -> Self:
        self._supervisor = ProcessSupervisor()
        self.directory = Path(tempfile.mkdtemp(prefix="aioproducer-spark-"))
        self._supervisor.remove_at_end(self.directory)
        try:
            self.start_master()
            for number in range(len(self._workers)):
                self.start_worker(number)
            self._until(self._all_workers_are_known, "the workers are registered")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._reserved is not None:
            self._reserved.release()
        self._processes.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start_master(self) -> None:
        """Where it was before, with what it knew; workers and drivers come back by themselves."""
        if self._reserved is not None:
            self._reserved.release()
            self._reserved = None
        self._master = self._launch(
            "master",
            _MASTER,
            *("--host", HOST, "--port", str(self._master_port)),
            *("--webui-port", str(self._web_port)),
        )
        self._until(lambda: self._state() is not None, "the master answers", self._master)

    def kill_master(self) -> None:
        """Nobody else gets its port meanwhile."""
        self._processes.kill(_running(self._master))
        self._reserved = ReservedPort(HOST, self._master_port)

    def start_worker(self, number: int) -> None:
        """Returns at once: it registers itself."""
        port, web_port = self._worker_ports[2 * number : 2 * number + 2]
        self._workers[number] = self._launch(
            f"worker-{number}",
            _WORKER,
            *("--host", HOST, "--port", str(port), "--webui-port", str(web_port)),
            *("--cores", str(self._cores), "--memory", "512m"),
            *("--work-dir", str(self.directory / f"work-{number}"), self.url),
        )

    def kill_worker(self, number: int) -> None:
        """Its executor ends by itself when it notices."""
        self._processes.kill(_running(self._workers[number]))

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs, those that are there at this moment."""
        return [
            process
            for worker in self._workers
            if worker is not None
            for process in _below(worker.pid)
            if _EXECUTOR in _command(process)
        ]

    def executor_pythons(self) -> list[psutil.Process]:
        """The Python processes of the executors, their daemons among them."""
        return [
            process
            for executor in self.executors()
            for process in _below(executor.pid)
            if "pyspark.daemon" in _command(process) or "pyspark.worker" in _command(process)
        ]

    def log_excerpt(self) -> str:
        """The ends of all logs, those of executors too."""
        files = [*self.directory.glob("*.log"), *self.directory.glob("work-*/*/*/stderr")]
        return "\n".join(f"--- {file}\n{_end(file)}" for file in files)

    # --- within ----------------------------------------------------------------------------

    @property
    def _processes(self) -> ProcessSupervisor:
        if self._supervisor is None:
            raise StandaloneError("the cluster was not started")
        return self._supervisor

    def _launch(self, name: str, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        properties = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.directory / "recovery"),
            "spark.master.rest.enabled": "false",  # its port is fixed
        }
        options = " ".join(f"-D{key}={value}" for key, value in properties.items())
        environment = {
            **sessions.environment(),
            **self._environment,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{SMALL_JVM} {options}",
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
        }
        file = self.directory / f"{name}.log"
        with file.open("ab") as log:
            return self._processes.start(
                [str(sessions.INSTALLED / "bin" / "spark-class"), main_class, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.directory,
            )

    def _state(self) -> dict[str, Any] | None:
        """What the master says; None: it does not answer."""
        try:
            url = f"http://{HOST}:{self._web_port}/json/"
            with urllib.request.urlopen(url, timeout=5) as answer:
                said: dict[str, Any] = json.load(answer)
                return said
        except (OSError, ValueError):
            return None

    def _all_workers_are_known(self) -> bool:
        state = self._state()
        return state is not None and state["aliveworkers"] == len(self._workers)

    def _until(
        self,
        condition: Callable[[], bool],
        what: str,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        deadline = time.monotonic() + self._timeout
        while not condition():
            ended = process is not None and process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise StandaloneError(
                    f"not within {self._timeout:g} s: {what}\n{self.log_excerpt()}"
                )
            time.sleep(_POLL)


def _running(process: subprocess.Popen[bytes] | None) -> subprocess.Popen[bytes]:
    if process is None or process.poll() is not None:
        raise StandaloneError("it does not run")
    return process


def _below(pid: int) -> Sequence[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _end(file: Path, size: int = 3000) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - size))
        return opened.read().decode(errors="replace")
