"""FastStream's Kafka broker on aioproducer.

::

    from faststream.kafka import KafkaBroker
    from aioproducer.compat.faststream import use_aioproducer

    broker = use_aioproducer(KafkaBroker("localhost:9092"))

:func:`use_aioproducer` lets the broker publish with aioproducer. :func:`exactly_once` lets a
subscriber write what its handler publishes and the offset of its message in one transaction. The
other subscribers and the admin client are still aiokafka's.
"""

from aioproducer.errors import MissingExtraError

try:
    from aioproducer.compat.faststream.broker import use_aioproducer
    from aioproducer.compat.faststream.subscribers import exactly_once
except ImportError as error:
    raise MissingExtraError(
        "aioproducer.compat.faststream needs FastStream: pip install 'faststream[kafka]'"
    ) from error

__all__ = ["exactly_once", "use_aioproducer"]
