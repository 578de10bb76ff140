"""The part of a deserializer that all formats share: the schemas of records, and their failures.

:class:`BlockingDeserializer` serves consumers without an event loop, such as confluent-kafka and
kafka-python.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from copy import copy
from dataclasses import dataclass
from threading import Thread
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeAlias
from uuid import UUID

from aioproducer.engine.client.environment import SYSTEM
from aioproducer.errors import (
    ClientClosedError,
    NotPreparedError,
    ProducerError,
    ProducerTimeoutError,
    SerializationError,
)
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.model.type_parameters import V_co
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.model import (
    RegisteredSchema,
    Schema,
    SchemaType,
    refuse_rules_of_readers,
)
from aioproducer.schema_registry.wire_format import Framed, ReadHeaders, id_bytes, unframed
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


_clock: Final = SYSTEM.clock

Decode: TypeAlias = Callable[[bytes], Any]
"""From a payload to its value; any exception means that the payload does not fit."""
_Key: TypeAlias = tuple[int | UUID, tuple[int, ...]]

_FAILURE_LASTS: Final = 30.0  # seconds for which a schema that can't be used is remembered
_PREFIX: Final = 5  # bytes
_FAILURES: Final = 1000  # ids that are remembered; data may name any


@dataclass(frozen=True, slots=True)
class _Failed:
    error: ProducerError
    until: float


class SchemaDeserializer(ABC, Generic[V_co]):
    """Reads values that any client has written with a schema registry."""

    schema_type: SchemaType
    _indexed = False

    def __init__(self, registry: SchemaRegistry | str) -> None:
        self._owns_registry = isinstance(registry, str)
        self._registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._field: Field = "value"
        self._decoders: dict[_Key, Decode] = {}
        self._prefixes: dict[bytes, Decode] = {}
        """The decoders again, by the first five bytes of data without headers and indexes."""
        self._failures: dict[tuple[str, _Key], _Failed] = {}
        """The failures of schemas by topic, which their messages name."""

    @abstractmethod
    async def _decoder(self, registered: RegisteredSchema, framed: Framed) -> Decode:
        """The decoder for values of a schema. A ProducerError that it raises passes as it is."""

    def for_field(self, field: Field) -> Self:
        """Return a deserializer for keys or values that shares the registry with this one."""
        if field == self._field:
            return self
        other = copy(self)
        other._field = field
        return other

    async def deserialize(
        self, topic: str, data: bytes | None, headers: ReadHeaders = None
    ) -> V_co | None:
        """Return the value of ``data``; None stays None. Unknown schemas are fetched.

        ``headers``: the headers of the record, which can contain the schema id.

        Raises:
            SerializationError: the bytes are not a value of their schema, or have no schema id.
            SchemaRegistryError: the registry does not return the schema.
        """
        if data is None:
            return None
        try:
            return self.decode(topic, data, headers)
        except NotPreparedError:
            framed = self._framed(topic, data, headers)
        decode = await self._load(topic, framed)
        return self._decoded(topic, framed.key, framed.payload, decode)

    def decode(self, topic: str, data: bytes | None, headers: ReadHeaders = None) -> V_co | None:
        """Return the value of ``data`` without network access.

        Raises:
            NotPreparedError: the schema is unknown; :meth:`deserialize` fetches it.
            SerializationError: as in :meth:`deserialize`.
        """
        if data is None:
            return None
        if type(data) is not bytes:
            data = bytes(data)
        decode = None if headers else self._prefixes.get(data[:_PREFIX])
        if decode is not None:
            return self._decoded(topic, data[:_PREFIX], data[_PREFIX:], decode)
        framed = self._framed(topic, data, headers)
        decode = self._known(topic, framed)
        if decode is None:
            raise NotPreparedError(f"topic {topic!r}: the schema {framed.key} was not fetched yet")
        return self._decoded(topic, framed.key, framed.payload, decode)

    def blocking(self, *, timeout: float = 30.0) -> BlockingDeserializer[V_co]:
        """Return this deserializer for a consumer without an event loop.

        ``timeout``: seconds to fetch a schema. Close the result, or use it in a ``with`` block.
        """
        return BlockingDeserializer(self, timeout)

    async def close(self) -> None:
        """Cancel the requests of this event loop. A registry that you passed as an object stays
        open."""
        if self._owns_registry:
            await self._registry.close()

    def __getstate__(self) -> dict[str, Any]:
        """Only settings: another process fetches for itself."""
        return {**self.__dict__, "_decoders": {}, "_prefixes": {}, "_failures": {}}

    def _framed(self, topic: str, data: bytes, headers: ReadHeaders) -> Framed:
        return unframed(topic, self._field, data, headers, indexes=self._indexed)

    def _known(self, topic: str, framed: Framed) -> Decode | None:
        key = (framed.key, framed.indexes)
        decode = self._decoders.get(key)
        if decode is None and (failed := self._failures.get((topic, key))) is not None:
            if _clock() < failed.until:
                raise anew(failed.error)
            self._failures.pop((topic, key), None)
        return decode

    async def _load(self, topic: str, framed: Framed) -> Decode:
        key = (framed.key, framed.indexes)
        try:
            decode = await self._fetched(topic, framed)
        except ProducerError as error:
            if not error.retriable:
                if len(self._failures) >= _FAILURES:
                    self._failures.clear()
                self._failures[topic, key] = _Failed(error, _clock() + _FAILURE_LASTS)
            raise
        self._decoders[key] = decode
        if framed.id is not None and not self._indexed:
            self._prefixes[id_bytes(framed.id)] = decode
        return decode

    async def _fetched(self, topic: str, framed: Framed) -> Decode:
        if framed.id is not None:
            registered = await self._registry.by_id(framed.id)
        else:
            assert framed.guid is not None
            registered = await self._registry.by_guid(framed.guid)
        place = f"topic {topic!r}, schema {framed.key}"
        if registered.schema.schema_type != self.schema_type:
            raise SerializationError(
                f"{place}: it has the type {registered.schema.schema_type}, not {self.schema_type}"
            )
        refuse_rules_of_readers(registered.schema, place)
        return await self._decoder(registered, framed)

    async def _named(self, schema: Schema) -> dict[str, Schema]:
        """The schemas that ``schema`` refers to, dependencies first."""
        return dict(await self._registry.resolve(schema)) if schema.references else {}

    def _decoded(
        self, topic: str, schema: int | UUID | bytes, payload: bytes, decode: Decode
    ) -> V_co:
        """The value of ``payload``. ``schema``: the id, or the prefix that has it."""
        try:
            value: V_co = decode(payload)
        except Exception as error:  # the libraries raise whatever strange bytes lead to
            kind = "" if isinstance(error, SerializationError) else f"{type(error).__name__}: "
            if isinstance(schema, bytes):
                schema = int.from_bytes(schema[1:])
            raise SerializationError(
                f"topic {topic!r}: a {self._field} of {len(payload)} bytes is not a value of the "
                f"schema {schema}: {kind}{str(error)[:300]}"
            ) from error
        return value
