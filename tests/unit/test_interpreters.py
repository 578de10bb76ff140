"""Importing the package: without the GIL, and on a system that lacks POSIX."""

from __future__ import annotations

import subprocess
import sys
from typing import Final


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_an_interpreter_without_the_gil_is_refused() -> None:
    ended = run("import sys; sys._is_gil_enabled = lambda: False; import aioproducer")
    assert ended.returncode
    assert "ImportError: aioproducer needs the GIL, and this Python runs without it" in ended.stderr
    assert "PYTHON_GIL=1" in ended.stderr


def test_a_free_threaded_build_with_the_gil_is_accepted() -> None:
    ended = run("import sys; sys._is_gil_enabled = lambda: True; import aioproducer")
    assert (ended.returncode, ended.stderr) == (0, "")


LIKE_WINDOWS: Final = """
import asyncio, concurrent.futures, multiprocessing, os, signal, socket, ssl, subprocess, sys
import tempfile, uuid
for module in ("fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty", "uvloop"):
    sys.modules[module] = None
for owner, names in {
    os: "fork forkpty register_at_fork getuid geteuid memfd_create sched_getaffinity fchmod",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE alarm setitimer pthread_sigmask",
    socket: "TCP_INFO SO_REUSEPORT SO_PEERCRED",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)

import aioproducer, aioproducer.admin, aioproducer.cli.app, aioproducer.loops, aioproducer.reader
import aioproducer.observability.live, aioproducer.observability.log_handler
import aioproducer.schema_registry, aioproducer.serialization, aioproducer.sync
for name in aioproducer.__all__:
    getattr(aioproducer, name)


async def main():
    async with aioproducer.Producer(bootstrap_servers="localhost:1", max_block_ms=200) as producer:
        try:
            await producer.send("orders", b"one espresso")
        except aioproducer.BootstrapError:
            print("made")

aioproducer.loops.run(main())
"""
"""What Windows lacks is taken away, after the standard library has taken what it needs itself."""


def test_a_producer_needs_nothing_that_windows_lacks() -> None:
    ended = run(LIKE_WINDOWS)
    assert (ended.returncode, ended.stdout) == (0, "made\n"), ended.stderr
