"""The base of the deserializers: the counterparts of the serializers, for any consumer."""

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
    """Turns the bytes of keys or values into objects.

    It is a function as well, which takes the bytes alone: as ``value_deserializer`` of aiokafka and
    kafka-python, and as a deserializer of confluent-kafka, whose context has topic and headers.
    """

    @abstractmethod
    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> T_co | None:
        """The object that ``data`` stands for; None for Kafka's null.

        Raises:
            SerializationError: ``data`` is nothing that the serializer makes.
        """

    def __call__(self, data: bytes | None, context: Any = None) -> T_co | None:
        """Call :meth:`deserialize`, with the topic and headers of a ``SerializationContext``."""
        if context is None:
            return self.deserialize("", data)
        headers = context.headers or ()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return self.deserialize(context.topic, data, tuple(pairs))
