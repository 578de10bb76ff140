"""A Metadata response that is decoded in steps. No I/O.

A response with thousands of topics takes long to decode. So the callback that brings it does not
decode it: the refresher does, a piece at a time. kio's classes give the layout. Tagged fields are
skipped, for none is known (KIP-482), and so are left-over bytes.

Every topic of a cold start is read here, so numbers beside each other are read in one call.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Collection, Container, Generator, Iterator
from dataclasses import Field, fields
from functools import cache
from itertools import groupby
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin
from uuid import UUID

from kio.serial import readers
from kio.static.protocol import ResponsePayload

from aioproducer.cluster.metadata_response import MetadataNews, Piece, read_metadata
from aioproducer.errors import ProtocolError
from aioproducer.network import frames
from aioproducer.network.kio_guards import length_reader, walk_header

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""The value of the bytes at an offset, and the offset of its end.

The end may be behind the bytes' end, which the next read or the end of the response finds out.
"""

_NUMBERS: Final = {
    "bool": "?",
    "error_code": "h",  # a newer broker's is a number, too
    "int32": "i",
    "timedelta_i32": "i",
}
"""The formats of :mod:`struct`."""

_NO_ID: Final = bytes(16)


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
        if end > len(self._body):
            raise self._undecodable(EOFError(f"its last field ends at byte {end}"))
        if end < len(self._body):
            self._on_left_over()

    def _undecodable(self, error: Exception) -> ProtocolError:
        return ProtocolError(
            f"a MetadataResponse (version {self.version}) of {len(self._body)} bytes can't be "
            f"understood: {type(error).__name__}: {error}"
        )


class _Layout(NamedTuple):
    """The order in which a struct of kio's is read."""

    name: str
    flexible: bool
    parts: tuple[tuple[Read | None, tuple[str, ...], Any], ...]
    """Each reads the values of some fields. Without a reader: a list of structs, and their kind."""
    is_leaf: bool
    """True if it has no list of structs."""


@cache
def _layout(kind: Any) -> _Layout:
    flexible = bool(kind.__flexible__)
    parts: list[tuple[Read | None, tuple[str, ...], Any]] = []
    for are_numbers, neighbours in groupby(fields(kind), lambda each: _type(each) in _NUMBERS):
        some = [*neighbours]
        if are_numbers:
            names = tuple(each.name for each in some)
            parts.append((_reads_numbers([_type(each) for each in some]), names, None))
            continue
        for each in some:
            inner = None if _type(each) else get_args(each.type)[0]
            parts.append((None if inner else _reads(each, flexible), (each.name,), inner))
    is_leaf = all(read is not None for read, _, _ in parts)
    return _Layout(kind.__name__, flexible, tuple(parts), is_leaf)


def _reads(field: Field[Any], flexible: bool) -> Read:
    """Of a field that is neither a number nor a list of structs."""
    if _type(field) == "list":
        return _reads_list(flexible)
    if _type(field) == "uuid":
        return _read_id
    assert _type(field) == "string", f"no reader for {field}"
    return _reads_text(flexible, NoneType in get_args(field.type))


def _type(field: Field[Any]) -> str:
    """Kafka's type of a value, or "list" of values; empty for a list of structs."""
    kafka_type = str(field.metadata.get("kafka_type", ""))
    return "list" if kafka_type and get_origin(field.type) is tuple else kafka_type


def _reads_numbers(types: list[str]) -> Read:
    """Of fields beside each other."""
    layout = struct.Struct(">" + "".join(_NUMBERS[each] for each in types))
    unpack, size = layout.unpack_from, layout.size

    def read(body: bytes, offset: int) -> tuple[tuple[Any, ...], int]:
        return unpack(body, offset), offset + size

    return read


def _reads_list(flexible: bool) -> Read:
    """Of an array of ``int32``."""
    length = length_reader(flexible)

    def read(body: bytes, offset: int) -> tuple[tuple[tuple[int, ...]], int]:
        count, offset = length(body, offset)
        if count <= 0:
            return ((),), offset
        _check_count(count, 4, body, offset)
        return (struct.unpack_from(f">{count}i", body, offset),), offset + count * 4

    return read


def _reads_text(flexible: bool, nullable: bool) -> Read:
    length = length_reader(flexible, short=True)

    def read(body: bytes, offset: int) -> tuple[tuple[str | None], int]:
        size, offset = length(body, offset)
        if size < 0:
            if nullable:
                return (None,), offset
            raise ProtocolError("a MetadataResponse with a null name can't be understood")
        return (str(body[offset : offset + size], "utf-8"),), offset + size

    return read


def _read_id(body: bytes, offset: int) -> tuple[tuple[UUID | None], int]:
    end = offset + 16
    found = body[offset:end]
    return (None if found == _NO_ID else UUID(bytes=found),), end


def _check_count(count: int, least: int, body: bytes, offset: int) -> None:
    left = max(len(body) - offset, 0)
    if count * least > left:
        raise ProtocolError(f"an array announces {count} elements, but only {left} bytes follow")


def _walk(kind: Any, body: bytes, offset: int) -> Generator[Piece, None, int]:
    """The structs in a struct, and then itself; returns where it ends."""
    layout = _layout(kind)
    values: dict[str, Any] = {}
    for read, names, inner in layout.parts:
        if read is not None:
            found, offset = read(body, offset)
            values.update(zip(names, found, strict=True))
            continue
        count, offset = length_reader(layout.flexible)(body, offset)
        _check_count(count, 1, body, offset)
        if _layout(inner).is_leaf:
            for _ in range(count):
                piece, offset = _read_leaf(_layout(inner), body, offset)
                yield piece
        else:
            for _ in range(count):
                offset = yield from _walk(inner, body, offset)
    if layout.flexible:
        offset = _skip_tagged(body, offset)
    yield Piece(layout.name, values)
    return offset


def _read_leaf(layout: _Layout, body: bytes, offset: int) -> tuple[Piece, int]:
    """A struct without lists of structs, and its end."""
    values: dict[str, Any] = {}
    for read, names, _ in layout.parts:
        assert read is not None
        found, offset = read(body, offset)
        values.update(zip(names, found, strict=True))
    if layout.flexible:
        offset = _skip_tagged(body, offset)
    return Piece(layout.name, values), offset


def _skip_tagged(body: bytes, offset: int) -> int:
    if not body[offset]:
        return offset + 1
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
