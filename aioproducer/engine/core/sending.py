"""The paths of a record from ``send()`` into a batch: the fast path, and the pipeline.

One call of the fast path checks the caller, makes the future and appends the record; a record that
no open batch takes begins one, or waits. Every record without headers and timestamp of its own asks
there first, so ``records/_speedups.pyx`` has the compiled form of :class:`PythonFastPath`.

The pipeline serves all other records: interceptors, serializers, partitioner, then a batch or a
wait. Source: ``doSend`` of Kafka's ``KafkaProducer``.

``send()`` raises each error that is found before the record is in a batch or waits: wrong
arguments, a wrong thread, a serializer that fails, full memory. Later errors are set on the
record's future.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, current_task
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import get_ident
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aioproducer.engine.accumulator import (
    RecordAccumulator,
    RecordFuture,
    SerializedRecord,
    Unserialized,
)
from aioproducer.engine.core.arguments import check_partition, check_timestamp, checked_topic
from aioproducer.engine.core.hooks import Hooks
from aioproducer.engine.core.serializer_preparation import SerializerPreparation, estimated_size
from aioproducer.engine.observer import (
    tell_partition,
    undelivered,
)
from aioproducer.engine.partitioning import UNKNOWN
from aioproducer.engine.records import acceleration
from aioproducer.engine.records.acceleration import ACCELERATED, Routes
from aioproducer.engine.records.builder import batch_size_bound
from aioproducer.errors import NotPreparedError, ProducerError
from aioproducer.model import Header, Headers, ProducerRecord
from aioproducer.serialization.serializer import SharedHeaders, checked_headers

if TYPE_CHECKING:  # a producer without transactions does without it
    from aioproducer.engine.core.transaction_api import TransactionApi

_NO_THREAD: Final = 0


def utf8(field: str) -> bytes | str:
    """``field`` as UTF-8; as it is, if it has no such form."""
    with suppress(UnicodeEncodeError):
        return field.encode()
    return field


class PythonFastPath:
    """Serves one thread, while its event loop runs.

    A traced producer's records take it while a decision not to trace holds: see :meth:`skip`.
    """

    __slots__ = (
        "_begin",
        "_clock",
        "_context_of",
        "_headers",
        "_loop",
        "_routes",
        "_skipped_in",
        "_thread",
        "_to_skip",
        "_wait",
        "_wall_clock_ns",
    )

    def __init__(self) -> None:
        self.trace(None)
        self.close()

    def open(
        self,
        loop: AbstractEventLoop,
        routes: Routes,
        begin: Callable[..., object] | None,
        wait: Callable[..., None],
        clock: Callable[[], float],
        wall_clock_ns: Callable[[], int] = time_ns,
    ) -> None:
        """Serve the calling thread, while ``loop`` runs there.

        ``begin`` takes the route and the fields of a record that no open batch takes, and the time
        of ``clock``, as :meth:`RecordAccumulator.begin`. If it returns None, ``wait`` gets them, as
        :meth:`SendPipeline.wait`. Without ``begin``, such a record takes the long way.
        ``wall_clock_ns``: nanoseconds since the epoch, for the timestamps of records.
        """
        self._thread = get_ident()
        self._loop = loop
        self._routes = routes
        self._begin = begin
        self._wait = wait
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns

    def close(self) -> None:
        """Serve no thread."""
        self._thread = _NO_THREAD

    def serves(self) -> bool:
        """True if the caller is in the thread and the loop that are served."""
        return get_ident() == self._thread and self._loop.is_running()

    def trace(self, context_of: Callable[[], object] | None) -> None:
        """Ask for each record whether it is traced in its context; None: no record is."""
        self._context_of = context_of
        self._skipped_in: object = None
        self._to_skip = 0
        self._headers: tuple[Header, ...] = ()

    def skip(self, context: object, records: int, headers: Sequence[Header]) -> None:
        """Trace none of the next ``records``, while the context is this object.

        Each of them gets ``headers``.
        """
        self._headers = tuple(headers)
        self._skipped_in, self._to_skip = context, records

    def take_skipped(self, context: object) -> tuple[Header, ...] | None:
        """The headers of a record that is not traced, which counts; None: a decision is due."""
        if self._to_skip <= 0 or self._skipped_in is not context:
            return None
        self._to_skip -= 1
        return self._headers

    def send(self, topic: Any, value: Any, key: Any, partition: Any) -> Any:
        """Send a record by the fast path, timestamped now.

        Returns its future; None: the pipeline has to send it. Raises the errors of ``begin`` and
        ``wait``: :class:`RecordTooLargeError`, :class:`BufferExhaustedError`.
        """
        if self.serves():
            headers: tuple[Header, ...] = ()
            if self._context_of is not None:
                try:
                    if self._to_skip <= 0 or self._context_of() is not self._skipped_in:
                        return None
                except Exception:
                    return None  # the next way asks again, and logs the error
                headers = self._headers
            if type(value) is str:
                value = utf8(value)
            if type(key) is str:
                key = utf8(key)
            routes = self._routes
            if routes.takes(topic, value, key, partition):
                builders = routes.topics[topic]
                number = routes.route(builders, key, partition)
                builder = routes.open_in(builders, number)
                future = self._loop.create_future()
                now_ns = self._wall_clock_ns()
                if (
                    builder is not None
                    and builder.append(future, now_ns // 1_000_000, key, value, headers, now_ns)
                ) or self._begins(number, topic, partition, key, value, headers, future, now_ns):
                    routes.came += 1
                    self._to_skip -= 1
                    return future
        return None

    def _begins(self, number: int, topic: str, partition: int | None, *record: Any) -> bool:
        """True if a record has begun a batch, or waits; False: it takes the long way."""
        if self._begin is None or number == UNKNOWN:
            return False
        timestamp_ms, now = record[-1] // 1_000_000, self._clock()
        if self._begin(number, topic, timestamp_ms, *record, now) is None:
            self._wait(topic, partition, timestamp_ms, *record, now)
        return True

    def append(self, token: Any, topic: Any, value: Any, key: Any, partition: Any) -> int:
        """Do :meth:`send` with the caller's ``token``; returns the record's size in bytes, or 0."""
        if self.serves():
            if type(value) is str:
                value = utf8(value)
            if type(key) is str:
                key = utf8(key)
            size = self._routes.append(
                token, self._wall_clock_ns(), None, topic, value, key, partition
            )
            self._routes.came += bool(size)
            return size
        return 0


FastPath: type[PythonFastPath] = acceleration.speedups.FastPath if ACCELERATED else PythonFastPath


RecordFields: TypeAlias = tuple[Any, Any, Any, int | None, Headers | None, int | None]
"""Topic, value, key, partition, headers and timestamp, as in ``send()`` and
:meth:`ProducerRecord.fields`. The value is before the key wherever a record has this form, in
routes and in the inbox as well. Serializers, partitioners, :class:`SerializedRecord` and batches
have the key first, as in Kafka."""


class TakenRecord:
    """A record as it was at its ``send()``, or the reason for which it can't be sent.

    ``fields``: the caller's; :meth:`SendPipeline.take` replaces them by bytes.
    """

    original: ProducerRecord[Any, Any] | None = None
    """The record as interceptors have left it, for those who hear of its outcome; None: there are
    no interceptors, or they already follow its future."""
    seen_headers: Sequence[Header] = ()
    """The headers that the interceptors get with the outcome."""
    is_unserialized = False
    """True: key and value are copies, because a serializer is not prepared."""
    error: Exception | None = None

    def __init__(self, fields: RecordFields) -> None:
        self.fields: tuple[Any, Any, Any, Any, Any, Any] = fields

    def fail(self, error: Exception) -> None:
        """Note that the record can't be sent; its objects are not needed any more."""
        topic, _, _, partition, _, _ = self.fields
        self.fields = topic, None, None, partition, (), None
        self.error = error

    @property
    def size(self) -> int:
        """Its bytes, an upper bound; an estimate if key and value wait for their serializers."""
        _, value, key, _, headers, _ = self.fields
        if self.is_unserialized:
            waiting = estimated_size(value) + estimated_size(key)
            return waiting + batch_size_bound(None, None, headers)
        return batch_size_bound(key, value, headers)


