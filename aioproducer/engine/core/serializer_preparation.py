"""The preparation of serializers, topic by topic, and the records that wait for it.

A topic's records wait in one queue, in the order of their ``send()`` calls, because a record
without its key has no partition yet. Until it is serialized, its memory is an estimate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain, islice
from sys import getsizeof
from types import FunctionType, ModuleType
from typing import Any, Final

from aioproducer.engine.accumulator import RecordAccumulator, SerializedRecord, Unserialized
from aioproducer.errors import NotPreparedError, ProducerError, SerializationError
from aioproducer.foundation import tuning
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import ClientLog, ModuleLogger, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import TaskOwner, is_being_cancelled
from aioproducer.serialization.serializer import RecordSerializers, may_succeed_later

_MOST_PARTS: Final = 1_000
_UNKNOWN: Final = 512
_WITHOUT_PARTS: Final = (str, bytes, bytearray, int, float, type, FunctionType, ModuleType)


def estimated_size(data: Any) -> int:
    """Bytes that ``data`` and its parts may take; at most a thousand parts are looked at."""
    if data is None:
        return 0
    size, parts = 0, [data]
    for _ in range(_MOST_PARTS):
        if not parts:
            break
        part = parts.pop()
        size += getsizeof(part, _UNKNOWN)
        if not isinstance(part, _WITHOUT_PARTS):
            size += _encoded_size(part)
            parts.extend(islice(_parts_of(part), _MOST_PARTS))
    return size


def _encoded_size(data: Any) -> int:
    """The bytes that a message of Protocol Buffers has outside of Python's objects."""
    measure: Callable[[], object] | None = getattr(type(data), "ByteSize", None)
    size = None if measure is None else data.ByteSize()
    return size if isinstance(size, int) else 0


def _parts_of(data: Any) -> Iterable[Any]:
    """The objects that ``data`` holds, as far as they can be seen."""
    if isinstance(data, dict):
        return data.values()
    if isinstance(data, list | tuple | set | frozenset):
        return data
    kind = type(data)
    slots = getattr(kind, "__struct_fields__", None)  # of msgspec
    if slots is None:
        slots = chain.from_iterable(_slots_of(each) for each in kind.__mro__)
    named = (getattr(data, name, None) for name in slots)
    return chain(getattr(data, "__dict__", {}).values(), named)


def _slots_of(kind: type) -> Iterable[str]:
    slots = kind.__dict__.get("__slots__", ())
    return [each for each in ((slots,) if isinstance(slots, str) else slots) if each != "__dict__"]


logger = ModuleLogger(__name__)

_UNCHANGING: Final = frozenset({bytes, str, int, float, bool})
_LEAST_SIZE: Final = 512
"""The least number of bytes that an unserialized record takes."""


