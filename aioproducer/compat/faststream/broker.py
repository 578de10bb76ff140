"""A broker of FastStream that publishes with aioproducer.

FastStream keeps the producer of a broker in ``broker.config.broker_config.producer``, and its own
test client replaces it there. :func:`use_aioproducer` does the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]
from aiokafka.producer.producer import _missing  # type: ignore[import-untyped]
from faststream.kafka import KafkaBroker
from faststream.kafka.publisher.producer import AioKafkaFastProducerImpl

from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.compat.aiokafka.options import hide_keywords
from aioproducer.compat.faststream.work import work_of
from aioproducer.errors import IllegalStateError

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.parser import CodecProto
    from faststream.kafka.response import KafkaPublishCommand

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
            " TestKafkaBroker: call it where the broker is made"
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
