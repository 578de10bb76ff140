"""The types of keys and values: the parameters of ``Producer[K, V]`` and ``Consumer[K, V]``, and
those of serializers and deserializers.

Only type checkers see the defaults of the parameters and the aliases below them, so nothing has to
be installed for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

MYPY = False
"""mypy takes it for True."""

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable
    from typing import Protocol, TypeAlias

    from typing_extensions import Buffer, TypeVar

    from aioproducer.model import Header, ProducerRecord

    K_contra = TypeVar("K_contra", contravariant=True, default=Any)
    V_contra = TypeVar("V_contra", contravariant=True, default=Any)
    K_co = TypeVar("K_co", covariant=True, default=Any)
    V_co = TypeVar("V_co", covariant=True, default=Any)
    ReadKey = TypeVar("ReadKey", covariant=True, default=bytes)
    ReadValue = TypeVar("ReadValue", covariant=True, default=bytes)
    Value = TypeVar("Value", default=Any)
    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    T_contra = TypeVar("T_contra", contravariant=True)

    Plain: TypeAlias = Buffer | str
    """Keys and values that need no serializer."""
    SentKey = TypeVar("SentKey", default=Plain)
    SentValue = TypeVar("SentValue", default=Plain)

    class ConfigOf(Protocol[K_contra, V_contra]):
        """A :class:`ProducerConfig`, whose serializers no type checker knows: both are Any."""

        def _sends(self, key: K_contra, value: V_contra) -> None: ...

    class SerializesWithHeaders(Protocol[T_contra]):
        """An object that sees the headers of each record."""

        def serialize(
            self, topic: str, data: T_contra, headers: list[Header], /
        ) -> Buffer | None: ...

    class SerializesData(Protocol[T_contra]):
        """An object that does not see the headers."""

        def serialize(self, topic: str, data: T_contra, /) -> Buffer | None: ...

    if MYPY:

        class ForPyright(Protocol):
            """A member of the protocols below that no object has."""

            for_pyright: None
    else:

        class ForPyright(Protocol):
            """Nothing."""

    # mypy infers types by type[...] alone. pyright does not, if it has seen an object of the class.
    class ClassWithHeaders(ForPyright, Protocol[T_contra]):
        """The class of an object that sees the headers."""

        def __call__(self) -> SerializesWithHeaders[T_contra]: ...

    class ClassWithData(ForPyright, Protocol[T_contra]):
        """The class of an object that does not see the headers."""

        def __call__(self) -> SerializesData[T_contra]: ...

    class SerializerFunction(Protocol[T_contra]):
        """A function. mypy finds no type for a lambda's parameter here, and so takes Any."""

        def __call__(self, data: T_contra, /) -> Buffer | None: ...

    class LambdaFunction(ForPyright, Protocol):
        """A lambda whose parameter has a type that pyright cannot infer; mypy can."""

        def __call__(self, data: Any, /) -> Buffer | None: ...

    SerializerOf: TypeAlias = (
        SerializesWithHeaders[T]
        | SerializesData[T]
        | type[SerializesWithHeaders[T]]
        | type[SerializesData[T]]
        | ClassWithHeaders[T]
        | ClassWithData[T]
        | SerializerFunction[T]
        | LambdaFunction
    )
    """The serializer of a producer's keys or values: an object, a class or a function."""

    NO_SERIALIZER: SerializesData[Plain]

    class DecodesData(Protocol[T_co]):
        """A deserializer of :mod:`aioproducer.schema_registry`."""

        def decode(
            self, topic: str, data: bytes | None, headers: tuple[Header, ...], /
        ) -> T_co | None: ...

    DeserializerOf: TypeAlias = DecodesData[T] | Callable[[bytes], T | None]
    """The deserializer of a consumer's keys or values: a function, or an object that is called as
    one, as each of :mod:`aioproducer.serialization` is."""

    class ArrowColumns(Protocol):
        """A ``RecordBatch``, ``Table``, ``Array`` or ``ChunkedArray`` of pyarrow."""

        @property
        def nbytes(self) -> int: ...

        def validate(self, *, full: bool = ...) -> None: ...

    K = TypeVar("K")
    V = TypeVar("V")
    ValuesToSend: TypeAlias = Iterable[ProducerRecord[K | None, V | None] | V | None] | ArrowColumns
    """The values of a blocking ``send_many()``."""
    AsyncValuesToSend: TypeAlias = (
        ValuesToSend[K, V] | AsyncIterable[ProducerRecord[K | None, V | None] | V | None]
    )
    """The values of a ``send_many()``."""
else:
    from typing import TypeVar

    NO_SERIALIZER = None  # pyright takes the types of keys and values from this default

    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)
    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)
    ReadKey = TypeVar("ReadKey", covariant=True)
    ReadValue = TypeVar("ReadValue", covariant=True)
    Value = TypeVar("Value")
