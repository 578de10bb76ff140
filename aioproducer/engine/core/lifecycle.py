"""The states of a producer, the error of a call in a wrong one, and the log lines about them.

A call is also refused on another event loop, and in another process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from os import path
from typing import TYPE_CHECKING, Any, NoReturn

from aioproducer.config import ProducerConfig
from aioproducer.config.cross_checks import unused_rack
from aioproducer.engine.accumulator import TopicOutcomes
from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.errors import (
    IllegalStateError,
    ProducerBrokenError,
    ProducerClosedError,
    WrongLoopError,
)
from aioproducer.errors.client import anew
from aioproducer.foundation import compiled, logs
from aioproducer.foundation.logs import counted, duration
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.foundation.version import __version__

if TYPE_CHECKING:
    from pathlib import Path


class Lifecycle:
    """Not started, started, closing, closed or broken; on one event loop of one process.

    The class only holds the state: :class:`Engine` starts and ends the parts, and its ``close()``
    and ``flush()`` do the waiting.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._process: int | None = None
        self._started = False
        self._closed = False
        self._closing: asyncio.Task[int] | None = None
        self._broken: ProducerBrokenError | None = None
        self.loop: asyncio.AbstractEventLoop
        """The event loop on which it was started."""

    @property
    def closed(self) -> bool:
        """True once the producer takes no more records."""
        return self._closed

    @property
    def closing(self) -> asyncio.Task[int] | None:
        """The task that closes the producer; None: nobody has closed it."""
        return self._closing

    @property
    def broken(self) -> ProducerBrokenError | None:
        """The error of all calls, once a part of the producer has died."""
        return self._broken

    @property
    def forked(self) -> bool:
        """True in a fork of the process that has started the producer."""
        return self._process is not None and os.getpid() != self._process

    def __str__(self) -> str:
        if self._broken is not None:
            return "broken"
        if self._closed:
            return "closed" if self._closing is None or self._closing.done() else "closing"
        return "started" if self._started else "not started"

    def start(self) -> None:
        """Note the present loop and process. Raises :class:`IllegalStateError` the second time."""
        if self._started or self._closed:
            raise IllegalStateError(
                f"the producer {self._client_id!r} is {self}; it can be started once. "
                "Make a new Producer"
            )
        self._started = True
        self._process = os.getpid()
        self.loop = asyncio.get_running_loop()

    def start_failed(self) -> None:
        """Close a producer that was not started: it can't be started later."""
        self._started = False
        self._closed = True

    def close_unstarted(self) -> None:
        """Close a producer that has no parts yet."""
        self._closed = True

    def begin_closing(self, closing: Coroutine[Any, Any, int]) -> None:
        """Take no more records, and run ``closing`` as a task of the producer's loop."""
        self._closed = True
        self._closing = new_task(closing, "aioproducer-close")

    def break_with(self, error: ProducerBrokenError) -> None:
        """Refuse all calls with ``error``: a part of the producer has died."""
        self._broken = error

    def check_same_place(self) -> None:
        """Raise :class:`WrongLoopError` on another event loop, or in another process."""
        self.check_process()
        if asyncio.get_running_loop() is not self.loop:
            raise self._other_loop()

    def refuse(self) -> NoReturn:
        """Raise the reason if the producer can't be used here and now."""
        self.check_process()
        if self._broken is not None:
            raise anew(self._broken)
        if self._closed:
            raise ProducerClosedError(
                f"the producer {self._client_id!r} is {self}; make a new Producer"
            )
        if not self._started:
            raise IllegalStateError(
                f"the producer {self._client_id!r} was not started: use `async with Producer(...)` "
                "or `await producer.start()`"
            )
        raise self._other_loop()

    def check_process(self) -> None:
        """Raise :class:`WrongLoopError` in a fork of the producer's process."""
        if self.forked:
            raise self.other_process()

    def other_process(self) -> WrongLoopError:
        """The error of all calls in a fork of the producer's process."""
        return WrongLoopError(
            f"the producer {self._client_id!r} was made in another process (before a fork); "
            "make a new one in each process, after the fork: in gunicorn's post_worker_init, or in "
            "Celery's worker_process_init"
        )

    def _other_loop(self) -> WrongLoopError:
        return WrongLoopError(
            f"the producer {self._client_id!r} belongs to the event loop it was started on, and "
            "was used from another loop or thread; make one there, or use aioproducer.sync.Producer"
        )


