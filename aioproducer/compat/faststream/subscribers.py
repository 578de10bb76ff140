"""Subscribers of FastStream that publish and acknowledge in one transaction, and their consumer.

FastStream asks for a message, handles it, and then calls ``commit()``, or ``seek()`` after an
error. So ``commit()`` commits the transaction, and ``seek()`` has it aborted before the next
message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from faststream.kafka.publisher.producer import AioKafkaFastProducerImpl
from faststream.kafka.subscriber.usecase import LogicSubscriber
from faststream.middlewares import AckPolicy

from aioproducer.compat.aiokafka import AIOKafkaProducer, TopicPartition
from aioproducer.compat.aiokafka.consumer import AIOKafkaConsumer, stopped
from aioproducer.compat.aiokafka.errors import translating
from aioproducer.compat.faststream.broker import FastProducer, Work, begin_work, without_defaults
from aioproducer.errors import ConfigError, IllegalStateError
from aioproducer.foundation.logs import ModuleLogger

logger = ModuleLogger(__name__)

_CONNECTION: Final = frozenset(
    {
        "bootstrap_servers",
        "client_id",
        "metadata_max_age_ms",
        "request_timeout_ms",
        "retry_backoff_ms",
        "security_protocol",
        "ssl_context",
        "connections_max_idle_ms",
        "sasl_mechanism",
        "sasl_plain_password",
        "sasl_plain_username",
        "sasl_kerberos_service_name",
        "sasl_kerberos_domain_name",
        "sasl_oauth_token_provider",
    }
)
"""The options of a broker that concern its connections."""
_LONGEST_BATCH: Final = 500
"""Messages of a batch, if the subscriber does not say it. Source: aiokafka's
``max_poll_records``."""


class TransactionalIds:
    """The transactional ids of a subscriber's consumers: one, or one for each of its workers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._taken: set[int] = set()

    def take(self) -> tuple[str, int]:
        """An id that is free, and its number."""
        number = next(each for each in count() if each not in self._taken)
        self._taken.add(number)
        return (f"{self._name}-{number}" if number else self._name), number

    def give_back(self, number: int) -> None:
        """The consumer of the id has ended."""
        self._taken.discard(number)


class _HandlerFailedError(Exception):
    """The handler of a message has failed: its transaction is aborted."""


