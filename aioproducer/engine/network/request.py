"""A request as its sender makes it, and the responses that are read in steps. No I/O.

A :class:`Request` gets its version when a broker is chosen for it.

A response with thousands of topics or partitions takes long to decode. So the callback that brings
it does not decode it. Metadata and Fetch are read by the part of the client that asked, a piece at
a time (:class:`LazyResponse`); the connection reads all other large ones before the response after
them (:func:`decode_in_steps`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Generator, Iterator
from typing import Any, ClassVar, Final, Protocol, TypeVar

from aioproducer.engine.cluster.metadata_response import MetadataNews, read_metadata
from aioproducer.engine.network.frames import (
    Decoded,
    EncodedPayload,
    encoded,
    left_over,
    response_start,
    undecodable,
)
from aioproducer.engine.protocol import Api, Schema, request_schema, response_schema
from aioproducer.errors import ProtocolError


class Request(Protocol):
    """A request before its version is chosen for a broker."""

    @property
    def api(self) -> Api:
        """The API of the request."""

    @property
    def answered(self) -> bool:
        """True if the broker responds; else (``acks=0``) the request is complete once written."""

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``. Raises :class:`ProducerError` if ``version`` lacks it."""

    def read(self, response: Any) -> Any:
        """The value of a response. Pure.

        An exception for an impossible response ends its connection, and has no other effect.
        A :class:`LazyResponse` is read in steps, which end the same way.
        """


class SchemaRequest(ABC):
    """A :class:`Request` that is one message of its schema. Produce builds its bytes itself."""

    __slots__ = ()

    api: ClassVar[Api]
    answered: ClassVar[bool] = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or in the highest one below it that means the same."""
        version = self.chosen_version(version)
        return encoded(self.api, version, self.message(request_schema(self.api), version))

    def chosen_version(self, version: int) -> int:
        """``version``, or the highest one below it that means the same."""
        return version

    @abstractmethod
    def message(self, schema: Schema, version: int) -> Any:
        """The message of ``schema``. Raises :class:`ProducerError` if ``version`` lacks it."""

    @abstractmethod
    def read(self, response: Any) -> Any:
        """See :meth:`Request.read`."""


_THROTTLE_BYTES: Final = 4

_STEPS_PER_TURN: Final = 1_000
"""Elements of a large response that are decoded in one turn, at two microseconds each."""
_BYTES_PER_TURN: Final = 1 << 18
"""Bytes of a large response that are decoded in one turn, about."""
_T = TypeVar("_T")


def decode_in_steps(
    api: Api, version: int, body: bytes
) -> Generator[None, None, tuple[Decoded, int]]:
    """As :func:`~aioproducer.engine.network.frames.decode_response`, with the number of elements of
    lists. A step is what one turn of the event loop bears."""
    schema = response_schema(api)
    elements = turn_began = place = 0
    try:
        start = response_start(api, version, body)
        decoding = schema.decode_with_rests(body, start, version)
        while True:
            try:
                place = next(decoding)
            except StopIteration as stop:
                response, end = stop.value
                break
            elements += 1
            if not elements % _STEPS_PER_TURN or place > turn_began + _BYTES_PER_TURN:
                turn_began = place
                yield
    except Exception as error:
        raise undecodable(api, version, body, error) from error
    return Decoded(response, left_over(api, version, body, end)), elements


class LazyResponse:
    """The bytes of a response of ``api`` in ``version``, header included.

    ``on_refusal`` gets the error if the bytes can't be decoded; ``on_left_over`` is called for
    bytes after the end. Raises :class:`ProtocolError` if the header can't be decoded.
    """

    def __init__(
        self,
        api: Api,
        version: int,
        body: bytes,
        *,
        on_refusal: Callable[[ProtocolError], None],
        on_left_over: Callable[[], None],
    ) -> None:
        self._api = api
        self._version = version
        self._body = body
        self._on_refusal = on_refusal
        self._on_left_over = on_left_over
        try:
            start = self._start = response_start(api, version, body)
            first = body[start : start + _THROTTLE_BYTES]
            if len(first) < _THROTTLE_BYTES:
                raise EOFError(f"it ends at byte {len(body)}")
        except Exception as error:
            raise self._undecodable(error) from error
        self.throttle_time_ms = int.from_bytes(first, "big", signed=True)
        """The pause that the broker asks for; it is the first field in all versions."""

    def steps(self, reading: Generator[None, None, _T]) -> Generator[None, None, _T]:
        """The steps of ``reading``, which takes :meth:`pieces`.

        Any exception on the way becomes a :class:`ProtocolError`, and refuses the response.
        """
        try:
            result = yield from reading
        except Exception as error:
            refusal = error if isinstance(error, ProtocolError) else self._undecodable(error)
            self._on_refusal(refusal)
            raise refusal from error
        return result

    def pieces(self, *, lists: bool = True) -> Iterator[Any]:
        """Its structs in their order; ``lists``: with the lists of numbers."""
        schema = response_schema(self._api)
        end = yield from schema.decode_in_steps(
            self._body, self._start, self._version, numbers=lists
        )
        if left_over(self._api, self._version, self._body, end):
            self._on_left_over()

    def _undecodable(self, error: Exception) -> ProtocolError:
        return undecodable(self._api, self._version, self._body, error)


class LazyMetadataResponse(LazyResponse):
    """A response of Metadata."""

    def __init__(
        self,
        version: int,
        body: bytes,
        *,
        on_refusal: Callable[[ProtocolError], None],
        on_left_over: Callable[[], None],
    ) -> None:
        super().__init__(
            Api.METADATA, version, body, on_refusal=on_refusal, on_left_over=on_left_over
        )

    def read(
        self, asked: Container[str], detailed: Collection[str] = ()
    ) -> Generator[None, None, MetadataNews]:
        """The metadata of the topics ``asked`` (:func:`read_metadata`), as :meth:`steps`."""
        pieces = self.pieces(lists=bool(detailed))
        return self.steps(read_metadata(pieces, self._version, asked, detailed))
