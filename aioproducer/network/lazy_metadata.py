"""A Metadata response that is decoded in steps. No I/O.

A response with thousands of topics takes long to decode. So the callback that brings it does not
decode it: the refresher does, a piece at a time. kio's classes give the layout, and its primitives
read the values. Tagged fields are skipped, for none is known (KIP-482), and so are left-over bytes.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Collection, Container, Generator, Iterator
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin

from kio.serial import readers
from kio.static.protocol import ResponsePayload

from aioproducer.cluster.metadata_response import MetadataNews, Piece, read_metadata
from aioproducer.errors import ProtocolError
from aioproducer.network import frames
from aioproducer.network.kio_guards import walk_header

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""A value of the bytes at an offset, and how many bytes it has."""

_PLAIN: Final[dict[str, Read]] = {
    "bool": readers.read_boolean,
    "error_code": readers.read_int16,  # a newer broker's is a number, too
    "int32": readers.read_int32,
    "timedelta_i32": readers.read_int32,
    "uuid": readers.read_uuid,
}


class LazyMetadataResponse:
    """The bytes of a response of ``kind``, header included.

    ``on_refusal`` gets the error if the bytes can't be decoded; ``on_left_over`` is called for
    bytes behind the end. Raises :class:`ProtocolError` if the header can't be decoded.
    """

    def __init__(
        self,
        kind: type[ResponsePayload],
        body: bytes,
        *,
        on_refusal: Callable[[ProtocolError], None],
        on_left_over: Callable[[], None],
    ) -> None:
        self.version = int(kind.__version__)
        self._kind: Any = kind
        self._body = body
        self._on_refusal = on_refusal
        self._on_left_over = on_left_over
        try:
            self._start = walk_header(kind.__header_schema__, body)
            milliseconds, _ = readers.read_int32(body, self._start)
        except Exception as error:
            raise self._undecodable(error) from error
        self.throttle_time = datetime.timedelta(milliseconds=milliseconds)
        """The pause that the broker asks for."""

    def read(
        self, asked: Container[str], detailed: Collection[str] = ()
    ) -> Generator[None, None, MetadataNews]:
        """The metadata of the topics ``asked``, in steps (:func:`read_metadata`).

        Any exception on the way becomes a :class:`ProtocolError`, and refuses the response.
        """
        try:
            news = yield from read_metadata(self.pieces(), self.version, asked, detailed)
        except Exception as error:
            refusal = error if isinstance(error, ProtocolError) else self._undecodable(error)
            self._on_refusal(refusal)
            raise refusal from error
        return news

    def whole(self) -> Any:
        """The whole response at once, for requests about few topics. Raises as :meth:`read`."""
        try:
            return frames.decode_response(self._kind, self._body).response
        except ProtocolError as refusal:
            self._on_refusal(refusal)
            raise

    def pieces(self) -> Iterator[Piece]:
        """Its parts in their order."""
        end = yield from _walk(self._kind, self._body, self._start)
        if end < len(self._body):
            self._on_left_over()

    def _undecodable(self, error: Exception) -> ProtocolError:
        return ProtocolError(
            f"a MetadataResponse (version {self.version}) of {len(self._body)} bytes can't be "
            f"understood: {type(error).__name__}: {error}"
        )


class _Field(NamedTuple):
    name: str
    read: Read | None
    """None: it is a list of structs."""
    inner: Any = None


@cache
def _plan(kind: Any) -> tuple[_Field, ...]:
    """The readers of the fields of a struct of kio's."""
    return tuple(
        _planned(each.name, each.type, each.metadata.get("kafka_type"), bool(kind.__flexible__))
        for each in fields(kind)
    )


def _planned(name: str, declared: Any, kafka_type: str | None, flexible: bool) -> _Field:
    if get_origin(declared) is tuple and kafka_type is None:
        return _Field(name, None, get_args(declared)[0])
    if get_origin(declared) is tuple:
        return _Field(name, _read_numbers(_length_reader(flexible)))
    if kafka_type != "string":
        return _Field(name, _PLAIN[str(kafka_type)])
    if NoneType in get_args(declared):
        return _Field(
            name,
            readers.read_compact_string_nullable
            if flexible
            else readers.read_nullable_legacy_string,
        )
    return _Field(name, readers.read_compact_string if flexible else readers.read_legacy_string)


def _length_reader(flexible: bool) -> Read:
    return readers.read_compact_array_length if flexible else readers.read_legacy_array_length


def _read_numbers(length: Read) -> Read:
    """Of an array of ``int32``."""

    def read(body: bytes, offset: int) -> tuple[tuple[int, ...], int]:
        count, size = length(body, offset)
        if count <= 0:
            return (), size
        _check_count(count, 4, body, offset + size)
        return struct.unpack_from(f">{count}i", body, offset + size), size + count * 4

    return read


def _check_count(count: int, least: int, body: bytes, offset: int) -> None:
    left = max(len(body) - offset, 0)
    if count * least > left:
        raise ProtocolError(f"an array announces {count} elements, but only {left} bytes follow")


def _walk(kind: Any, body: bytes, offset: int) -> Generator[Piece, None, int]:
    """The structs in a struct, and then itself; returns where it ends."""
    values: dict[str, Any] = {}
    for name, read, inner in _plan(kind):
        if read is not None:
            values[name], size = read(body, offset)
            offset += size
            continue
        count, size = _length_reader(kind.__flexible__)(body, offset)
        offset += size
        _check_count(count, 1, body, offset)
        for _ in range(count):
            offset = yield from _walk(inner, body, offset)
    if kind.__flexible__:
        offset = _skip_tagged(body, offset)
    yield Piece(kind.__name__, values)
    return offset


def _skip_tagged(body: bytes, offset: int) -> int:
    count, size = readers.read_unsigned_varint(body, offset)
    offset += size
    _check_count(count, 2, body, offset)
    for _ in range(count):
        _, size = readers.read_unsigned_varint(body, offset)
        offset += size
        length, size = readers.read_unsigned_varint(body, offset)
        offset += size + length
        if offset > len(body):
            raise ProtocolError(f"a tagged field announces {length} bytes, but fewer follow")
    return offset
