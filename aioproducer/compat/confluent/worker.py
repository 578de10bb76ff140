"""The thread of a producer: its event loop, as that of the blocking producer."""

from __future__ import annotations

import asyncio

from aioproducer.compat.confluent.describe import describe
from aioproducer.compat.confluent.intake import Intake, RecordPump
from aioproducer.compat.confluent.log_lines import LogLines
from aioproducer.compat.confluent.options import Settings
from aioproducer.compat.confluent.records import Outbox
from aioproducer.compat.confluent.watch import start
from aioproducer.engine.client.describe_request import ClusterDescription
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import counted, plain_logger
from aioproducer.foundation.runtime.tasks import new_visible_task
from aioproducer.sync.loop_thread import LoopThread

__all__ = ["Worker"]

logger = plain_logger("aioproducer.compat.confluent")


class Worker(LoopThread):
    """Runs the event loop of one producer; it knows no :class:`Producer`, so that one can be
    collected."""

    def __init__(self, settings: Settings, outbox: Outbox) -> None:
        self.core = ProducerCore(settings.config, None)
        self.intake = Intake(outbox)
        self.pump = RecordPump(self.core, self.intake, settings, outbox)
        self._outbox = outbox
        self._settings = settings
        self._lines: LogLines | None = None
        if settings.logger is not None:
            self._lines = LogLines(settings.logger, outbox, self.core.client_id)
        super().__init__(self.core, self.intake, self.pump)

    def start(self, *, close_at_exit: bool) -> None:
        """Start the thread, and let ``produce()`` take records."""
        if self._lines is not None:
            self._lines.begin()
        super().start(close_at_exit=close_at_exit)
        self._outbox.takes_records = self.writer.is_open

    def _end(self, error: ProducerError, undelivered: int) -> None:
        super()._end(error, undelivered)
        if self._lines is not None:
            self._lines.close()
        self._outbox.publish()

    def purge(self, *, in_queue: bool, in_flight: bool, waits: bool) -> None:
        """Give up records that wait, or those on their way."""

        async def purge() -> None:
            await self.catch_up()
            self.pump.purge(in_queue=in_queue, in_flight=in_flight)

        if waits:
            self.ask(purge)
        else:
            self._check(waits=False)
            self.call_soon(lambda: new_visible_task(purge(), "confluent-purge"))

    def _shut(self) -> None:
        super()._shut()
        self._outbox.takes_records = False

    def _close_at_exit(self) -> None:
        if self.forked:
            return
        if left := len(self._outbox):
            logger.warning(
                "%s: the process ends with %s without an outcome; call flush() first",
                self.core.client_id,
                counted(left, "record"),
            )
        self.close(0)

    async def _serve(self) -> None:
        self._outbox.soon = asyncio.get_running_loop().call_soon
        await super()._serve()

    async def _start_core(self) -> None:
        await start(self.core, self._settings, self._outbox)

    def describe(
        self, topic: str | None, timeout: float | None, *, offline: bool
    ) -> ClusterDescription:
        """The cluster with one topic, or with all: see :func:`describe`."""
        return self.ask(lambda: describe(self.core.engine.queries, topic, timeout, offline=offline))
