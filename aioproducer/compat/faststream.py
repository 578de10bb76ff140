"""Let FastStream's Kafka broker publish with aioproducer.

::

    from faststream.kafka import KafkaBroker
    from aioproducer.compat.faststream import use_aioproducer

    broker = use_aioproducer(KafkaBroker("localhost:9092"))

FastStream keeps the producer of a broker in ``broker.config.broker_config.producer``, and its own
test client replaces it there. :func:`use_aioproducer` does the same. Consumers and the admin client
are still aiokafka's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.errors import IllegalStateError, MissingExtraError

try:
    from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]
    from aiokafka.producer.producer import _missing  # type: ignore[import-untyped]
    from faststream.kafka import KafkaBroker
    from faststream.kafka.publisher.producer import AioKafkaFastProducerImpl
except ImportError as error:
    raise MissingExtraError(
        "aioproducer.compat.faststream needs FastStream: pip install 'faststream[kafka]'"
    ) from error

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.parser import CodecProto

__all__ = ["use_aioproducer"]

Broker = TypeVar("Broker", bound="KafkaBroker")


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
    if isinstance(replaced, _FastProducer):
        return broker
    if not isinstance(replaced, AioKafkaFastProducerImpl) or replaced:
        raise IllegalStateError(
            "use_aioproducer() needs a broker that is not connected, and outside of"
            " TestKafkaBroker: call it where the broker is made"
        )
    config.producer = _FastProducer(replaced, broker._connection_kwargs)
    return broker


class _FastProducer(AioKafkaFastProducerImpl):
    """FastStream's producer, with another one below than FastStream gives it."""

    def __init__(self, replaced: AioKafkaFastProducerImpl, options: dict[str, Any]) -> None:
        super().__init__(None, None)
        self._parser, self._decoder = replaced._parser, replaced._decoder
        self._options = options

    async def connect(
        self,
        producer: Any,
        serializer: SerializerProto | None,
        codec: CodecProto | None = None,
    ) -> None:
        """Start a producer of ours with the broker's options, in place of aiokafka's."""
        await producer.stop()  # it was not started, and would complain at its end
        ours = AIOKafkaProducer(**_without_defaults(self._options))
        await super().connect(ours, serializer, codec)


def _without_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """The options without objects that stand for a default."""
    return {
        name: value
        for name, value in options.items()
        if value is not _missing and name != "loop" and not isinstance(value, DefaultPartitioner)
    }
