"""The base class of the deserializers: the counterparts of the serializers, for any consumer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from aioproducer.model import Header

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class Deserializer(ABC, Generic[T_co]):
    """Converts the bytes of keys or values to objects.

    You can also call it as a function of the bytes. So it works as ``value_deserializer`` in
    aiokafka and kafka-python, and as a deserializer in confluent-kafka, whose context contains
    topic and headers.
    """

    @abstractmethod
    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> T_co | None:
        """Return the object for ``data``; None for Kafka's null.

        Raises:
            SerializationError: ``data`` is not what the serializer produces.
        """

    def __call__(self, data: bytes | None, context: Any = None) -> T_co | None:
        """Call :meth:`deserialize`, with the topic and headers of a ``SerializationContext``."""
        if context is None:
            return self.deserialize("", data)
        headers = context.headers or ()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return self.deserialize(context.topic, data, tuple(pairs))
