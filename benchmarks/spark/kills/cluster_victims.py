"""Who is killed on a cluster: a worker with its executor, an executor, its Python, the master."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from benchmarks.spark.kills.drivers import Run
from benchmarks.spark.kills.random_kills import kill_all, name_of
from benchmarks.spark.standalone import SETTINGS, StandaloneCluster

VICTIMS: Final = ("Python", "executor", "executor", "worker", "master", "driver")
_LONGEST_DEATH: Final = 3.0
"""Seconds until who was killed is started again."""


class ClusterVictims:
    """Processes of ``cluster``, and drivers on it.

    Each of ``among`` is killed before one of them is killed again. A worker or master is started
    again after a while; executors and Python are by Spark.
    """

    def __init__(self, cluster: StandaloneCluster, among: tuple[str, ...] = VICTIMS) -> None:
        self.master = cluster.url
        self.settings: Mapping[str, str] = SETTINGS
        self._cluster = cluster
        self._among = among
        self._next: list[str] = []
        self._dead: dict[str, tuple[float, Callable[[], None]]] = {}

    def kill_one(self, run: Run, random: Random) -> str | None:
        """One is killed while others may still be dead."""
        if not self._next:
            self._next = random.sample(self._among, len(self._among))
        victim = self._next[-1]
        if not self._kill(victim, run, random):
            return None
        return self._next.pop()

    def _kill(self, victim: str, run: Run, random: Random) -> bool:
        match victim:
            case "Python":
                pythons = self._cluster.executor_pythons()
                return bool(pythons) and kill_all([random.choice(pythons)])
            case "executor":
                executors = self._cluster.executors()
                return bool(executors) and kill_all([random.choice(executors)])
            case "driver":
                processes = run.processes()
                jvm = [each for each in processes[1:] if name_of(each) == "java"]
                return kill_all([*processes[:1], *jvm])
            case "worker":
                number = random.randrange(self._cluster.workers)
                name = f"worker {number}"
                if name in self._dead:
                    return False
                self._cluster.kill_worker(number)
                self._bury(name, random, lambda: self._cluster.start_worker(number))
            case _:
                if victim in self._dead:
                    return False
                self._cluster.kill_master()
                self._bury(victim, random, self._cluster.start_master)
        return True

    def revive(self) -> None:
        for name, (when, start) in list(self._dead.items()):
            if time.monotonic() >= when:
                del self._dead[name]
                start()

    def _bury(self, name: str, random: Random, start: Callable[[], None]) -> None:
        self._dead[name] = (time.monotonic() + random.uniform(0, _LONGEST_DEATH), start)
