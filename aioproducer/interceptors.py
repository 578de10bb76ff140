"""Hooks around a send. Whatever they raise is logged and never breaks it.

Source: Kafka's ``ProducerInterceptor`` and ``ProducerInterceptors`` (KIP-42).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from aioproducer.model import ProducerRecord, RecordMetadata

logger = logging.getLogger(__name__)


class ProducerInterceptor(Protocol):
    """Sees every record and every outcome. A class may have any of these methods, or all."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called by ``send()`` before serialization; what it returns is sent."""

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """The record's fate: ``metadata`` if it was delivered, else ``error``."""

    def close(self) -> None:
        """The producer is closed."""


class Interceptors:
    """A chain of interceptors, called in order."""

    def __init__(self, chain: Sequence[Any]) -> None:
        self._chain = tuple(chain)

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as the chain leaves it; one that fails is skipped."""
        for interceptor in self._chain:
            hook = getattr(interceptor, "on_send", None)
            if hook is None:
                continue
            try:
                changed = hook(record)
            except Exception:
                logger.exception("on_send of %r failed for topic %r", interceptor, record.topic)
                continue
            if isinstance(changed, ProducerRecord):
                record = changed
            else:
                logger.error("on_send of %r returned %r, no record", interceptor, type(changed))
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Tell the chain a record's fate."""
        for interceptor in self._chain:
            hook = getattr(interceptor, "on_acknowledgement", None)
            if hook is None:
                continue
            try:
                hook(metadata, error)
            except Exception:
                logger.exception("on_acknowledgement of %r failed", interceptor)

    def close(self) -> None:
        """Tell the chain that the producer is closed."""
        close_hooks(self._chain)


def close_hooks(hooks: Iterable[Any]) -> None:
    """Call ``close()`` of those that have it."""
    for hook in hooks:
        close = getattr(hook, "close", None)
        if close is None:
            continue
        try:
            close()
        except Exception:
            logger.exception("close of %r failed", hook)


class InterceptedFuture:
    """A record's future that tells the chain its fate first, even if its caller cancelled it."""

    __slots__ = ("_future", "_interceptors", "_told")

    def __init__(self, future: Any, interceptors: Interceptors) -> None:
        self._future = future
        self._interceptors = interceptors
        self._told = False

    def done(self) -> bool:
        """Whether the fate is known; a cancelled future still waits for it."""
        return self._told

    def cancelled(self) -> bool:
        """Whether the caller gave up."""
        return bool(self._future.cancelled())

    @property
    def caller(self) -> Any:
        """The future that ``send()`` returned."""
        return self._future

    def set_result(self, metadata: RecordMetadata) -> None:
        """The record is in the log."""
        self._told = True
        self._interceptors.on_acknowledgement(metadata, None)
        if not self._future.done():
            self._future.set_result(metadata)

    def set_exception(self, error: BaseException) -> None:
        """The record failed."""
        self._told = True
        self._interceptors.on_acknowledgement(None, error)
        if not self._future.done():
            self._future.set_exception(error)

    def exception(self) -> BaseException | None:
        """Look at the outcome, so that asyncio does not complain if nobody else does."""
        if self._future.cancelled():
            return None
        error: BaseException | None = self._future.exception()
        return error