class SendPipeline:
    """Puts records of users into the accumulator of a running producer.

    ``preparation``: for serializers that have to be prepared.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        hooks: Hooks,
        preparation: SerializerPreparation | None,
        transactions: TransactionApi | None,
        clock: Callable[[], float],
        wall_clock_ns: Callable[[], int],
    ) -> None:
        routes, pending = accumulator.routes, accumulator.pending
        self._accumulator = accumulator
        self._append = accumulator.append
        self._withdraw = pending.withdraw
        self._known_topics = routes.topics
        self._transactions = transactions
        self._hooks = hooks
        self._serializers = hooks.serializers
        self._preparation = preparation
        self._interceptors = hooks.interceptors
        self._intercepts = bool(hooks.interceptors)
        self._serializes = bool(hooks.serializers)
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns
        # Interceptors are called in their caller's context; else all callbacks may share one.
        self._context = None if hooks.interceptors else copy_context()

    # --- in the caller's thread --------------------------------------------------------------

    def take(self, taken: TakenRecord) -> None:
        """Call the hooks that make bytes of a record, so that its caller may change its objects.

        Where a serializer is not prepared, the record gets copies of them. Any thread may call it.
        Raises the error of a record that can't be sent.
        """
        if self._intercepts:
            *before, headers, timestamp_ms = taken.fields
            if isinstance(headers, Iterator):  # it can only be read once
                taken.fields = *before, list(headers), timestamp_ms
            taken.original = original = self._interceptors.on_send(ProducerRecord(*taken.fields))
            taken.seen_headers = self._interceptors.headers_of(original)
            taken.fields = original.fields()
        topic, value, key, partition, headers, timestamp_ms = taken.fields
        if (
            timestamp_ms is not None
            or partition is not None
            or type(topic) is not str
            or topic not in self._known_topics
        ):
            topic = self._checked(topic, partition, timestamp_ms)
        pairs: Sequence[Header] = ()
        if self._preparation is not None:
            key, value, pairs = self._taken_prepared(self._preparation, taken, topic)
        elif (
            self._serializes
            or headers is not None
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            key, value, pairs = self._serializers.serialized(topic, key, value, headers)
        taken.fields = topic, value, key, partition, pairs, timestamp_ms

    def _checked(self, topic: Any, partition: Any, timestamp_ms: Any) -> Any:
        """The topic, if it, the partition and the timestamp are valid."""
        if type(topic) is not str or topic not in self._known_topics:
            topic = checked_topic(topic)
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms, topic)
        if partition is not None:
            check_partition(partition, topic)
        return topic

    def _taken_prepared(
        self, preparation: SerializerPreparation, taken: TakenRecord, topic: str
    ) -> tuple[Any, Any, Sequence[Header]]:
        """Key, value and headers as bytes, or as copies that wait for :meth:`_serialized`."""
        _, value, key, _, headers, _ = taken.fields
        if headers is not None:  # an iterator can only be read once
            headers = SharedHeaders(checked_headers(headers, topic))
        if topic in preparation.prepared:
            with suppress(NotPreparedError):
                return self._serializers.serialized(topic, key, value, headers)
        taken.is_unserialized = True
        key, value, pairs = self._serializers.converted(topic, key, value, headers)
        return preparation.copy_of(key, topic), preparation.copy_of(value, topic), pairs

    def refused(self, taken: TakenRecord, error: BaseException) -> None:
        """Tell the interceptors about a record that was not put; it may come twice."""
        if taken.original is not None:
            record, taken.original = taken.original, None
            metadata = undelivered(record.topic, record.partition)
            self._interceptors.on_acknowledgement(metadata, error, taken.seen_headers)

    # --- on the event loop -------------------------------------------------------------------

    def put(
        self,
        fields: RecordFields,
        token: RecordFuture,
        *,
        over_capacity: bool = False,
        caller: object = None,
        sent_ns: int | None = None,
    ) -> None:
        """Send a record; ``token`` gets its outcome.

        ``over_capacity``: the record is not refused for lack of room, because its caller waits for
        room before the next one. ``caller``: the thread that waits then; None: the present task.
        ``sent_ns``: the wall clock's time of the ``send()``; None: now.
        """
        if self._transactions is not None:
            self._transactions.check_open()
        taken = TakenRecord(fields)
        try:
            self.take(taken)
            if sent_ns is None:
                sent_ns = self._wall_clock_ns()
            if taken.original is None:
                self._append_or_wait(taken, token, over_capacity, caller, sent_ns)
            else:
                self._put_observed(taken, taken.original, token, over_capacity, caller, sent_ns)
        except ProducerError as error:
            self.refused(taken, error)
            if self._transactions is not None and not over_capacity:  # send_many() does at its end
                self._transactions.record_failed(error, refused=True)
            raise

    def put_taken(
        self, taken: TakenRecord, token: RecordFuture, caller: object, sent_ns: int
    ) -> None:
        """Send a record that another thread has taken, and that never lacks room: see :meth:`put`.

        Raises the error of its :meth:`take`.
        """
        try:
            if taken.error is not None:
                raise taken.error
            if self._transactions is not None:
                self._transactions.check_open()
            if taken.original is None:
                self._append_or_wait(taken, token, True, caller, sent_ns)
            else:
                self._put_observed(taken, taken.original, token, True, caller, sent_ns)
        except Exception as error:
            self.refused(taken, error)
            raise

    def _put_observed(
        self,
        taken: TakenRecord,
        original: ProducerRecord[Any, Any],
        token: RecordFuture,
        over_capacity: bool,
        caller: object,
        sent_ns: int,
    ) -> None:
        """Put a record whose outcome interceptors hear."""
        observed = self._interceptors.follow(token, original, taken.seen_headers)
        taken.original = None  # from now on the interceptors get the outcome of the future
        try:
            self._append_or_wait(taken, observed, over_capacity, caller, sent_ns)
        except ProducerError as error:
            observed.refused(error)
            raise

    def _append_or_wait(
        self,
        taken: TakenRecord,
        token: RecordFuture,
        over_capacity: bool,
        caller: object,
        sent_ns: int,
    ) -> None:
        """Put a record into a batch, or let it wait."""
        preparation = self._preparation
        if preparation is None or (
            not taken.is_unserialized and taken.fields[0] in preparation.ready
        ):
            record = self._serialized(taken, token, sent_ns)
            now = self._clock()
            if self._append(record, now) is None:
                self.enqueue(record, now, caller, over_capacity=over_capacity)
            return
        topic, _, _, partition, *_ = taken.fields
        unserialized = preparation.serializer_of(
            topic, partial(self._serialized, taken, token, sent_ns), taken.size
        )
        record = SerializedRecord(topic, partition, 0, None, None, (), token, sent_ns=sent_ns)
        self.enqueue(record, self._clock(), caller, unserialized, over_capacity=over_capacity)
        preparation.begin(topic)

    def _serialized(
        self, taken: TakenRecord, token: RecordFuture, sent_ns: int
    ) -> SerializedRecord:
        topic, value, key, partition, pairs, timestamp_ms = taken.fields
        if taken.is_unserialized:
            key, value, pairs = self._serializers.serialized(topic, key, value, pairs)
        if timestamp_ms is None:
            timestamp_ms = sent_ns // 1_000_000
        if asks := partition is None and self._hooks.partitioning:
            partition = self._accumulator.choose_partition(topic, key, value)
            tell_partition(token, partition)
        return SerializedRecord(
            topic,
            partition,
            timestamp_ms,
            key,
            value,
            pairs,
            token,
            sent_ns=sent_ns,
            by_partitioner=asks,
        )

    def wait(
        self,
        topic: str,
        partition: int | None,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        token: RecordFuture,
        sent_ns: int,
        now: float,
    ) -> None:
        """Let a record wait for which :meth:`RecordAccumulator.begin` had no memory."""
        record = SerializedRecord(
            topic, partition, timestamp_ms, key, value, headers, token, sent_ns=sent_ns
        )
        self.enqueue(record, now, None, over_capacity=False)

    def enqueue(
        self,
        record: SerializedRecord,
        now: float,
        caller: object,
        unserialized: Unserialized | None = None,
        *,
        over_capacity: bool,
    ) -> None:
        """Let a record wait that no batch takes now; see :meth:`put` and its errors."""
        pending = self._accumulator.enqueue(
            record,
            now,
            caller=caller or current_task(),
            over_capacity=over_capacity,
            unserialized=unserialized,
        )
        if isinstance(pending.caller, asyncio.Future):
            pending.on_cancel = self._withdraw
            pending.caller.add_done_callback(pending, context=self._context)