class SerializerPreparation:
    """Calls ``prepare()`` once for each topic, and serializes the records that waited for it.

    ``longest``: seconds that one ``prepare()`` may take. ``log``: of the lines of callers.
    """

    def __init__(
        self,
        serializers: RecordSerializers,
        accumulator: RecordAccumulator,
        tasks: TaskOwner,
        backoff: ExponentialBackoff,
        longest: float,
        clock: Callable[[], float],
        log: ClientLog,
    ) -> None:
        self.ready: set[str] = set()
        """The topics whose records need not wait."""
        self._serializers = serializers
        self._accumulator = accumulator
        self._pending = accumulator.pending
        self._tasks = tasks
        self._backoff = backoff
        self._longest = longest
        self._clock = clock
        self._log = log
        self.prepared: set[str] = set()
        """The topics for which ``prepare()`` has returned; any thread may look."""
        self._failures: dict[str, tuple[int, float]] = {}
        """By topic, the calls of ``prepare()`` that were in vain since the last success, and the
        clock's time before which there is no further one."""
        self._running: set[str] = set()

    def copy_of(self, data: Any, topic: str) -> Any:
        """A copy of a key or value that has to wait, so that its caller may change the object.

        An object that can't be copied waits itself.
        """
        if data is None or type(data) in _UNCHANGING:
            return data
        try:
            if isinstance(data, memoryview):
                copied: Any = memoryview(data.tobytes())
                return copied.cast(data.format, data.shape)
            return deepcopy(data)
        except Exception as error:
            logger.repeated(
                logging.WARNING,
                ("no copy", type(data)),
                "a %s for topic %s can't be copied (%s: %s), and its serializer is not prepared: "
                "if it changes now, the record changes, too",
                type(data).__name__,
                topic,
                type(error).__name__,
                error,
                topic=topic,
                log=self._log,
                error=error,
            )
            return data

    def serializer_of(
        self, topic: str, serialize: Callable[[], SerializedRecord], size: int
    ) -> Unserialized:
        """The bytes of a record of ``topic`` that is to wait; ``size``: an estimate of them."""

        def once_prepared() -> SerializedRecord:
            if topic not in self.prepared:
                raise NotPreparedError(f"topic {topic!r}: prepare() was not called yet")
            try:
                return serialize()
            except NotPreparedError as error:
                # An error of prepare() says more: it is the reason for this one.
                self._pending.preparation_errors.setdefault(topic, error)
                raise

        return Unserialized(max(_LEAST_SIZE, size), once_prepared)

    def begin(self, topic: str) -> None:
        """Prepare the serializers for ``topic``, on behalf of the records that wait."""
        self.ready.discard(topic)
        if topic not in self._running:
            self._running.add(topic)
            self._tasks.start(self._serve(topic), f"aioproducer-prepare-{topic}")

    async def _serve(self, topic: str) -> None:
        """Prepare and serialize until no record of ``topic`` waits."""
        try:
            while await self._is_needed(topic):
                error = await self._prepare(topic)
                if error is None:
                    if await self._serialize(topic) or not self._waits(topic):
                        self._failures.pop(topic, None)
                        self._pending.preparation_errors.pop(topic, None)
                        continue
                elif not may_succeed_later(error):
                    await self._fail(topic, error)
                self._failed(topic)
        finally:
            self._running.discard(topic)
        self._pending.preparation_errors.pop(topic, None)
        if topic in self.prepared:
            self.ready.add(topic)

    def _waits(self, topic: str) -> bool:
        return self._pending.unserialized.first(topic) is not None

    async def _is_needed(self, topic: str) -> bool:
        """True if a record waits for the next ``prepare()``, after the backoff of the last one.

        That counts from the failure: no record has to last through a whole one.
        """
        if topic in self._failures and self._waits(topic):
            _, not_before = self._failures[topic]
            await asyncio.sleep(max(not_before - self._clock(), 0.0))
            await self._serialize(topic)  # the record that lacked something may be gone
        return self._waits(topic)

    def _failed(self, topic: str) -> None:
        """Note a ``prepare()`` in vain."""
        failures = self._failures.get(topic, (0, 0.0))[0] + 1
        if len(self._failures) >= tuning.TOPICS_PREPARED:
            self._failures.clear()
        self._failures[topic] = failures, self._clock() + self._backoff.delay(failures)

    async def _prepare(self, topic: str) -> Exception | None:
        """Call ``prepare()``; returns its error."""
        try:
            async with PatientTimeout(self._longest):
                await self._serializers.prepare(topic)
        except (Exception, asyncio.CancelledError) as raised:
            if is_being_cancelled():
                raise
            error = self._error_of(raised)
            self._pending.preparation_errors[topic] = error
            logger.repeated(
                logging.WARNING,
                ("prepare", type(error)),
                "the serializers can't be prepared for topic %s: %s: %s",
                topic,
                type(error).__name__,
                error,
                topic=topic,
                error=error,
            )
            return error
        if len(self.prepared) >= tuning.TOPICS_PREPARED:
            self.prepared.clear()
            self.ready.clear()
        self.prepared.add(topic)
        self._pending.preparation_errors.pop(topic, None)
        return None

    def _error_of(self, raised: Exception | asyncio.CancelledError) -> Exception:
        """The error of a call of ``prepare()``."""
        if isinstance(raised, asyncio.CancelledError):
            error = SerializationError("prepare() raised CancelledError, but nobody cancelled it")
            error.__cause__ = raised
            return error
        if not str(raised) and isinstance(raised, TimeoutError):
            return TimeoutError(f"prepare() did not return within {duration(self._longest)}")
        return raised

    async def _serialize(self, topic: str) -> bool:
        """Serialize the records that wait, up to one whose serializer is not prepared.

        Returns False if the first one is that one already.
        """
        some = False
        while (head := self._pending.unserialized.first(topic)) is not None:
            self._accumulator.serialize_pending(topic, tuning.PREPARED_PER_TURN, self._clock())
            if self._pending.unserialized.first(topic) is head:
                break
            some = True
            await asyncio.sleep(0)
        return some

    async def _fail(self, topic: str, cause: Exception) -> None:
        """Fail the records that wait."""
        error: Exception = cause
        if not isinstance(cause, ProducerError):
            error = SerializationError(
                f"the serializers can't be prepared for topic {topic!r}: "
                f"{type(cause).__name__}: {cause}"
            )
            error.__cause__ = cause
        assert isinstance(error, ProducerError)
        for count, record in enumerate(self._pending.unserialized.of(topic), 1):
            self._pending.refuse([record], error)
            if not count % tuning.PREPARED_PER_TURN:
                await asyncio.sleep(0)