class TransactionalConsumer(AIOKafkaConsumer):
    """A consumer of which a message, or a batch of them, is in a transaction.

    ``broker``: the producer of the broker, whose connections this has as well. ``ids`` has its
    transactional id. ``own``: aiokafka's options of the subscriber.
    """

    def __init__(self, broker: FastProducer, ids: TransactionalIds, **own: Any) -> None:
        self._broker = broker
        self._ids = ids
        self._producer = AioKafkaFastProducerImpl(None, None)
        self._number: int | None = None
        self._work: Work | None = None
        given = without_defaults(broker.options)
        shared = {name: value for name, value in given.items() if name in _CONNECTION}
        super().__init__(**{**shared, **own})

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the producer of the transactions, and join the group."""
        transactional_id, self._number = self._ids.take()
        transactional = {
            "acks": "all",
            "enable_idempotence": True,
            "transactional_id": transactional_id,
        }
        given = without_defaults(self._broker.options)
        producer = AIOKafkaProducer(**{**given, **transactional})
        try:
            await self._producer.connect(producer, self._broker.serializer, self._broker.codec)
            await super().start()
        except BaseException:
            number, self._number = self._number, None
            await self._end(number, producer.stop)
            raise

    async def stop(self) -> None:
        """Abort what is not acknowledged, and leave the group."""
        number, self._number = self._number, None  # it is given back once
        if self._closed or number is None:
            return
        try:
            await self._abort()
        except Exception as error:
            logger.warning("The transaction of a stopped subscriber was not aborted: %s", error)
        finally:
            await self._end(number, self._producer.disconnect)

    async def _end(self, number: int | None, end_producer: Callable[[], Awaitable[None]]) -> None:
        """Leave the group and end the producer. Another may then have its transactional id."""
        try:
            await super().stop()
        finally:
            await end_producer()
            if number is not None:
                self._ids.give_back(number)

    # --- what FastStream's listener logs ---------------------------------------------------

    @property
    def _coordinator(self) -> SimpleNamespace:
        member = None if self._reading is None else self._reading.group_metadata
        return SimpleNamespace(member_id="" if member is None else member.member_id)

    @property
    def _subscription(self) -> SimpleNamespace:
        return SimpleNamespace(topics=self.subscription())

    # --- messages --------------------------------------------------------------------------

    async def getone(self, *_: Any) -> Any:
        """The next message, in a transaction of its own."""
        [record] = await self._next(1)
        return record

    async def getmany(
        self, *_: Any, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[Any, list[Any]]:
        """The next messages by partition, in one transaction; none after ``timeout_ms``."""
        await self._abort()
        try:
            async with asyncio.timeout(timeout_ms / 1000) as bound:
                records = await self._next(max_records or _LONGEST_BATCH)
        except TimeoutError:
            if not bound.expired():
                raise
            return {}
        found: dict[Any, list[Any]] = {}
        for record in records:
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def _next(self, most: int) -> list[Any]:
        """The next messages. Those that are not acknowledged come again."""
        await self._abort()
        with translating():
            reading = await self._started_reading()
            works = reading.transactions(self._producer._producer.producer, max_records=most)
            try:
                records = await anext(works)
            except StopAsyncIteration:
                raise stopped() from None
            await records.__aenter__()
        self._work = Work(self._broker, self._producer, records)
        begin_work(self._work)
        return [*map(reading.converted, records)]

    async def commit(self, offsets: object = None) -> None:
        """Commit the transaction of the last message, with what was published, and its offset.

        If the group refuses the offset, because it has moved the partition, the transaction is
        aborted, and the log says so.
        """
        work = self._work
        if work is None or work.failed:
            raise IllegalStateError("there is no message to acknowledge")
        self._work, work.open = None, False
        with translating():
            await work.records.__aexit__(None, None, None)

    def seek(self, partition: object, offset: object) -> None:
        """Let the last message come again, and its transaction be aborted."""
        if self._work is not None:
            self._work.failed, self._work.open = True, False

    async def _abort(self) -> None:
        """End the transaction of a message that was not acknowledged: it comes again."""
        work, self._work = self._work, None
        if work is None:
            return
        work.open = False
        error = _HandlerFailedError("the handler has failed")
        with translating():
            await work.records.__aexit__(_HandlerFailedError, error, None)


Subscriber = TypeVar("Subscriber", bound=LogicSubscriber[Any])


def exactly_once(subscriber: Subscriber, *, transactional_id: str) -> Subscriber:
    """Let ``subscriber`` write what its handler publishes and its offset in one transaction.

    ::

        @exactly_once(
            broker.subscriber(
                "orders", group_id="billing", ack_policy=AckPolicy.NACK_ON_ERROR
            ),
            transactional_id="billing-1",
        )
        @broker.publisher("invoices")
        async def bill(order: dict) -> dict: ...

    A handler that returns commits the transaction. An exception aborts it, and the message is
    delivered again. The members of the group are aioproducer's Consumers; with ``max_workers`` each
    of them has its own transactional id, with a number at the end. Returns ``subscriber``.

    ``transactional_id``: names this subscriber in this process, and is the same after a restart.
    Each process needs its own.

    Raises:
        ConfigError: the subscriber has no group, has assigned partitions, or another
            acknowledgement policy than ``NACK_ON_ERROR``; or the id is not a ``str``.
    """
    if not isinstance(transactional_id, str) or not transactional_id.strip():
        raise ConfigError("transactional_id must be a str that is not empty")
    if not subscriber.group_id:
        raise ConfigError("exactly_once() needs a subscriber with a group_id, which keeps offsets")
    if subscriber._partitions:
        raise ConfigError("exactly_once() needs topics or a pattern, not partitions")
    if subscriber.ack_policy is not AckPolicy.NACK_ON_ERROR:
        raise ConfigError(
            "exactly_once() needs a subscriber with ack_policy=AckPolicy.NACK_ON_ERROR, not "
            f"{subscriber.ack_policy}: the transaction ends after the handler"
        )
    kind = type(subscriber)
    if not issubclass(kind, _ExactlyOnce):
        changed = cast("Any", subscriber)
        namespace = {"__slots__": (), "__module__": kind.__module__}
        changed.__class__ = type(kind.__name__, (_ExactlyOnce, kind), namespace)
        changed.transactional_ids = TransactionalIds(transactional_id)
    return subscriber


class _ExactlyOnce:
    """A subscriber's class with another one below it."""

    __slots__ = ()

    _outer_config: Any
    transactional_ids: TransactionalIds

    @property
    def builder(self) -> Callable[..., Any]:
        """The factory of consumers; FastStream's test client has its own."""
        producer = self._outer_config.producer
        if isinstance(producer, FastProducer):
            rack = self._outer_config.client_rack
            given = {} if rack is None else {"client_rack": rack}
            return partial(TransactionalConsumer, producer, self.transactional_ids, **given)
        if isinstance(producer, AioKafkaFastProducerImpl):
            raise IllegalStateError(
                "exactly_once() needs a broker that publishes with aioproducer: "
                "use_aioproducer(broker)"
            )
        return cast("Callable[..., Any]", self._outer_config.builder)
