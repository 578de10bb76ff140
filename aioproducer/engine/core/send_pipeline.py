"""The long way of a record: interceptors, serializers, partitioner, then a batch or a wait.

``Producer.send`` tries the fast path before (:mod:`fast_path`), which serves a record that needs
none of these steps, if a batch can take it at once. Source: ``doSend`` of Kafka's
``KafkaProducer``.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

from aioproducer.engine.accumulator import RecordFuture, SerializedRecord, Unserialized
from aioproducer.engine.core.arguments import check_partition, check_timestamp, checked_topic
from aioproducer.engine.core.engine import Engine
from aioproducer.engine.core.hooks import Hooks
from aioproducer.engine.core.serializer_preparation import SerializerPreparation
from aioproducer.engine.observer import ObservedFuture, tell_partition
from aioproducer.errors import NotPreparedError, ProducerError
from aioproducer.model import Header, Headers, ProducerRecord
from aioproducer.serialization import checked_headers

RecordFields: TypeAlias = tuple[Any, Any, Any, int | None, Headers | None, int | None]
"""Topic, value, key, partition, headers and timestamp: see :meth:`ProducerRecord.fields`."""


class SendPipeline:
    """Puts records of users into the accumulator of a running producer.

    ``max_block``: seconds that a record waits for metadata or memory at most.
    """

    def __init__(
        self,
        engine: Engine,
        hooks: Hooks,
        max_block: float,
        clock: Callable[[], float],
        wall_clock_ns: Callable[[], int],
    ) -> None:
        accumulator = engine.accumulator
        routes = accumulator.routes
        self._engine = engine
        self._accumulator = accumulator
        self._append = accumulator.append
        self._known_topics = routes.topics
        self._transactions = engine.transactions
        self._hooks = hooks
        self._serializers = hooks.serializers
        self._preparation: SerializerPreparation | None = None
        if hooks.serializers.need_preparation:
            self._preparation = SerializerPreparation(engine, hooks.serializers, max_block, clock)
        self._interceptors = hooks.interceptors
        self._intercepts = bool(hooks.interceptors)
        self._serializes = bool(hooks.serializers)
        self._max_block = max_block
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns
        self._withdraw = engine.withdraw
        # Interceptors are called in their caller's context; else all callbacks may share one.
        self._context = None if hooks.interceptors else copy_context()

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
        intercepted: ObservedFuture | None = None
        try:
            if self._intercepts:
                sent = self._interceptors.on_send(ProducerRecord(*fields))
                fields = sent.fields()
                token = intercepted = self._interceptors.follow(token, sent)
            if sent_ns is None:
                sent_ns = self._wall_clock_ns()
            topic, _, _, partition, _, timestamp_ms = fields
            if (
                timestamp_ms is not None
                or partition is not None
                or type(topic) is not str
                or topic not in self._known_topics
            ):
                fields = self._checked(fields)
            if self._preparation is None:
                record = self._serialized(fields, token, sent_ns)
                now = self._clock()
                if not self._append(record, now):
                    self._enqueue(record, now, caller, None, over_capacity=over_capacity)
            else:
                self._put_prepared(
                    self._preparation, fields, token, sent_ns, caller, over_capacity=over_capacity
                )
        except ProducerError as error:
            if intercepted is not None:
                intercepted.refused(error)
            if self._transactions is not None and not over_capacity:  # send_many() does at its end
                self._transactions.record_refused(error)
            raise

    def _checked(self, fields: RecordFields) -> RecordFields:
        """The fields whose topic, partition and timestamp are valid."""
        topic, value, key, partition, headers, timestamp_ms = fields
        if type(topic) is not str or topic not in self._known_topics:
            topic = checked_topic(topic)
            fields = topic, value, key, partition, headers, timestamp_ms
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms, topic)
        if partition is not None:
            check_partition(partition, topic)
        return fields

    def _put_prepared(
        self,
        preparation: SerializerPreparation,
        fields: RecordFields,
        token: RecordFuture,
        sent_ns: int,
        caller: object,
        *,
        over_capacity: bool,
    ) -> None:
        """Put a record into a batch, or let it wait for its serializers to be prepared."""
        topic, value, key, partition, headers, timestamp_ms = fields
        if headers is not None and not isinstance(headers, Mapping | Sequence):
            headers = checked_headers(headers, topic)  # an iterator can only be read once
            fields = topic, value, key, partition, headers, timestamp_ms
        if topic in preparation.ready:
            try:
                record = self._serialized(fields, token, sent_ns)
            except NotPreparedError:
                pass
            else:
                now = self._clock()
                if not self._append(record, now):
                    self._enqueue(record, now, caller, None, over_capacity=over_capacity)
                return
        key, value, headers = self._serializers.converted(topic, key, value, headers)
        fields = topic, value, key, partition, headers, timestamp_ms
        unserialized = preparation.serializer_of(
            topic, partial(self._serialized, fields, token, sent_ns), (key, value)
        )
        record = SerializedRecord(topic, partition, 0, None, None, (), token, sent_ns=sent_ns)
        now = self._clock()
        self._enqueue(record, now, caller, unserialized, over_capacity=over_capacity)
        preparation.begin(topic)

    def _serialized(
        self, fields: RecordFields, token: RecordFuture, sent_ns: int
    ) -> SerializedRecord:
        topic, value, key, partition, headers, timestamp_ms = fields
        pairs: Sequence[Header] = ()
        if (
            self._serializes
            or headers is not None
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            key, value, pairs = self._serializers.serialized(topic, key, value, headers)
        if timestamp_ms is None:
            timestamp_ms = sent_ns // 1_000_000
        if partition is None and self._hooks.partitioning:
            partition = self._accumulator.choose_partition(topic, key, value)
            tell_partition(token, partition)
        return SerializedRecord(
            topic, partition, timestamp_ms, key, value, pairs, token, sent_ns=sent_ns
        )

    def _enqueue(
        self,
        record: SerializedRecord,
        now: float,
        caller: object,
        unserialized: Unserialized | None,
        *,
        over_capacity: bool,
    ) -> None:
        """Let a record wait that no batch takes now."""
        deadline = now + self._max_block
        caller = caller or current_task()
        pending = self._engine.enqueue(
            record, now, deadline, caller, over_capacity=over_capacity, unserialized=unserialized
        )
        if isinstance(pending.caller, asyncio.Future):
            pending.on_cancel = self._withdraw
            pending.caller.add_done_callback(pending, context=self._context)
