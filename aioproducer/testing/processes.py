"""Child processes that never outlive their parent.

A `ProcessSupervisor` starts one small watchdog (this file, run as a script) which leads a process
group of its own and reads a pipe whose only writer is the parent. Children join that group. When
the parent ends in any way, SIGKILL included, the pipe ends, and the watchdog kills the group and
removes the registered directories. No signal of the parent's death is needed (PR_SET_PDEATHSIG
fires when the creating *thread* ends, and is Linux only), nor /proc.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

__all__ = ["ProcessSupervisor"]

_READY = b"ready\n"


class ProcessSupervisor:
    """Starts child processes; none is left when this process ends, however it ends.

    Every method blocks and may be called from any thread. Use it as a context manager, or call
    `close()`. In a forked copy of this process it is closed and owns nothing.
    """

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            process_group=0,
        )
        _supervisors.add(self)
        if self._watchdog_pipe(self._watchdog.stdout).read(len(_READY)) != _READY:
            self.close()
            raise RuntimeError(
                f"the watchdog did not start (exit code {self._watchdog.returncode})"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a child; pipes are unbuffered. Raises OSError as `subprocess.Popen` does."""
        if self._closed:
            raise RuntimeError("the process supervisor is closed")
        # Between fork and exec the child holds a copy of the watchdog's pipe, and it joins the
        # group before exec closes the copy: a parent killed at any moment leaves no child outside.
        child = subprocess.Popen(
            args,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=cwd,
            bufsize=0,
            process_group=self._watchdog.pid,
        )
        self._children.append(child)
        return child

    def stop(self, child: subprocess.Popen[bytes], timeout: float = 10.0) -> int:
        """End a child by SIGTERM, after `timeout` seconds by SIGKILL; returns its exit code."""
        child.send_signal(signal.SIGTERM)
        child.send_signal(signal.SIGCONT)  # a stopped process acts on SIGTERM only when it runs
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
        return self._forget(child)

    def kill(self, child: subprocess.Popen[bytes]) -> int:
        """End a child by SIGKILL; returns its exit code."""
        child.kill()
        return self._forget(child)

    def remove_at_end(self, directory: str | os.PathLike[str]) -> None:
        """Have the directory removed when this process ends, or at `close()`."""
        self._tell(b"+", directory)

    def keep(self, directory: str | os.PathLike[str]) -> None:
        """Take `remove_at_end` back."""
        self._tell(b"-", directory)

    def close(self) -> None:
        """Kill the children still running, remove the directories. Can be called twice."""
        if self._closed:
            return
        self._closed = True
        for child in list(self._children):
            self.kill(child)
        self._watchdog_pipe(self._watchdog.stdin).close()
        self._watchdog.wait()  # before the read: as a zombie it would still be in the group
        with self._watchdog_pipe(self._watchdog.stdout) as stdout:
            stdout.read()  # ends when the cleaning is done

    def _forget(self, child: subprocess.Popen[bytes]) -> int:
        exit_code = child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(ValueError):
            self._children.remove(child)
        return exit_code

    def _tell(self, sign: bytes, directory: str | os.PathLike[str]) -> None:
        path = os.fsencode(Path(directory).absolute())
        self._watchdog_pipe(self._watchdog.stdin).write(sign + path + b"\0")

    def _disown(self) -> None:
        self._closed = True
        self._children.clear()
        self._watchdog_pipe(self._watchdog.stdin).close()

    @staticmethod
    def _watchdog_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise RuntimeError("the watchdog has no pipe")
        return pipe


_supervisors: weakref.WeakSet[ProcessSupervisor] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for supervisor in list(_supervisors):
        supervisor._disown()


def _watch() -> None:
    """The watchdog: wait for the end of the pipe, then clean up."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    words = sys.stdin.buffer.read().split(b"\0")
    group = os.getpid()
    # Killing the group kills the watchdog too: a forked copy, outside of the group, does it.
    if os.fork() == 0:
        os.setpgid(0, 0)
        _clean_up(group, _directories(words))
    else:
        signal.pause()


def _directories(words: list[bytes]) -> list[bytes]:
    directories: dict[bytes, None] = {}
    for word in words:
        sign, path = word[:1], word[1:]
        if sign == b"+":
            directories[path] = None
        elif sign == b"-":
            directories.pop(path, None)
    return list(directories)


def _clean_up(group: int, directories: list[bytes]) -> None:
    for _ in range(200):  # 5 s: an unreaped zombie still counts as a member on Linux
        gone = _kill_group(group)
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)
        if gone:
            break
        time.sleep(0.025)


def _kill_group(group: int) -> bool:
    """True when no process was left to kill."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        return True
    return False


if __name__ == "__main__":
    _watch()
elif hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork_in_child)
