"""The options that take the user's own code: partitioner, serializers, interceptors.

Only the outer shape is checked here. The contracts of the objects stand in ``partitioning.py``,
``serialization.py`` and ``interceptors.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from aioproducer.config.kinds import Kind, UnacceptableError

__all__ = [
    "InterceptorOption",
    "Interceptors",
    "NamedPartitioner",
    "Partitioner",
    "PartitionerOption",
    "Serializer",
    "SerializerOption",
    "SupportsPartition",
    "SupportsSerialize",
]


class SupportsPartition(Protocol):
    """An object with a ``partition`` method; its arguments are ``partitioning.py``'s matter."""

    @property
    def partition(self) -> Callable[..., Any]: ...


class SupportsSerialize(Protocol):
    """An object with a ``serialize`` method; its arguments are ``serialization.py``'s matter."""

    @property
    def serialize(self) -> Callable[..., Any]: ...


NamedPartitioner = Literal["round_robin", "murmur3", "consistent_random"]
_KAFKAS_OWN: Final = "murmur2_random"
"""librdkafka's name for Kafka's own rule, which is None here."""
PartitionerOption: TypeAlias = NamedPartitioner | SupportsPartition | Callable[..., Any]
SerializerOption: TypeAlias = SupportsSerialize | Callable[..., Any]
InterceptorOption: TypeAlias = object
"""An object with ``on_send`` or ``on_acknowledgement``, or a callable that makes one."""

_JAVA_PACKAGE: Final = "org.apache.kafka.clients.producer."
_JAVA_PARTITIONERS: Final[dict[str, NamedPartitioner]] = {
    f"{_JAVA_PACKAGE}RoundRobinPartitioner": "round_robin",
}
_JAVA_SERIALIZERS: Final = frozenset(
    f"org.apache.kafka.common.serialization.{name}Serializer"
    for name in ("String", "ByteArray", "ByteBuffer", "Bytes")
)


def _is_hook(value: object, *methods: str) -> bool:
    return callable(value) or any(callable(getattr(value, name, None)) for name in methods)


class Partitioner(Kind[PartitionerOption | None]):
    wording = (
        "None (Kafka's own rule; also 'murmur2_random'), 'round_robin', 'murmur3',"
        " 'consistent_random' (librdkafka's default), a callable, or a class or object with"
        " a partition() method"
    )

    def accept(self, value: object) -> Any:
        if isinstance(value, str):
            name = value.strip().lower()
            if name in get_args(NamedPartitioner):
                return name
            if name == _KAFKAS_OWN:
                return None
        elif value is None or _is_hook(value, "partition"):
            return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> Any:
        try:
            return _JAVA_PARTITIONERS.get(text.strip()) or self.accept(text)
        except UnacceptableError:
            raise UnacceptableError(
                f"one of {', '.join((*_JAVA_PARTITIONERS, *get_args(NamedPartitioner)))},"
                f" {_KAFKAS_OWN};"
                " give your own as keyword: from_properties(…, partitioner=…)"
            ) from None


class Serializer(Kind[SerializerOption | None]):
    wording = (
        "None (bytes pass as they are, str as UTF-8), a callable,"
        " or a class or object with a serialize() method"
    )

    def __init__(self, keyword: str) -> None:
        self.keyword = keyword

    def accept(self, value: object) -> Any:
        if value is None or _is_hook(value, "serialize"):
            return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> None:
        if text.strip() not in _JAVA_SERIALIZERS:
            raise UnacceptableError(
                "the class name of Kafka's String-, ByteArray-, ByteBuffer- or BytesSerializer;"
                f" give your own as keyword: from_properties(…, {self.keyword}=…)"
            )


class Interceptors(Kind[tuple[InterceptorOption, ...]]):
    wording = (
        "a sequence of objects with on_send() or on_acknowledgement(),"
        " or of classes or callables that make one"
    )

    def accept(self, value: object) -> tuple[InterceptorOption, ...]:
        if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
            raise UnacceptableError(self.wording)
        interceptors = tuple(value)
        if not all(_is_hook(item, "on_send", "on_acknowledgement") for item in interceptors):
            raise UnacceptableError(self.wording)
        return interceptors

    def parse(self, text: str) -> tuple[InterceptorOption, ...]:
        if text.strip():
            raise UnacceptableError(
                "nothing here: Java classes cannot be loaded; give the interceptors as keyword:"
                " from_properties(…, interceptor_classes=[…])"
            )
        return ()
