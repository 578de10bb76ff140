"""The place of a consumer's tracing, which costs nothing while it is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Final

from aioproducer.consumer.workers import Handle, no_coroutine_function
from aioproducer.engine.observer import ConsumerTracing, default_of_consumers, observer_failed
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.model import AnyRecord, ConsumerRecord

logger = ModuleLogger(__name__)

_FAILED: Final = "%r failed for a record that was read"


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

    def process(
        self, records: AnyRecord | Iterable[AnyRecord], untraced: Any = None
    ) -> AbstractContextManager[Any]:
        """The block in which the application works on a record, or on several.

        ``untraced``: the value of the block while there is no tracing, or after an error of it.
        """
        tracing = self.tracing
        if tracing is None:
            return nullcontext(untraced)
        if isinstance(records, ConsumerRecord):
            return _Block(tracing, partial(tracing.record, records), untraced)
        return _Block(tracing, partial(tracing.batch, tuple(records)), untraced)

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


class _Block(AbstractContextManager[Any]):
    """The block of a tracing. Errors of the tracing are logged, and never reach the application."""

    __slots__ = ("_begin", "_block", "_tracing", "_untraced")

    def __init__(
        self,
        tracing: ConsumerTracing,
        begin: Callable[[], AbstractContextManager[Any]],
        untraced: Any,
    ) -> None:
        self._tracing = tracing
        self._begin = begin
        self._untraced = untraced
        self._block: AbstractContextManager[Any] | None = None

    def __enter__(self) -> Any:
        try:
            block = self._begin()
            value = block.__enter__()
        except Exception as error:
            observer_failed(error, _FAILED, self._tracing)
            return self._untraced
        self._block = block
        return value

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._block is None:
            return
        try:
            self._block.__exit__(exc_type, exc, traceback)
        except Exception as error:
            if error is not exc:
                observer_failed(error, _FAILED, self._tracing)
