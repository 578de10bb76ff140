"""Children end with their parent, however it ends; a broker that ends early says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aioproducer.testing.kafka_cluster.broker import INTERNAL_LISTENER, KafkaBroker
from aioproducer.testing.kafka_cluster.broker_processes import (
    BrokerProcesses,
    KafkaClusterError,
    Launch,
)
from aioproducer.testing.processes import ProcessSupervisor
from tests.support.waiting import wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

PARENT = """
import os, sys, time
from aioproducer.testing.processes import ProcessSupervisor

supervisor = ProcessSupervisor()
supervisor.remove_at_end(sys.argv[1])
children = [supervisor.start([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in "12"]
{before}
print(*[child.pid for child in children], supervisor._watchdog.pid, flush=True)
{after}
"""

ENDS = {
    "SIGKILL": "os.kill(os.getpid(), 9)",
    "SIGTERM": "os.kill(os.getpid(), 15)",
    "SIGINT": "os.kill(os.getpid(), 2)",
    "SIGKILL with a paused child": "os.kill(children[0].pid, 19); os.kill(os.getpid(), 9)",
    "exception": "raise ValueError('on purpose')",
    "sys.exit": "sys.exit(3)",
    "os._exit": "os._exit(4)",
}


def is_running(pid: int) -> bool:
    """False for a zombie too: reaping orphans is the business of process 1."""
    ps = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
    return ps.stdout.strip() not in ("", "Z")


def run_parent(directory: Path, before: str, after: str) -> tuple[subprocess.Popen[str], list[int]]:
    code = PARENT.format(before=before, after=after)
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    return parent, [int(pid) for pid in parent.stdout.readline().split()]


@pytest.mark.parametrize("end", ENDS)
def test_nothing_outlives_the_parent(tmp_path: Path, end: str) -> None:
    directory = tmp_path / "data"
    (directory / "logs").mkdir(parents=True)
    (directory / "logs" / "server.log").write_text("x")
    parent, pids = run_parent(directory, "", "sys.stdin.readline()\n" + ENDS[end])
    with parent:
        assert len(pids) == 3
        assert all(is_running(pid) for pid in pids)
        assert directory.exists()
        parent.communicate("go\n", timeout=10)
    wait_until(lambda: not any(is_running(pid) for pid in pids), timeout=10)
    wait_until(lambda: not directory.exists(), timeout=10)


def test_a_forked_copy_of_the_parent_does_not_hold_the_watchdog_back(tmp_path: Path) -> None:
    before = "forked = os.fork()\nif forked == 0: time.sleep(600)\nchildren[1].pid"
    parent, pids = run_parent(tmp_path, before, "print(forked, flush=True)\ntime.sleep(600)")
    with parent:
        assert parent.stdout is not None
        forked = int(parent.stdout.readline())
        try:
            parent.kill()
            wait_until(lambda: not any(is_running(pid) for pid in pids), timeout=10)
            assert is_running(forked)
        finally:
            os.kill(forked, signal.SIGKILL)


def test_a_forked_copy_cannot_end_the_children() -> None:
    with ProcessSupervisor() as supervisor:
        child = supervisor.start(SLEEP)
        forked = os.fork()
        if forked == 0:
            supervisor.close()
            os._exit(0)
        assert os.waitpid(forked, 0)[1] == 0
        assert child.poll() is None


def test_close_kills_the_children_and_removes_the_directories(tmp_path: Path) -> None:
    removed, kept = tmp_path / "removed", tmp_path / "kept"
    removed.mkdir()
    kept.mkdir()
    with ProcessSupervisor() as supervisor:
        supervisor.remove_at_end(removed)
        supervisor.remove_at_end(kept)
        supervisor.keep(kept)
        child = supervisor.start(SLEEP, stdout=subprocess.PIPE)
    assert child.returncode == -signal.SIGKILL
    assert not removed.exists()
    assert kept.exists()
    supervisor.close()
    with pytest.raises(RuntimeError, match="closed"):
        supervisor.start(SLEEP)


def test_stop_ends_a_paused_child_gracefully() -> None:
    with ProcessSupervisor() as supervisor:
        child = supervisor.start(SLEEP)
        os.kill(child.pid, signal.SIGSTOP)
        assert supervisor.stop(child) == -signal.SIGTERM
        assert supervisor.stop(child) == -signal.SIGTERM


def test_stop_kills_a_child_that_ignores_sigterm() -> None:
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    with ProcessSupervisor() as supervisor:
        child = supervisor.start([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        assert supervisor.stop(child, timeout=0.2) == -signal.SIGKILL


def test_a_program_that_does_not_exist_is_an_error_and_leaves_the_supervisor_usable() -> None:
    with ProcessSupervisor() as supervisor:
        with pytest.raises(FileNotFoundError):
            supervisor.start(["/no/such/program"])
        assert supervisor.kill(supervisor.start(SLEEP)) == -signal.SIGKILL


def test_brokers_that_end_before_anybody_looks_at_them_say_why(tmp_path: Path) -> None:
    """As with options that the JVM does not know: it takes some milliseconds to refuse them."""
    broker = KafkaBroker(1, "127.0.0.1", {INTERNAL_LISTENER: 1}, 1, tmp_path)
    broker.log_file.write_text("Unrecognized VM option 'UseNothing'\n")
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    ended.wait()
    broker.run(ended, 0)
    cluster = BrokerProcesses([broker], tmp_path, True, {}, {}, Launch())
    with pytest.raises(KafkaClusterError, match=r"broker 1 ended .* exit code 3") as caught:
        cluster._wait_until_members([broker])
    assert "Unrecognized VM option 'UseNothing'" in str(caught.value)
