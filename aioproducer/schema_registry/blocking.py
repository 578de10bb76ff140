"""A deserializer for consumers without an event loop, such as confluent-kafka and kafka-python."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError, Future
from threading import Thread
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self

from aioproducer.errors import (
    ClientClosedError,
    NotPreparedError,
    ProducerTimeoutError,
)
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.model.type_parameters import V_co
from aioproducer.schema_registry.wire_format import ReadHeaders
from aioproducer.serialization import Field

_GRACE: Final = 5.0  # seconds for the thread to end


class _Deserializer(Protocol[V_co]):
    def for_field(self, field: Field) -> Self: ...

    async def deserialize(
        self, topic: str, data: bytes | None, headers: ReadHeaders = None
    ) -> V_co | None: ...

    def decode(
        self, topic: str, data: bytes | None, headers: ReadHeaders = None
    ) -> V_co | None: ...

    async def close(self) -> None: ...


class BlockingDeserializer(Generic[V_co]):
    """Deserializes in the caller's thread. A thread with an event loop fetches new schemas.

    Call it with bytes and a context with ``topic`` and ``headers``, like confluent-kafka's
    ``DeserializingConsumer``. In kafka-python, pass it as ``value_deserializer``.
    """

    def __init__(self, deserializer: _Deserializer[V_co], timeout: float) -> None:
        self._deserializer = deserializer
        self._of_keys: _Deserializer[V_co] | None = None
        self._timeout = timeout
        self._lock = free_lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._closed = False

    def __call__(self, data: bytes | None, context: Any = None) -> V_co | None:
        """Return the value of ``data``. ``context``: None, or an object with ``topic``, ``headers``
        and ``field`` (``"key"`` for a key)."""
        topic = getattr(context, "topic", None) or "unknown"
        deserializer = self._deserializer
        if getattr(context, "field", None) == "key":
            if self._of_keys is None:
                self._of_keys = deserializer.for_field("key")
            deserializer = self._of_keys
        return self._value(deserializer, topic, data, getattr(context, "headers", None))

    def deserialize(self, topic: str, headers: ReadHeaders, data: bytes | None) -> V_co | None:
        """Return the value of ``data``. The arguments are in kafka-python's order.

        Raises:
            ProducerTimeoutError: the schema was not fetched in time.
            SerializationError: the bytes are not a value of their schema.
            SchemaRegistryError: the registry does not return the schema.
        """
        return self._value(self._deserializer, topic, data, headers)

    def _value(
        self,
        deserializer: _Deserializer[V_co],
        topic: str,
        data: bytes | None,
        headers: ReadHeaders,
    ) -> V_co | None:
        try:
            return deserializer.decode(topic, data, headers)
        except NotPreparedError:
            pass
        fetched: Future[V_co | None]
        with self._lock:  # close() comes before, or ends what is fetched
            loop = self._running()
            fetched = asyncio.run_coroutine_threadsafe(
                deserializer.deserialize(topic, data, headers), loop
            )
        try:
            return fetched.result(self._timeout)
        except CancelledError as error:
            raise _closed() from error
        except TimeoutError as error:
            if fetched.done() and not fetched.cancelled():
                raise
            fetched.cancel()
            raise ProducerTimeoutError(
                f"topic {topic!r}: the schema of a record was not fetched within "
                f"{duration(self._timeout)}"
            ) from error

    def _running(self) -> asyncio.AbstractEventLoop:
        """The event loop, whose thread is started when it is first needed.

        A forked process has the loop of its parent, and no thread for it.
        """
        if self._closed:
            raise _closed()
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or not thread.is_alive():
            loop = asyncio.new_event_loop()
            thread = Thread(target=_run, args=(loop,), name="aioproducer-schemas", daemon=True)
            thread.start()
            self._loop, self._thread = loop, thread
        return loop

    def close(self) -> None:
        """Stop the thread, and close the deserializer."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        closed = asyncio.run_coroutine_threadsafe(self._deserializer.close(), loop)
        try:
            closed.result(_GRACE)
        except TimeoutError:
            closed.cancel()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_GRACE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _closed() -> ClientClosedError:
    return ClientClosedError("the deserializer is closed; create another")


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run ``loop`` until it is stopped, then end its tasks."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
