"""The transaction of the message that a handler works on, known to what the handler publishes."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from aioproducer.consumer.transactions import TransactionalWork
from aioproducer.errors import IllegalStateError


class Work:
    """The records of a message, and their transaction. ``broker``: the broker's producer."""

    def __init__(self, broker: object, producer: Any, records: TransactionalWork) -> None:
        self.broker = broker
        self.failed = False
        """True: the transaction is to be aborted."""
        self.open = True
        """False: the transaction has ended, or is about to end."""
        self.records = records
        self._producer = producer

    def producer(self) -> Any:
        """FastStream's producer, as long as the transaction is open."""
        if not self.open:
            raise IllegalStateError(
                "the transaction of this message has ended: publish before the handler returns, "
                "and leave the acknowledgement to FastStream"
            )
        return self._producer


_WORK: Final[ContextVar[Work | None]] = ContextVar("aioproducer_faststream_work", default=None)
"""What the current task works on, and the tasks that it starts."""


def begin_work(work: Work) -> None:
    """From now on the current task works on ``work``."""
    _WORK.set(work)


def work_of(broker: object) -> Work | None:
    """The work of the current task, if its messages come from this broker."""
    work = _WORK.get()
    return work if work is not None and work.broker is broker else None
