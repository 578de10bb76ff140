"""confluent-kafka's ``Producer`` and ``SerializingProducer``, implemented by aioproducer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import get_ident
from time import monotonic
from typing import Any, Final, NoReturn, Self, TypeAlias

from aioproducer.compat.confluent.arguments import (
    batch_arguments,
    deadline_seconds,
    name,
    whole,
)
from aioproducer.compat.confluent.cluster_metadata import ClusterMetadata, cluster_metadata
from aioproducer.compat.confluent.errors import KafkaError, KafkaException, translating
from aioproducer.compat.confluent.options import configuration, hide_arguments, settings_of
from aioproducer.compat.confluent.partitions import consistent_random
from aioproducer.compat.confluent.records import DeliveryCallback, Outbox, RecordCalls
from aioproducer.compat.confluent.transactions import Transactions, group_of, not_configured
from aioproducer.compat.confluent.waiting import event_came
from aioproducer.compat.confluent.worker import Worker
from aioproducer.errors import ProducerClosedError, ProducerError
from aioproducer.foundation.secret import Secret, hidden, type_name_of

__all__ = [
    "Producer",
    "DoubleSerializer",
    "IntegerSerializer",
    "KeySerializationError",
    "MessageField",
    "ProduceError",
    "SerializationContext",
    "SerializationError",
    "SerializingProducer",
    "StringSerializer",
    "ValueSerializationError",
]


_CLOSED: Final = "Producer has been closed"
_UNASSIGNED: Final = -1


if not hasattr(RecordCalls, "_worker"):  # it is not compiled
    RecordCalls._worker = None  # so that of a subclass which has not called __init__()


class Producer(RecordCalls):
    """Sends records to Kafka, with the interface of confluent-kafka's ``Producer``.

    Args:
        conf: librdkafka's options, as a dict; keywords add to it.

    Callbacks run in the thread that calls :meth:`poll` or :meth:`flush`, and nowhere else. Any
    thread may use a producer. One that is neither flushed nor closed drops its records at the end
    of the process, as confluent-kafka's does.

    Raises:
        KafkaException: an option is unknown, has no counterpart or a wrong value
            (``_INVALID_ARG``).
        TypeError: there is no configuration, or a callback is not callable.
        RuntimeError: ``__init__()`` is called again.
    """

    def __init__(self, *conf: Mapping[str, Any], **options: Any) -> None:
        conf, options = hide_arguments(conf, options)
        if self._worker is not None:
            raise RuntimeError("Producer already __init__:ialized")
        settings = settings_of(configuration(conf, options))
        self._settings = settings
        self._outbox = outbox = Outbox(only_errors=settings.only_errors)
        self._choose = settings.choice
        self._by_crc = settings.choice is consistent_random
        self._on_delivery = settings.on_delivery
        self._max_messages = settings.max_messages
        self._max_bytes = settings.max_bytes
        self._max_size = settings.max_size
        worker = Worker(settings, outbox)
        with translating():
            worker.start(close_at_exit=True)
        self._intake = worker.intake
        self._topics = worker.core.routes.topics
        self._chooses_keyless = settings.choice(None, 0) is not None
        self._transactions = None
        if settings.config.transactional_id is not None:
            self._transactions = Transactions(
                worker, self.flush, default=settings.transaction_seconds
            )
        self._worker = worker

    def __len__(self) -> int:
        return 0 if self._worker is None else len(self._outbox)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._worker is not None:
            self._worker.abandon(ProducerClosedError("the producer was collected without close()"))

    # --- records -------------------------------------------------------------------------------

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = _UNASSIGNED,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> int:
        """Put many records into the queue; returns the number of records that it accepted.

        Args:
            topic: the name of the topic.
            messages: a dict for each record, with ``value``, ``key``, ``headers``, ``partition``
                and ``callback``, all optional. A record that the queue refused gets ``_error``, a
                :class:`KafkaError`.
            partition: for the records that name none.
            callback: for the records that have none. ``on_delivery`` is another name for it.

        Unlike in confluent-kafka, headers are sent.

        Raises:
            TypeError: ``messages`` is not a list, or a record in it is not a dict of valid fields;
                no record was accepted.
        """
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        if not messages:
            return 0
        if self._worker is None:
            raise RuntimeError(_CLOSED)
        callback = on_delivery if callback is None else callback
        calls = [
            (each, batch_arguments(index, each, partition, callback))
            for index, each in enumerate(messages)
        ]
        taken = 0
        for message, fields in calls:
            try:
                self.produce(topic, **fields)
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as error:
                message["_error"] = KafkaError(error.args[0].code())
            else:
                taken += 1
        return taken

    def _checked(self, topic: str, partition: int, size: int) -> int | None:
        """A partition that may exist; None: none is named. Raises the reason of a refusal."""
        if self._transactions is not None:
            self._transactions.check_open()
        if size > self._max_size:
            raise _refused(KafkaError.MSG_SIZE_TOO_LARGE)
        if partition == _UNASSIGNED:
            return None
        partition, builders = whole(partition), self._topics.get(topic)
        if partition < 0 or (builders is not None and partition >= len(builders.partitions)):
            raise _refused(KafkaError._UNKNOWN_PARTITION)
        return partition

    def _refuse(self, worker: Worker) -> NoReturn:
        """Raise the reason that the event loop takes no records."""
        with translating():
            worker.refuse()

    # --- events --------------------------------------------------------------------------------

    def flush(self, timeout: float = -1.0) -> int:
        """Wait until all records have their outcomes, and call the callbacks meanwhile.

        Args:
            timeout: seconds; negative: without limit.

        Returns:
            the number of records without a served outcome; 0: there are none.

        Raises:
            RuntimeError: the producer is closed.
            Exception: the error of the last callback that failed. All others are called.
        """
        worker = self._worker
        if worker is None:
            raise RuntimeError(_CLOSED)
        left = deadline_seconds(timeout)
        self._check_caller()
        self._check_callback(left)
        return self._flush(worker, left)

    def _flush(self, worker: Worker, left: float | None) -> int:
        """Flush for ``left`` seconds (None: without limit), whoever closes the producer."""
        outbox = self._outbox
        deadline = None if left is None else monotonic() + left
        failure = _served(outbox)
        if len(outbox):
            worker.call_soon(worker.pump.hurry, 1)
            try:
                while len(outbox) and event_came(outbox, deadline, until_empty=True):
                    failure = _served(outbox) or failure
            finally:
                worker.call_soon(worker.pump.hurry, -1)
        if failure is not None:
            raise failure
        return len(outbox)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drop records. Their callbacks get ``_PURGE_QUEUE`` or ``_PURGE_INFLIGHT``.

        Args:
            in_queue: the records that wait; they will not be sent.
            in_flight: the records in flight; they may be in the log.
            blocking: False: return before it is done.

        Raises:
            RuntimeError: the producer is closed.
        """
        worker = self._worker
        if worker is None:
            raise RuntimeError(_CLOSED)
        with translating():
            worker.purge(in_queue=bool(in_queue), in_flight=bool(in_flight), waits=bool(blocking))

    def close(self) -> bool:
        """Flush, without limit, and end the producer. Returns True; a second call does nothing."""
        worker = self._worker
        if worker is None:
            return True
        self._check_caller()
        self._check_callback(None)
        try:
            self._flush(worker, None)
        finally:
            self._worker = None
            try:
                with suppress(ProducerError):
                    worker.close(0)
            finally:
                self._outbox.is_closed = True
        if (failure := _served(self._outbox)) is not None:  # of records that came meanwhile
            raise failure
        return True

    # --- the cluster ---------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = -1.0) -> ClusterMetadata:
        """Ask a broker about the cluster.

        Args:
            topic: the name of one topic; None: all of them. Unlike librdkafka's, the call creates
                no topic.
            timeout: seconds to wait; negative: without limit.

        Raises:
            KafkaException: no broker has answered (``_TRANSPORT``, ``_TIMED_OUT``).
            RuntimeError: the producer is closed.
        """
        if topic is not None:
            topic = name(topic)
        worker, left = self._running(), deadline_seconds(timeout)
        with translating():
            described = worker.describe(topic, left)
        return cluster_metadata(described)

    def cluster_id(self, timeout: float = -1.0) -> str | None:
        """The id of the cluster; as for :meth:`list_topics`."""
        return self.list_topics(timeout=timeout).cluster_id

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Log in with these from the next login on.

        They replace ``sasl.username`` and ``sasl.password``, with the mechanisms PLAIN and SCRAM.
        Existing connections stay logged in.

        Raises:
            TypeError: one of them is not a str.
            RuntimeError: the producer is closed.
        """
        secret = hidden(password)
        del password  # a traceback shows the values of this frame
        if not isinstance(username, str):
            raise TypeError(f"argument 1 must be str, not {type(username).__name__}")
        if not isinstance(secret, Secret):
            raise TypeError(f"argument 2 must be str, not {type_name_of(secret)}")
        self._running()
        self._settings.credentials.replace(username, secret)

    # --- transactions --------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1.0) -> None:
        """Get a producer id; end the transactions of earlier producers of ``transactional.id``.

        Args:
            timeout: seconds to wait; negative: twice ``transaction.timeout.ms``, as for all
                transactional calls.

        Raises:
            KafkaException: see its ``args[0]``: ``retriable()``: call it again; ``fatal()``: the
                producer can't be used; ``txn_requires_abort()``: abort the transaction. The same
                applies to all transactional calls. ``_NOT_CONFIGURED``: there is no
                ``transactional.id``. ``_CONFLICT``: another call has not finished.
            RuntimeError: the producer is closed.
        """
        self._transactional().initialize(deadline_seconds(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._transactional().begin()

    def send_offsets_to_transaction(
        self, positions: list[Any], group_metadata: Any, timeout: float = -1.0
    ) -> None:
        """Commit offsets of consumed records with the transaction.

        Args:
            positions: a ``TopicPartition`` for each partition, of this module or of
                confluent-kafka, with the next offset to read. Negative offsets are left out.
            group_metadata: the result of ``consumer_group_metadata()`` of confluent-kafka's
                consumer, or aioproducer's :class:`ConsumerGroupMetadata`.
            timeout: seconds to wait.
        """
        group_of(group_metadata)
        left = deadline_seconds(timeout)
        self._transactional().send_offsets(positions, group_metadata, left)

    def commit_transaction(self, timeout: float = -1.0) -> None:
        """Wait for all records, calling their callbacks, and commit the transaction."""
        self._transactional().commit(deadline_seconds(timeout))

    def abort_transaction(self, timeout: float = -1.0) -> None:
        """Drop the records that were not sent, and abort the transaction.

        Their callbacks get ``_PURGE_QUEUE``, and those of failed batches their errors. The call
        waits for batches in flight; consumers do not see their records.
        """
        self._transactional().abort(deadline_seconds(timeout))

    def _transactional(self) -> Transactions:
        self._running()
        if self._transactions is None:
            raise not_configured()
        transactions: Transactions = self._transactions
        return transactions

    def _running(self) -> Worker:
        worker: Worker | None = self._worker
        if worker is None:
            raise RuntimeError(_CLOSED)
        self._check_caller()
        return worker

    def _check_callback(self, left: float | None) -> None:
        """Raise if a delivery callback would wait without limit for the record that it is for."""
        if left is None and get_ident() in self._outbox.serving:
            raise KafkaException(
                KafkaError(
                    KafkaError._STATE,
                    "a delivery callback would wait forever for its own record: give flush() a "
                    "timeout there, and call close() after poll() or flush() has returned",
                )
            )

    def _check_caller(self) -> None:
        """Raise if the caller can't wait: in a fork of the process, or in the worker's thread."""
        worker = self._worker
        if worker is not None:
            with translating():
                worker._check(waits=True)


def _served(outbox: Outbox) -> Exception | None:
    """Serve all events, also those after a callback that fails; the last error."""
    failure = None
    while outbox.events:
        try:
            outbox.serve()
        except Exception as error:
            failure = error
    return failure


def _refused(code: int) -> KafkaException:
    return KafkaException(KafkaError(code, f"Unable to produce message: {KafkaError(code).str()}"))


Serializer: TypeAlias = Callable[[Any, "SerializationContext"], bytes | None]
"""``(object, context) -> bytes``."""


class MessageField:
    """The fields of a record that a serializer may be asked for."""

    NONE: Final = "none"
    KEY: Final = "key"
    VALUE: Final = "value"


class SerializationContext:
    """The record of which a serializer gets a field.

    Args:
        topic: its topic.
        field: one of :class:`MessageField`.
        headers: its headers, as ``produce()`` got them.
    """

    def __init__(self, topic: str, field: str, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class SerializationError(Exception):
    """A serializer has failed."""


class ProduceError(KafkaException):
    """``produce()`` has failed; ``exception`` is the reason."""

    def __init__(self, kafka_error: KafkaError, exception: Exception | None = None) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = None

    @property
    def code(self) -> int:
        """The error's code."""
        return int(self.args[0].code())

    @property
    def name(self) -> str:
        """The name of the code."""
        return str(self.args[0].name())


