"""A dead letter file: the hook that appends failed records to it, and the function that reads
it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aioproducer.config import ProducerConfig
from aioproducer.config.failure_hook import FailureHookOption
from aioproducer.engine.failures import FailedRecordHandler, handler_of
from aioproducer.failed_records.dead_letter import (
    DeadLetter,
    NotDeadLetterError,
    Uncertain,
    check_uncertain,
    hand_on,
    to_keep,
)
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.runtime.threads import DaemonThreads
from aioproducer.model import FailedRecord

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

logger = RoomLogger(__name__)

_MODE: Final = 0o600


class DeadLetterFile:
    """Appends failed records to the file at ``path``. Pass it as ``on_failed``.

    ::

        Producer(bootstrap_servers=..., on_failed=DeadLetterFile("failed.jsonl"))

    Each record is a line of JSON; :func:`read_dead_letters` reads them back. A thread writes the
    lines, up to 500 at a time. Several producers and processes can write to the same file, and you
    can rename the file at any time (on Windows only one process can write). Only the file's owner
    can read it.

    Args:
        path: the file, in an existing directory; or a device; or a pipe with a reader.
        uncertain: ``keep`` the records that may be in their topic, or ``skip`` them.
        fsync: wait after each write until it is on disk. Without it, records can be lost if the
            machine fails, but not if only the process fails.
        fallback: the hook for records that can't be written. None: a log line reports their number.

    Raises:
        ConfigError: ``uncertain`` has another value.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        uncertain: Uncertain = "keep",
        fsync: bool = True,
        fallback: FailureHookOption | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self._uncertain = check_uncertain(uncertain)
        self._fsync = fsync
        self._fallback = fallback

    def __repr__(self) -> str:
        return f"DeadLetterFile({self.path!r})"

    def handler_for(self, config: ProducerConfig) -> FailedRecordHandler:
        """The handler for a producer of ``config``."""
        fallback = None if self._fallback is None else handler_of(self._fallback, config)
        return _DeadLetterWriter(self, self._uncertain, self._fsync, fallback)


class _DeadLetterWriter:
    """Writes the failed records of one producer."""

    def __init__(
        self,
        target: DeadLetterFile,
        uncertain: Uncertain,
        fsync: bool,
        fallback: FailedRecordHandler | None,
    ) -> None:
        self._target = target
        self._uncertain = uncertain
        self._fsync = fsync
        self._fallback = fallback
        self._threads = DaemonThreads("aioproducer-dead-letters", 1)

    def __repr__(self) -> str:
        return repr(self._target)

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Write ``records`` together; the fallback gets them if that fails."""
        records = to_keep(records, self._uncertain)
        if not records:
            return
        try:
            await self._threads.run(partial(self._write, records))
        except OSError as error:
            await hand_on(records, error, self, self._fallback)

    def _write(self, records: Sequence[FailedRecord]) -> None:
        lines = b"".join(DeadLetter.of(record).line() for record in records)
        append_lines(self._target.path, lines, fsync=self._fsync)

    async def close(self) -> None:
        """End the thread, and close the fallback."""
        self._threads.shutdown()
        if self._fallback is not None:
            await self._fallback.close()


def append_lines(path: str, lines: bytes, *, fsync: bool) -> None:
    """Append ``lines`` to a file, whole or not at all; or write them to a pipe or device.

    A line without its end, which a crash has left in a file, is ended first. ``fsync`` only
    concerns files. Raises OSError: nothing was appended, or a pipe or device has got a part.
    """
    is_new = not os.path.exists(path)
    file = _opened(path)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # the end of the file ends the lock
        if stat.S_ISREG(os.fstat(file).st_mode):
            _append_whole(file, lines, fsync=fsync)
        else:
            _write_all(file, lines)
    finally:
        os.close(file)
    if is_new and fsync:
        _sync_directory(os.path.dirname(path) or ".")


def _opened(path: str) -> int:
    flags = getattr(os, "O_CLOEXEC", 0)
    if not os.path.exists(path) or os.path.isfile(path):
        return os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_APPEND, _MODE)
    # A pipe that is also open for reading would take bytes that nobody reads.
    file = os.open(path, flags | os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(file, True)
    return file


def _append_whole(file: int, lines: bytes, *, fsync: bool) -> None:
    size = os.fstat(file).st_size
    try:
        _write_all(file, lines if _ends_a_line(file, size) else b"\n" + lines)
        if fsync:
            os.fsync(file)
    except OSError:
        with suppress(OSError):  # the next write ends the line that stays
            os.ftruncate(file, size)
        raise


def _ends_a_line(file: int, size: int) -> bool:
    if not size:
        return True
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) == b"\n"


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_directory(path: str) -> None:
    """Make a new file's name survive a failure of the machine, where the system can do so."""
    if os.name == "nt":
        return
    try:
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:  # the lines are written all the same
        logger.warning("%s: a new file there may be lost if the machine fails: %s", path, error)


def read_dead_letters(path: str | os.PathLike[str]) -> Iterator[DeadLetter]:
    """Return the dead letters in the file at ``path``, in order.

    A line that a crash has truncated is skipped and logged. Raises OSError if the file can't be
    read.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                letter = DeadLetter.of_line(line)
            except NotDeadLetterError as error:
                logger.warning("%s: line %d is skipped: %s", os.fspath(path), number, error)
            else:
                yield letter
