"""A Metadata response that is decoded in steps. No I/O.

A response with thousands of topics takes long to decode. So the callback that brings it does not
decode it: the refresher does, a piece at a time. kio's classes give the layout. Tagged fields are
skipped, for none is known (KIP-482), and so are left-over bytes.

Every topic of a cold start is read here, so numbers beside each other are read in one call.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator
from dataclasses import Field, fields
from functools import cache
from itertools import groupby
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin
from uuid import UUID

from kio.serial import readers
from kio.static.protocol import ResponsePayload

from aioproducer.engine.cluster.metadata_response import MetadataNews, Piece, read_metadata
from aioproducer.engine.network import frames
from aioproducer.engine.network.kio_guards import length_reader, walk_header
from aioproducer.errors import ProtocolError

Read: TypeAlias = Callable[[bytes, int], tuple[Iterable[Any], int]]
"""The values of the bytes at an offset, and the offset of their end.

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
        pieces = self.pieces(lists=bool(detailed))
        try:
            news = yield from read_metadata(pieces, self.version, asked, detailed)
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

    def pieces(self, *, lists: bool = True) -> Iterator[Piece]:
        """Its parts in their order; ``lists``: with the lists of numbers."""
        end = yield from _walk(self._kind, self._body, self._start, lists)
        if end > len(self._body):
            raise self._undecodable(EOFError(f"its last field ends at byte {end}"))
        if end < len(self._body):
            self._on_left_over()

    def _undecodable(self, error: Exception) -> ProtocolError:
        return ProtocolError(
            f"a MetadataResponse (version {self.version}) of {len(self._body)} bytes can't be "
            f"understood: {type(error).__name__}: {error}"
        )


class _Part(NamedTuple):
    """Fields beside each other that are read together."""

    names: tuple[str, ...]
    read: Read | None
    """Reads the values of these fields. None: a list of structs."""
    kind: Any = None
    """The kind of these structs."""


class _Layout(NamedTuple):
    """The order in which a struct of kio's is read."""

    name: str
    flexible: bool
    parts: tuple[_Part, ...]
    is_leaf: bool
    """True if it has no list of structs."""


@cache
def _layout(kind: Any, lists: bool) -> _Layout:
    """``lists``: its lists of numbers are read; else they are skipped."""
    flexible = bool(kind.__flexible__)
    parts: list[_Part] = []
    for how, neighbours in groupby(fields(kind), _reading):
        some = [*neighbours]
        names = tuple(each.name for each in some)
        if how == "numbers":
            parts.append(_Part(names, _reads_numbers([_type(each) for each in some])))
        elif how == "lists":
            read = _reads_lists(flexible, len(some))
            parts.append(
                _Part(names, read) if lists else _Part((), _skips_lists(flexible, len(some)))
            )
        else:
            parts += [_single(each, how, flexible) for each in some]
    is_leaf = all(part.read is not None for part in parts)
    return _Layout(kind.__name__, flexible, tuple(parts), is_leaf)


def _single(field: Field[Any], how: str, flexible: bool) -> _Part:
    if how == "structs":
        return _Part((field.name,), None, get_args(field.type)[0])
    if how == "uuid":
        return _Part((field.name,), _read_id)
    assert how == "string", f"no reader for {field}"
    return _Part((field.name,), _reads_text(flexible, NoneType in get_args(field.type)))


def _reading(field: Field[Any]) -> str:
    """The way in which a field is read."""
    if not _type(field):
        return "structs"
    if get_origin(field.type) is tuple:
        return "lists"
    return "numbers" if _type(field) in _NUMBERS else _type(field)


def _type(field: Field[Any]) -> str:
    """Kafka's type of a value, or of the values of a list; empty for a list of structs."""
    return str(field.metadata.get("kafka_type", ""))


def _reads_numbers(types: list[str]) -> Read:
    layout = struct.Struct(">" + "".join(_NUMBERS[each] for each in types))
    unpack, size = layout.unpack_from, layout.size

    def read(body: bytes, offset: int) -> tuple[tuple[Any, ...], int]:
        return unpack(body, offset), offset + size

    return read


def _reads_lists(flexible: bool, lists: int) -> Read:
    """Of so many arrays of ``int32``."""
    length = length_reader(flexible)

    def read(body: bytes, offset: int) -> tuple[list[tuple[int, ...]], int]:
        found: list[tuple[int, ...]] = []
        for _ in range(lists):
            count, offset = length(body, offset)
            count = max(count, 0)
            _check_count(count, 4, body, offset)
            found.append(struct.unpack_from(f">{count}i", body, offset))
            offset += count * 4
        return found, offset

    return read


def _skips_lists(flexible: bool, lists: int) -> Read:
    length = length_reader(flexible)

    def skip(body: bytes, offset: int) -> tuple[tuple[()], int]:
        for _ in range(lists):
            count, offset = length(body, offset)
            if count > 0:
                offset += count * 4
        return (), offset

    return skip


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


def _walk(kind: Any, body: bytes, offset: int, lists: bool) -> Generator[Piece, None, int]:
    """The structs in a struct, and then itself; returns where it ends."""
    layout = _layout(kind, lists)
    values: dict[str, Any] = {}
    for names, read, inner in layout.parts:
        if read is not None:
            found, offset = read(body, offset)
            values.update(zip(names, found, strict=True))
            continue
        count, offset = length_reader(layout.flexible)(body, offset)
        _check_count(count, 1, body, offset)
        leaf = _layout(inner, lists)
        for _ in range(count):
            if leaf.is_leaf:
                piece, offset = _read_leaf(leaf, body, offset)
                yield piece
            else:
                offset = yield from _walk(inner, body, offset, lists)
    if layout.flexible:
        offset = _skip_tagged(body, offset)
    yield Piece(layout.name, values)
    return offset


def _read_leaf(layout: _Layout, body: bytes, offset: int) -> tuple[Piece, int]:
    """A struct without lists of structs, and its end."""
    values: dict[str, Any] = {}
    for names, read, _ in layout.parts:
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