class KeySerializationError(ProduceError, SerializationError):
    """The key could not be serialized."""

    def __init__(self, exception: Exception | None = None) -> None:
        super().__init__(KafkaError(KafkaError._KEY_SERIALIZATION, str(exception)), exception)


class ValueSerializationError(ProduceError, SerializationError):
    """The value could not be serialized."""

    def __init__(self, exception: Exception | None = None) -> None:
        super().__init__(KafkaError(KafkaError._VALUE_SERIALIZATION, str(exception)), exception)


class SerializingProducer(Producer):
    """A :class:`Producer` with the options ``key.serializer`` and ``value.serializer``.

    Each is called with the object and a :class:`SerializationContext`. Confluent's serializers for
    a schema registry work.
    """

    def __init__(self, *conf: Mapping[str, Any], **options: Any) -> None:
        conf, options = hide_arguments(conf, options)
        given = configuration(conf, options)
        self._key_serializer = _serializer(given, "key.serializer")
        self._value_serializer = _serializer(given, "value.serializer")
        super().__init__(given)

    def produce(  # type: ignore[override]  # confluent-kafka has another order as well
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Serialize a record, and put it into the queue.

        As in confluent-kafka, the order of ``key`` and ``value`` differs from that of
        :meth:`Producer.produce`.

        Raises:
            KeySerializationError, ValueSerializationError: a serializer has failed.
            BufferError, KafkaException, TypeError, RuntimeError: as for :meth:`Producer.produce`.
        """
        if self._worker is None:
            raise RuntimeError("Producer has been closed")
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        context = SerializationContext(topic, MessageField.KEY, headers)
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(key, context)
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = MessageField.VALUE
        if self._value_serializer is not None:
            try:
                value = self._value_serializer(value, context)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(
            topic,
            value,
            key,
            partition,
            on_delivery=on_delivery,
            timestamp=timestamp,
            headers=headers,
        )


def _serializer(given: dict[str, Any], name: str) -> Serializer | None:
    if f"{name}.builder" in given:
        raise KafkaException(
            KafkaError(
                KafkaError._INVALID_ARG,
                f"{name}.builder has no counterpart: build the serializer, and pass it as {name}",
            )
        )
    serializer: Serializer | None = given.pop(name, None)
    if serializer is not None and not callable(serializer):
        raise TypeError(f"{name} requires a callable object")
    return serializer


class StringSerializer:
    """Serializes ``str(obj)`` in a codec, UTF-8 by default; None stays None."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """The text's bytes. Raises :class:`SerializationError`."""
        if obj is None:
            return None
        try:
            return str(obj).encode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


class IntegerSerializer:
    """Serializes an int as 32 bits, big-endian; None stays None."""

    def __call__(self, obj: int | None, ctx: SerializationContext | None = None) -> bytes | None:
        """The 4 bytes. Raises :class:`SerializationError`."""
        return _packed(">i", obj)


class DoubleSerializer:
    """Serializes a float as 64 bits, big-endian; None stays None."""

    def __call__(self, obj: float | None, ctx: SerializationContext | None = None) -> bytes | None:
        """The 8 bytes. Raises :class:`SerializationError`."""
        return _packed(">d", obj)


def _packed(form: str, number: float | None) -> bytes | None:
    if number is None:
        return None
    try:
        return struct.pack(form, number)
    except struct.error as error:
        raise SerializationError(str(error)) from error
