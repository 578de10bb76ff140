"""Keeps one client at work: kills it, or starts its successor beside it."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Final

from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.chaos.transactions.application import FENCED
from benchmarks.chaos.transactions.journal import Told, has
from benchmarks.chaos.transactions.plan import Replacement, Replacements

_ROOT: Final = Path(__file__).parents[3]
_BETWEEN_LOOKS: Final = 0.05
_AT_WORK_WITHIN: Final = 60.0
_FENCED_WITHIN: Final = 60.0
_LINES_OF_LOG: Final = 20


class ClientError(Exception):
    """A client ended in a way that none should; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Client:
    """A process, and its files."""

    process: Popen[bytes]
    journal: Path
    log: Path

    @property
    def name(self) -> str:
        return self.journal.stem

    def complain(self, what: str) -> ClientError:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_LINES_OF_LOG:]
        return ClientError("\n".join([f"{self.name}: {what}; the end of its log:", *lines]))


class Replacer:
    """Runs clients one after the other, and some at the same time, until one has done it all."""

    def __init__(
        self,
        supervisor: ProcessSupervisor,
        directory: Path,
        arguments: list[str],
        plan: Iterator[Replacement],
    ) -> None:
        self._supervisor = supervisor
        self._directory = directory
        self._arguments = arguments
        self._plan = plan
        self.clients: list[Client] = []
        self._zombies: list[Client] = []
        self._stopped = False
        self.counts: Counter[Replacements] = Counter()
        self.fenced = 0
        """Zombies that were told so."""
        self.done_before = 0
        """Zombies that had committed the last transaction before their successor came."""
        self.fenced_late = 0
        """Clients that were fenced by an earlier one, for the last to ask for an epoch is the
        newest: that one was replaced before it had asked, or its question lay in a connection to a
        broker that stood still, and nobody can take it back."""

    async def run(self) -> None:
        """Raises ClientError where a client or a zombie ends otherwise than it should."""
        async with asyncio.TaskGroup() as group:
            current = self._start()
            for replacement in self._plan:
                while (exit_code := await self._exit_code(current, replacement)) == FENCED:
                    self.fenced_late += 1
                    current = self._start()
                if exit_code is not None:
                    break
                self.counts[replacement.kind] += 1
                if replacement.kind is Replacements.KILL:
                    self._supervisor.kill(current.process)
                else:
                    self._zombies.append(current)
                predecessor, current = current, self._start()
                if replacement.kind is Replacements.PAUSE:
                    predecessor.process.send_signal(signal.SIGSTOP)
                    group.create_task(self._resume(predecessor, current, replacement.lasts))
        for zombie in self._zombies:
            await self._expect_fenced(zombie)

    def _start(self) -> Client:
        number = len(self.clients)
        journal = self._directory / f"client-{number:03}.journal"
        log = journal.with_suffix(".log")
        command = [sys.executable, "-m", "benchmarks.chaos.transactions.application"]
        command += [*self._arguments, "--client", str(number), "--journal", str(journal)]
        with log.open("wb") as output:
            process = self._supervisor.start(command, stdout=output, stderr=output, cwd=_ROOT)
        client = Client(process, journal, log)
        self.clients.append(client)
        return client

    def stop(self) -> None:
        """Replace nobody more; the client that is there now does the rest."""
        self._stopped = True

    async def _exit_code(self, client: Client, replacement: Replacement) -> int | None:
        """Let it work for a while, which may end before it begins; None: it still works."""
        if replacement.calm > 1.0:
            await self._at_work(client)
        deadline = time.monotonic() + replacement.calm
        while self._stopped or time.monotonic() < deadline:
            if (exit_code := client.process.poll()) is not None:
                if exit_code not in (0, FENCED):
                    raise client.complain(f"exit status {exit_code}")
                return exit_code
            await asyncio.sleep(_BETWEEN_LOOKS)
        return None

    async def _at_work(self, client: Client) -> None:
        deadline = time.monotonic() + _AT_WORK_WITHIN
        while client.process.poll() is None and not has(client.journal, Told.AT_WORK):
            if time.monotonic() > deadline:
                raise client.complain(f"not at work within {_AT_WORK_WITHIN:g} s")
            await asyncio.sleep(_BETWEEN_LOOKS)

    async def _resume(self, zombie: Client, successor: Client, after: float) -> None:
        await asyncio.sleep(after)
        deadline = time.monotonic() + _AT_WORK_WITHIN
        while not has(successor.journal, Told.AT_WORK) and successor.process.poll() is None:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(_BETWEEN_LOOKS)
        zombie.process.send_signal(signal.SIGCONT)

    async def _expect_fenced(self, zombie: Client) -> None:
        deadline = time.monotonic() + _FENCED_WITHIN
        while (exit_code := zombie.process.poll()) is None:
            if time.monotonic() > deadline:
                raise zombie.complain(f"a zombie, and not fenced within {_FENCED_WITHIN:g} s")
            await asyncio.sleep(_BETWEEN_LOOKS)
        if exit_code == FENCED:
            self.fenced += 1
        elif exit_code == 0:
            self.done_before += 1
        else:
            raise zombie.complain(f"a zombie with exit status {exit_code}")
