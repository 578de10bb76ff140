"""Guards around kio's decoders: array lengths, unknown tagged fields, error codes, times. No I/O.

:func:`walk` reads over a response before kio decodes it. kio's parser takes memory for as many
elements as a length announces, before it reads the first one; if the memory is not there, the whole
process is aborted. A few corrupt bytes must not get that far, so an array may announce at most as
many elements as fit into the remaining bytes.

kio's parser also refuses a tagged field that its schema does not have. A newer broker may add one
to any struct, and a client has to skip it (KIP-482). The walk notes the place of such fields, and
the response is copied without them only if there are some.

:func:`with_numbers` takes the place of kio's class for a response that kio can't decode. kio reads
an error code as a member of an enumeration, so one code of a newer broker would make the whole
response unreadable. A time that no ``timedelta`` can hold does the same:
``connections.max.reauth.ms`` has no upper limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin

from kio.static.primitive import i16, i64

from aioproducer.errors import ProtocolError


class Edit(NamedTuple):
    """Bytes of a response to be replaced."""

    start: int
    end: int
    by: bytes


Skip: TypeAlias = Callable[[bytes, int, list[Edit]], int]
"""Where a value that begins at an offset ends; may be behind the end of the bytes.

Adds what has to be replaced. Raises :class:`IndexError` where the bytes end too early to tell.
"""

LengthReader: TypeAlias = Callable[[bytes, int], tuple[int, int]]

_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}

_CLASS_VARIABLES: Final = (
    "__type__",
    "__version__",
    "__flexible__",
    "__api_key__",
    "__header_schema__",
)


def walk(kind: Any, body: bytes, offset: int) -> Sequence[Edit]:
    """Refuse a ``kind`` (a class of kio's) at ``offset`` whose arrays can't be in ``body``.

    Returns what :func:`without_unknown_fields` has to replace; mostly nothing. Raises
    :class:`ProtocolError`. Whatever else is wrong is left to the decoder.
    """
    edits: list[Edit] = []
    try:
        _entity(kind)(body, offset, edits)
    except IndexError:  # the bytes end too early, and there the decoder will end too
        return ()
    return edits


def walk_header(kind: Any, body: bytes) -> int:
    """The offset of the end of a response's header. Raises :class:`IndexError` if it does not."""
    return _entity(kind)(body, 0, [])


def without_unknown_fields(body: bytes, edits: Sequence[Edit]) -> bytes:
    """A copy of ``body`` with what :func:`walk` found replaced."""
    parts: list[bytes] = []
    done = 0
    for start, end, by in sorted(edits):
        parts += (body[done:start], by)
        done = end
    return b"".join((*parts, body[done:]))


@cache
def _entity(kind: Any) -> Skip:
    flexible = bool(kind.__flexible__)
    steps: list[tuple[int, Skip]] = []
    tagged: dict[int, Skip] = {}
    leap = 0
    for each in fields(kind):
        step = _value(each.type, each.metadata.get("kafka_type"), flexible)
        if "tag" in each.metadata:
            tagged[each.metadata["tag"]] = step if callable(step) else _leap(step)
        elif isinstance(step, int):
            leap += step
        else:
            steps.append((leap, step))
            leap = 0

    def skip(body: bytes, offset: int, edits: list[Edit]) -> int:
        for before, step in steps:
            offset = step(body, offset + before, edits)
        offset += leap
        if not flexible:
            return offset
        return _skip_tagged(body, offset, edits, tagged) if body[offset] else offset + 1

    return skip


def _value(declared: Any, kafka_type: str | None, flexible: bool) -> int | Skip:
    """The way over a value: a number of bytes if that is always the same."""
    if get_origin(declared) is tuple:
        inner = get_args(declared)[0]
        least = _least(inner, kafka_type, flexible)
        return _array(_value(inner, kafka_type, flexible), least, flexible)
    if get_origin(declared) in (Union, UnionType):
        inner = next(each for each in get_args(declared) if each is not NoneType)
        return _value(inner, kafka_type, flexible)
    if kafka_type is None:
        return _entity(declared)
    size = _SIZES.get(kafka_type)
    return _sized(kafka_type, flexible) if size is None else size


def _least(declared: Any, kafka_type: str | None, flexible: bool) -> int:
    """The smallest size of a value in bytes."""
    if get_origin(declared) is tuple:
        return 1 if flexible else 4
    if get_origin(declared) in (Union, UnionType):
        inner = next(each for each in get_args(declared) if each is not NoneType)
        return _least(inner, kafka_type, flexible)
    if kafka_type is None:
        inside = sum(
            _least(each.type, each.metadata.get("kafka_type"), flexible)
            for each in fields(declared)
            if "tag" not in each.metadata
        )
        return inside + 1 if flexible else inside
    if kafka_type in _SIZES:
        return _SIZES[kafka_type]
    if flexible:
        return 1
    return 2 if kafka_type == "string" else 4


def _array(element: int | Skip, least: int, flexible: bool) -> Skip:
    length = length_reader(flexible)

    def skip(body: bytes, offset: int, edits: list[Edit]) -> int:
        count, offset = length(body, offset)
        if count <= 0:
            return offset
        left = max(len(body) - offset, 0)
        if count * least > left:
            raise ProtocolError(
                f"an array announces {count} elements, but only {left} bytes follow"
            )
        if isinstance(element, int):
            return offset + count * element
        for _ in range(count):
            offset = element(body, offset, edits)
        return offset

    return skip


def _sized(kafka_type: str, flexible: bool) -> Skip:
    length = length_reader(flexible, short=kafka_type == "string")

    def skip(body: bytes, offset: int, edits: list[Edit]) -> int:
        size, offset = length(body, offset)
        return offset + size if size > 0 else offset

    return skip


def _leap(size: int) -> Skip:
    return lambda body, offset, edits: offset + size


def length_reader(flexible: bool, *, short: bool = False) -> LengthReader:
    """Reads the length in front of an array, of bytes or (``short``) of a string; below 0: null.

    Its results are the length, and the offset after it.
    """
    if flexible:
        return _compact_length
    return _length_of_2 if short else _length_of_4


def _compact_length(body: bytes, offset: int) -> tuple[int, int]:
    first = body[offset]
    if first < 0x80:
        return first - 1, offset + 1
    length, offset = _unsigned_varint(body, offset)
    return length - 1, offset


def _length_of_2(body: bytes, offset: int) -> tuple[int, int]:
    return int.from_bytes(body[offset : offset + 2], "big", signed=True), offset + 2


def _length_of_4(body: bytes, offset: int) -> tuple[int, int]:
    return int.from_bytes(body[offset : offset + 4], "big", signed=True), offset + 4


def _unsigned_varint(body: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    for byte in body[offset : offset + 5]:
        offset += 1
        if byte < 0x80:
            return value | byte << shift, offset
        value |= (byte & 0x7F) << shift
        shift += 7
    raise IndexError


def _as_unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _skip_tagged(body: bytes, offset: int, edits: list[Edit], known: Mapping[int, Skip]) -> int:
    """Get over the tagged fields of a struct; those that are not ``known`` are to be cut out."""
    begin = offset
    count, offset = _unsigned_varint(body, offset)
    first = offset
    kept = 0
    for _ in range(count):
        at_tag = offset
        tag, offset = _unsigned_varint(body, offset)
        at = offset
        size, offset = _unsigned_varint(body, offset)
        if tag not in known:
            offset += size
            if offset > len(body):
                raise ProtocolError(
                    f"a tagged field announces {size} bytes, but only {len(body) - offset + size} "
                    "follow"
                )
            edits.append(Edit(at_tag, offset, b""))
            continue
        kept += 1
        before, content = len(edits), offset
        offset = known[tag](body, offset, edits)
        if len(edits) > before:
            gone = sum(end - start - len(by) for start, end, by in edits[before:])
            edits.append(Edit(at, content, _as_unsigned_varint(max(size - gone, 0))))
    if kept < count:
        edits.append(Edit(begin, first, _as_unsigned_varint(kept)))
    return offset


@cache
def with_numbers(kind: Any, *, times: bool = False) -> Any:
    """A class like ``kind`` (one of kio's) that takes any number for an error code.

    ``times``: and for times of 8 bytes, which are milliseconds then.
    """
    return make_dataclass(
        kind.__name__,
        [(each.name, *_declared(each, times)) for each in fields(kind)],
        namespace={name: getattr(kind, name) for name in _CLASS_VARIABLES if hasattr(kind, name)},
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _declared(each: Any, times: bool) -> tuple[Any, Any]:
    """The type and the field in :func:`with_numbers`'s class."""
    declared: Any = each.type
    metadata = dict(each.metadata)
    if metadata.get("kafka_type") == "error_code":
        declared, metadata["kafka_type"] = i16, "int16"
    elif times and metadata.get("kafka_type") == "timedelta_i64":
        declared, metadata["kafka_type"] = i64, "int64"
    elif is_dataclass(declared):
        declared = _numbered(declared, times)
    elif get_origin(declared) is tuple and is_dataclass(get_args(declared)[0]):
        declared = GenericAlias(tuple, (_numbered(get_args(declared)[0], times), ...))
    default = {} if each.default is MISSING else {"default": each.default}
    return declared, field(metadata=metadata, **default)


def _numbered(kind: Any, times: bool) -> Any:
    return with_numbers(kind, times=times)
