"""A broker of FastStream that publishes with aioproducer, within the transaction of a message.

FastStream keeps the producer of a broker in ``broker.config.broker_config.producer``, and its own
test client replaces it there. :func:`use_aioproducer` does the same. :class:`Work` is the message
that a handler works on, known to what the handler publishes.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]
from aiokafka.producer.producer import _missing  # type: ignore[import-untyped]
from faststream.kafka import KafkaBroker
from faststream.kafka.publisher.producer import AioKafkaFastProducerImpl

from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.compat.aiokafka.options import hide_keywords
from aioproducer.consumer.transactions import TransactionalWork
from aioproducer.errors import IllegalStateError

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.parser import CodecProto
    from faststream.kafka.response import KafkaPublishCommand


class Work:
    """The records of a message, and their transaction. ``broker``: the broker's producer."""

    def __init__(self, broker: object, producer: Any, records: TransactionalWork) -> None:
        self.broker = broker
        self.failed = False
        """True: the transaction is to be aborted."""
        self.open = True
        """False: the transaction has ended, or is about to end."""
        self.records = records
        self._producer = producer

    def producer(self) -> Any:
        """FastStream's producer, as long as the transaction is open."""
        if not self.open:
            raise IllegalStateError(
                "the transaction of this message has ended: publish before the handler returns, "
                "and leave the acknowledgement to FastStream"
            )
        return self._producer


_WORK: Final[ContextVar[Work | None]] = ContextVar("aioproducer_faststream_work", default=None)
"""What the current task works on, and the tasks that it starts."""


def begin_work(work: Work) -> None:
    """From now on the current task works on ``work``."""
    _WORK.set(work)


def work_of(broker: object) -> Work | None:
    """The work of the current task, if its messages come from this broker."""
    work = _WORK.get()
    return work if work is not None and work.broker is broker else None


Broker = TypeVar("Broker", bound=KafkaBroker)


def use_aioproducer(broker: Broker) -> Broker:
    """Let ``broker`` publish with aioproducer. Returns ``broker``.

    The options are those of ``broker``. Call this before the broker connects; with FastAPI, call
    ``use_aioproducer(router.broker)``. A second call does nothing.

    Raises:
        IllegalStateError: the broker is connected, or has another kind of producer, as in
            ``TestKafkaBroker``.
    """
    config = broker.config.broker_config
    replaced = config.producer
    if isinstance(replaced, FastProducer):
        return broker
    if not isinstance(replaced, AioKafkaFastProducerImpl) or replaced:
        raise IllegalStateError(
            "use_aioproducer() needs a broker that is not connected, and outside of"
            " TestKafkaBroker: call it where the broker is created"
        )
    config.producer = FastProducer(replaced, broker._connection_kwargs)
    return broker


class FastProducer(AioKafkaFastProducerImpl):
    """FastStream's producer, with another one below than FastStream gives it."""

    def __init__(self, replaced: AioKafkaFastProducerImpl, options: dict[str, Any]) -> None:
        super().__init__(None, None)
        self._parser, self._decoder = replaced._parser, replaced._decoder
        self.options: dict[str, Any] = options
        """The options of the broker, with aiokafka's names."""

    async def connect(
        self,
        producer: Any,
        serializer: SerializerProto | None,
        codec: CodecProto | None = None,
    ) -> None:
        """Start a producer of ours with the broker's options, in place of aiokafka's."""
        await producer.stop()  # it was not started, and would complain at its end
        ours = AIOKafkaProducer(**without_defaults(self.options))
        await super().connect(ours, serializer, codec)

    async def publish(self, cmd: KafkaPublishCommand) -> asyncio.Future[Any] | Any:
        """Publish a message, in the transaction of the handler that calls this, if it has one."""
        work = work_of(self)
        if work is None:
            return await super().publish(cmd)
        return await work.producer().publish(cmd)

    async def publish_batch(self, cmd: KafkaPublishCommand) -> asyncio.Future[Any] | Any:
        """Publish messages as :meth:`publish` does."""
        work = work_of(self)
        if work is None:
            return await super().publish_batch(cmd)
        return await work.producer().publish_batch(cmd)


def without_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """The options without objects that stand for a default; the password is not shown."""
    given = {
        name: value
        for name, value in options.items()
        if value is not _missing and name != "loop" and not isinstance(value, DefaultPartitioner)
    }
    hide_keywords(given)
    return given