_warned = False
"""True once the process has warned that it runs without the compiled modules."""


def uncompiled_warning() -> str | None:
    """The text for a process that runs the source in place of the compiled modules.

    None: this process has logged it, or the environment chooses the source.
    """
    global _warned
    if _warned or compiled.is_source_wanted():
        return None
    _warned = True
    return (
        "aioproducer runs without its compiled modules, so a record costs several times as much "
        f"CPU. It was imported from {_package()}; {_advice()}. AIOPRODUCER_PURE_PYTHON=1 in "
        "the environment chooses this, and ends the warning"
    )


def _advice() -> str:
    other = _other_copy()
    if other is not None:
        return (
            f"another copy is installed in {other}: "
            "programs started outside of this folder import it"
        )
    if compiled.is_checkout():
        return "it is a source folder, which pip install -e compiles if there is a C compiler"
    return "install a wheel, or have a C compiler when you install it"


def _other_copy() -> Path | None:
    """The package of an installation that is not the one that runs."""
    from importlib.metadata import distributions
    from pathlib import Path

    here = Path(_package()).resolve()
    for each in distributions(name="aioproducer"):
        found = Path(str(each.locate_file(here.name))).resolve()
        if (found / "__init__.py").exists() and found != here:
            return found
    return None


def _package() -> str:
    return path.dirname(path.dirname(path.dirname(__file__)))


logger = logs.ModuleLogger(__name__)


class LifeLog:
    """Writes the lines of one producer. ``clock``: seconds."""

    def __init__(self, client_id: str, clock: Callable[[], float]) -> None:
        self.lines = logs.ClientLog(client_id, clock)
        """The log that the producer's tasks enter."""

    def started(self, config: ProducerConfig) -> None:
        """The parts run."""
        brokers = ", ".join(f"{host}:{port}" for host, port in config.bootstrap_servers)
        with logs.entered(self.lines):
            logger.info(
                "Started: aioproducer %s (%s), bootstrap servers %s, %s, acks=%s",
                __version__,
                "compiled" if is_compiled() else "not compiled",
                brokers,
                config.security_protocol,
                config.acks,
                version=__version__,
                compiled=is_compiled(),
                bootstrap_servers=brokers,
                transactional_id=config.transactional_id,
            )

            if not is_compiled() and (warning := uncompiled_warning()) is not None:
                logger.warning("%s", warning)
            if (warning := unused_rack(config)) is not None:
                logger.warning("%s", warning)

    def closed(self, outcomes: TopicOutcomes, undelivered: int) -> None:
        """All parts have ended; ``undelivered`` records were given up."""
        with logs.entered(self.lines):
            logs.tell_due(all_of_them=True)
            if undelivered:
                logger.error(
                    "The producer was closed with %s undelivered",
                    counted(undelivered, "record"),
                    records=undelivered,
                )
            logger.info(
                "Closed: %s delivered, %d failed",
                counted(outcomes.delivered_records, "record"),
                outcomes.failed_records,
                delivered=outcomes.delivered_records,
                failed=outcomes.failed_records,
            )

    def unclosed(self, seconds: float) -> None:
        """The event loop ends, and nobody has closed the producer."""
        with logs.entered(self.lines):
            logger.warning(
                "The producer was not closed before its event loop ended: delivering for up to %s. "
                "Use `async with Producer(...)`, or `await producer.close()`",
                duration(seconds),
            )

    def broken(self, error: BaseException, cause: BaseException) -> None:
        """A part has died of ``cause``."""
        with logs.entered(self.lines):
            logger.error("%s", error, exc_info=cause, error=error)

    def no_observer(self, factory: object, error: Exception) -> None:
        """The ``factory`` of observers has failed."""
        with logs.entered(self.lines):
            logger.error("%r made no observer", factory, exc_info=error, error=error)
