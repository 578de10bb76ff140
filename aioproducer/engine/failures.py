"""The hook for failed records, and the handlers that it stands for.

``on_failed`` is a function that takes a :class:`FailedRecord`, or a description that makes a
handler for each producer. :class:`~aioproducer.failed_records.DeadLetterTopic` and
:class:`~aioproducer.failed_records.DeadLetterFile` are such descriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, Protocol

from aioproducer.config import ProducerConfig
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import RoomLogger, counted
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import is_being_cancelled
from aioproducer.model import FailedRecord

logger = RoomLogger(__name__)


class FailedRecordHandler(Protocol):
    """Takes the failed records of one producer, on its event loop.

    A handler may also have a method ``hurry(timeout)``. The producer calls it when it closes in
    ``timeout`` seconds, during a call of :meth:`handle` or between two; a later call has less time.
    """

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Handle ``records``, in the order in which they failed.

        The next call comes when this one has returned. An error is logged and does not stop later
        calls. When the producer closes, a call that takes too long is cancelled.
        """

    async def close(self) -> None:
        """The producer is closed."""


class FailureFunction:
    """The handler that calls a function, plain or async, with one record after another.

    ``timeout``: seconds after which an async call is cancelled.
    """

    def __init__(self, function: Callable[[FailedRecord], object], timeout: float) -> None:
        self._function = function
        self._timeout = timeout

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Call the function with each of ``records``; its errors are logged."""
        for number, record in enumerate(records, 1):
            try:
                result = self._function(record)
                if isawaitable(result):
                    async with PatientTimeout(self._timeout):
                        await result
            except (Exception, asyncio.CancelledError) as error:
                if is_being_cancelled():
                    raise
                tell_not_handled(self._function, error, record.topic, 1)
            if not number % tuning.FAILURES_PER_TURN:
                await asyncio.sleep(0)

    async def close(self) -> None:
        """Do nothing: the function belongs to the application."""


def handler_of(hook: Any, config: ProducerConfig) -> FailedRecordHandler:
    """The handler that ``hook``, the value of ``on_failed``, means for a producer of ``config``.

    Raises the errors of a description: ConfigError, if it can't serve such a producer.
    """
    make = getattr(hook, "handler_for", None)
    if make is None:
        return FailureFunction(hook, config.delivery_timeout_ms / 1000)
    handler: FailedRecordHandler = make(config)
    return handler


def hurry_up(handler: FailedRecordHandler, timeout: float) -> None:
    """Tell ``handler`` that the producer ends in ``timeout`` seconds, if it has ``hurry()``."""
    hurry = getattr(handler, "hurry", None)
    if hurry is not None:
        hurry(timeout)


def tell_not_handled(hook: object, error: BaseException, topic: str, records: int) -> None:
    """Write a line about ``records`` that ``hook`` was given, and did not handle."""
    logger.repeated(
        logging.ERROR,
        ("not handled", type(hook), type(error)),
        "%r failed for %s of topic %s",
        hook,
        counted(records, "failed record"),
        topic,
        exc_info=error,
        records=records,
        topic=topic,
        error=error,
    )
