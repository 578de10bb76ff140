"""What is said about the machine, and how its neighbours are noticed."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks.machine import Machine, Neighbours, look_at_machine

BURNT = 0.3
BURN = [
    *(sys.executable, "-c"),
    f"import time\nwhile time.process_time() < {BURNT}: pass\nprint(flush=True); input()",
]


def test_cores_python_and_versions_are_known() -> None:
    machine = look_at_machine(["pytest", "no-such-distribution", "pytest"])
    assert machine.cores >= 1
    assert list(machine.versions) == ["pytest", "no-such-distribution"]
    assert machine.versions["no-such-distribution"] == "missing"
    assert "Python" in machine.describe()


def test_a_busy_machine_is_warned_of() -> None:
    def machine(load: float) -> Machine:
        return Machine(2, "processor", "Linux", "CPython", (load, 0.0, 0.0), {})

    assert machine(0.2).warning is None
    assert machine(1.9).warning == "the machine is busy: load 1.90 on 2 cores"


@pytest.fixture
def machine_seconds(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The CPU seconds of the whole machine, which stand still unless the test moves them."""
    seconds = SimpleNamespace(user=1_000.0, system=0.0)
    monkeypatch.setattr("psutil.cpu_times", lambda: seconds)
    return seconds


def test_what_own_children_use_is_not_the_neighbours(machine_seconds: SimpleNamespace) -> None:
    neighbours = Neighbours()
    with subprocess.Popen(BURN, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        machine_seconds.user += BURNT
        assert neighbours.cores_used() < 0.1
        running.communicate(b"\n")
    assert neighbours.cores_used() < 0.1


def test_what_nobody_of_us_used_is_the_neighbours(machine_seconds: SimpleNamespace) -> None:
    neighbours = Neighbours()
    machine_seconds.user += 3_600.0
    assert neighbours.cores_used() > 1.0
