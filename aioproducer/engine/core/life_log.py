"""The log lines about a producer's life: its start, its end, its death."""

from __future__ import annotations

from collections.abc import Callable

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import TopicOutcomes
from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.foundation import logs
from aioproducer.foundation.logs import counted, duration
from aioproducer.foundation.version import __version__

logger = logs.RoomLogger(__name__)


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

            if not is_compiled():
                self._warn_uncompiled()
            if config.client_rack and not config.partitioner_rack_aware:
                logger.warning(
                    "client_rack has no effect on a producer: partitioner_rack_aware is not set"
                )

    @staticmethod
    def _warn_uncompiled() -> None:
        from aioproducer.engine.core.uncompiled import new_warning

        warning = new_warning()
        if warning is not None:
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
