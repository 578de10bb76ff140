"""Hooks around a send. Errors of a hook are logged and never break the send.

Source: Kafka's ``ProducerInterceptor`` and ``ProducerInterceptors`` (KIP-42, KIP-512).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from functools import partial
from inspect import signature
from typing import Any, Protocol

from aioproducer.engine.observer import ObservedFuture
from aioproducer.errors import SerializationError
from aioproducer.foundation.logs import ClientLog, ModuleLogger
from aioproducer.model import Header, ProducerRecord, RecordMetadata
from aioproducer.serialization.serializer import checked_headers

logger = ModuleLogger(__name__)


class ProducerInterceptor(Protocol):
    """Sees every record and every outcome. Implement any of these methods."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send. ``send()`` calls this before serialization, in its thread."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Receive the record's outcome: the record was delivered if ``error`` is None.

        With an error, ``metadata`` contains the record's topic and partition (-1 if none was chosen
        yet), and -1 in all other fields. A method with a parameter named ``headers`` also gets the
        record's headers, as pairs (KIP-512):
        ``def on_acknowledgement(self, metadata, error, headers)``.
        """

    def close(self) -> None:
        """Called when the producer is closed."""


class Interceptors:
    """A chain of interceptors, called in order. ``log``: of the lines about their errors."""

    def __init__(self, chain: Sequence[Any], log: ClientLog | None = None) -> None:
        self._chain = tuple(chain)
        self._log = log
        self._wants_headers = tuple(map(_wants_headers, self._chain))

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record after all interceptors; an interceptor that fails is skipped."""
        for interceptor in self._chain:
            hook = getattr(interceptor, "on_send", None)
            if hook is None:
                continue
            try:
                changed = hook(record)
            except Exception as error:
                self._tell("on_send", interceptor, error, record.topic)
                continue
            if isinstance(changed, ProducerRecord):
                record = changed
            else:
                logger.repeated(
                    logging.ERROR,
                    ("no record", type(interceptor)),
                    "on_send of %r returned %r, no record",
                    interceptor,
                    type(changed),
                    log=self._log,
                )
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        """Call the interceptors with a record's outcome; ``headers``: see :meth:`headers_of`."""
        for interceptor, wants_headers in zip(self._chain, self._wants_headers, strict=True):
            hook = getattr(interceptor, "on_acknowledgement", None)
            if hook is None:
                continue
            try:
                if wants_headers:
                    hook(metadata, error, headers=headers)
                else:
                    hook(metadata, error)
            except Exception as raised:
                self._tell("on_acknowledgement", interceptor, raised, metadata.topic)

    def _tell(self, hook: str, interceptor: Any, error: Exception, topic: str) -> None:
        logger.repeated(
            logging.ERROR,
            (hook, type(interceptor), type(error)),
            "%s of %r failed for topic %r",
            hook,
            interceptor,
            topic,
            exc_info=error,
            log=self._log,
            topic=topic,
            error=error,
        )

    def headers_of(self, record: ProducerRecord) -> tuple[Header, ...]:
        """The headers of ``record`` as they are now, for :meth:`follow`; none if nobody wants them.

        If they are invalid there are none as well.
        """
        if record.headers is None or not any(self._wants_headers):
            return ()
        try:
            return checked_headers(record.headers, record.topic)
        except SerializationError:
            return ()

    def follow(
        self, future: Any, record: ProducerRecord, headers: Sequence[Header] = ()
    ) -> ObservedFuture:
        """The future of ``record``, which gives its outcome to the interceptors first.

        ``headers``: those of :meth:`headers_of`.
        """
        told = partial(self.on_acknowledgement, headers=headers)
        return ObservedFuture(future, record.topic, record.partition, told)

    def close(self) -> None:
        """Call the interceptors' ``close()``."""
        close_hooks(self._chain)


def _wants_headers(interceptor: Any) -> bool:
    """True if the interceptor's ``on_acknowledgement`` has a parameter ``headers``."""
    try:
        return "headers" in signature(interceptor.on_acknowledgement).parameters
    except (
        AttributeError,
        TypeError,
        ValueError,
    ):  # no method, or no signature
        return False


def close_hooks(hooks: Iterable[Any]) -> None:
    """Call ``close()`` of hooks that have it; asynchronous ones are not run."""
    for closing in begin_closing(hooks):
        if isinstance(closing, Coroutine):
            closing.close()


def begin_closing(hooks: Iterable[Any]) -> list[Awaitable[Any]]:
    """Call ``close()`` of hooks that have it; returns the results that are to be awaited."""
    closing: list[Awaitable[Any]] = []
    for hook in hooks:
        close = getattr(hook, "close", None)
        if close is None:
            continue
        try:
            result = close()
        except Exception as error:
            close_failed(hook, error)
            continue
        if isinstance(result, Awaitable):
            closing.append(result)
    return closing


def close_failed(hook: Any, error: BaseException) -> None:
    """Write a line about the ``close()`` of a hook that raised ``error``."""
    logger.error("close of %r failed", hook, exc_info=error, error=error)
