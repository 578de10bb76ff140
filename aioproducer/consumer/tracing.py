"""The place of a consumer's tracing, which costs nothing while it is empty."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from aioproducer.consumer.workers import Handle, no_coroutine_function
from aioproducer.engine.observer import ConsumerTracing, default_of_consumers
from aioproducer.foundation.logs import RoomLogger
from aioproducer.model import AnyRecord, ConsumerRecord

logger = RoomLogger(__name__)


class TracingSlot:
    """The place of the tracing of one consumer, and the consumer as its tracing sees it."""

    __slots__ = ("__weakref__", "client_id", "group_id", "tracing")

    def __init__(self, client_id: str, group_id: str) -> None:
        self.client_id = client_id
        self.group_id = group_id
        self.tracing: ConsumerTracing | None = None

    def ask_default(self) -> None:
        """Take the tracing that all consumers get, unless this one has its own."""
        factory = default_of_consumers()
        if factory is None or self.tracing is not None:
            return
        try:
            self.tracing = factory(self)
        except Exception as error:
            logger.error("%s is not traced: %r failed", self.client_id, factory, exc_info=error)

    def process(self, records: AnyRecord | Iterable[AnyRecord]) -> AbstractContextManager[Any]:
        """The block in which the application works on a record, or on several."""
        tracing = self.tracing
        if tracing is None:
            return nullcontext()
        if isinstance(records, ConsumerRecord):
            return tracing.record(records)
        return tracing.batch(tuple(records))

    def traced(self, handle: Handle) -> Handle:
        """``handle``, traced if there is any tracing now. The tracing may end meanwhile."""
        if self.tracing is None:
            return handle

        async def handle_traced(record: AnyRecord) -> None:
            with self.process(record):
                work = handle(record)
                if work is None:
                    raise no_coroutine_function(handle)
                await work

        return handle_traced
