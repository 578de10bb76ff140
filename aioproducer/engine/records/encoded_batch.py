"""Batches as a broker sends them: their headers are read, their records only decompressed.

Decompression is bounded: no claim of the data decides on memory. Every format is unpacked in steps
that begin small and grow, so that the memory taken follows the bytes that came out. The libraries
release the interpreter lock, so a large batch may be decompressed in another thread. A library is
imported when its compression is met.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from aioproducer.engine.records.batch_header import (
    BATCH_OVERHEAD,
    BEFORE_CHECKSUM,
    CHECKED,
    COMPRESSION_MASK,
    CONTROL,
    LENGTH_COUNTS_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    crc32c,
)
from aioproducer.engine.records.field_reader import FieldReader, MalformedRecordError
from aioproducer.errors import CorruptRecordsError, MissingExtraError
from aioproducer.foundation import tuning
from aioproducer.foundation.codecs import codec_library
from aioproducer.model import TopicPartition

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor


Unpacked: TypeAlias = bytes | bytearray | memoryview

_USUAL_RATIO: Final = 4
"""The first step is that many times the compressed size, if that is more: usually one will do."""


class DecompressionError(ValueError):
    """The data can't be unpacked. It does not leave ``records``."""


class UnpackedTooLargeError(DecompressionError):
    """The data unpacks to more than the limit."""


def decompress(compression_id: int, data: memoryview, limit: int) -> Unpacked:
    """The bytes that ``data`` unpacks to, at most ``limit``.

    ``compression_id`` is the number in the attributes of a batch; 0 gives ``data`` itself. Raises
    DecompressionError, UnpackedTooLargeError where the limit is passed, and MissingExtraError where
    the library of the compression is not installed.
    """
    if not compression_id:
        return data
    try:
        unpack = _FORMATS[compression_id]
    except KeyError:
        raise DecompressionError(f"the compression {compression_id} is unknown") from None
    return unpack(data, limit)


class _Output:
    """The pieces that were unpacked so far, and the size of the next one."""

    def __init__(self, compressed_size: int, limit: int) -> None:
        self._pieces: list[bytes] = []
        self._limit = self._left = limit
        self._step = max(tuning.DECOMPRESSION_STEP, _USUAL_RATIO * compressed_size)

    @property
    def step(self) -> int:
        """The most bytes of the next piece; one more than the limit shows that there is more."""
        return min(self._step, self._left + 1)

    def add(self, piece: bytes) -> None:
        """Take a piece. Raises UnpackedTooLargeError."""
        self._left -= len(piece)
        if self._left < 0:
            raise _too_large(self._limit)
        self._pieces.append(piece)
        self._step = min(2 * self._step, self._limit + 1)

    def joined(self) -> bytes:
        """All pieces."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def _too_large(limit: int) -> UnpackedTooLargeError:
    return UnpackedTooLargeError(f"the records decompress to more than {limit} bytes")


def _invalid(name: str, reason: object) -> DecompressionError:
    return DecompressionError(f"the {name} data is invalid: {reason}")


_ENDS_EARLY: Final = "it ends too early"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_MOST_MEMBERS: Final = 1_000


def _gunzip(data: memoryview, limit: int) -> bytes:
    """One member or several; bytes after the last one are ignored, as Java does."""
    output = _Output(len(data), limit)
    position = 0
    for _ in range(_GZIP_MOST_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            part = data[position : position + tuning.COMPRESSED_SLICE]
            try:
                piece = member.decompress(part, output.step)
            except zlib.error as error:
                raise _invalid("gzip", error) from error
            left = member.unused_data if member.eof else member.unconsumed_tail
            position += len(part) - len(left)
            if piece:
                output.add(piece)
            elif not part:
                raise _invalid("gzip", _ENDS_EARLY)
        if bytes(data[position : position + 2]) != _GZIP_MAGIC:
            return output.joined()
    raise _invalid("gzip", "it has too many members")


_SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"
_SNAPPY_HEADER_SIZE: Final = 16
_SNAPPY_MOST_GROWTH: Final = 32
"""Snappy's shortest instruction for 64 bytes takes 3 bytes: a claim of more is wrong."""


def _unsnappy(data: memoryview, limit: int) -> bytearray:
    """The blocks of the snappy-java library, or one block without their header."""
    cramjam = codec_library("snappy")

    size = 0
    unpacked = bytearray()
    try:
        for block in _snappy_blocks(data):
            claimed = cramjam.snappy.decompress_raw_len(block)
            if claimed > _SNAPPY_MOST_GROWTH * len(block):
                raise _invalid("snappy", f"{len(block)} bytes can't decompress to {claimed}")
            size += claimed
            if size > limit:
                raise _too_large(limit)
        unpacked = bytearray(size)
        free = memoryview(unpacked)
        for block in _snappy_blocks(data):
            free = free[cramjam.snappy.decompress_raw_into(block, free) :]
    except cramjam.DecompressionError as error:
        raise _invalid("snappy", error) from error
    return unpacked


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    if bytes(data[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        yield data
        return
    end = _SNAPPY_HEADER_SIZE
    while end < len(data):
        begin = end + 4
        end = begin + int.from_bytes(data[begin - 4 : begin], "big")
        if end > len(data) or begin == end:
            raise _invalid("snappy", "a block is empty or longer than the data")
        yield data[begin:end]


def _unlz4(data: memoryview, limit: int) -> bytes:
    """One frame; bytes after it are ignored, as Java does."""
    lz4 = codec_library("lz4")
    output = _Output(len(data), limit)
    context = lz4.create_decompression_context()
    position, is_whole = 0, False
    try:
        while not is_whole:
            part = data[position : position + tuning.COMPRESSED_SLICE]
            piece, size, is_whole = lz4.decompress_chunk(context, part, max_length=output.step)
            position += size
            if piece:
                output.add(piece)
            elif not part:
                raise _invalid("lz4", _ENDS_EARLY)
    except RuntimeError as error:  # the library has no error of its own
        raise _invalid("lz4", error) from error
    return output.joined()


_ZSTD_KEPT_WINDOW: Final = 8 * 1024 * 1024
"""A decompressor keeps its window's memory. Level 19 and lower need no larger one."""


def _unzstd(data: memoryview, limit: int) -> bytes:
    """One frame or several. The library does not tell a frame that ends early from a whole one."""
    zstandard = codec_library("zstd")
    try:
        decompressor = _kept_zstd.pop()  # so no other thread has it
    except IndexError:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_KEPT_WINDOW)
    try:
        try:
            return _unzstd_with(decompressor, data, limit)
        except zstandard.ZstdError:
            return _unzstd_with(zstandard.ZstdDecompressor(), data, limit)
    except zstandard.ZstdError as error:
        raise _invalid("zstd", error) from error
    finally:
        _kept_zstd.append(decompressor)


def _unzstd_with(decompressor: ZstdDecompressor, data: memoryview, limit: int) -> bytes:
    output = _Output(len(data), limit)
    reader = decompressor.stream_reader(data, read_across_frames=True)
    while piece := reader.read(output.step):
        output.add(piece)
    return output.joined()


_kept_zstd: Final[list[ZstdDecompressor]] = []
"""Decompressors for further batches: making one takes as long as unpacking 16 KiB."""

_FORMATS: Final[dict[int, Callable[[memoryview, int], Unpacked]]] = {
    1: _gunzip,
    2: _unsnappy,
    3: _unlz4,
    4: _unzstd,
}


_HEADER: Final = Struct(BEFORE_CHECKSUM.format + CHECKED.format[1:])
_UP_TO_MAGIC: Final = Struct(">qiib")
_LEAST_LENGTH: Final = 14
"""The least length that a batch of any magic has. Source: ``LegacyRecord.RECORD_OVERHEAD_V0``."""
_ADVICE: Final = (
    "read it again, and if the error persists, the leader's log is damaged: continue after it"
)
_OFFSETS_END: Final = 2**63
_CONTROL_LIMIT: Final = 16 * 1024
"""Bytes, also before decompression. A marker of Kafka's has less than a hundred."""
_CONTROL_TYPES: Final[dict[int, Literal["abort", "commit"]]] = {0: "abort", 1: "commit"}


class EncodedBatch(NamedTuple):
    """One batch of a partition: the fields of its header, and its bytes.

    Source: Kafka's ``DefaultRecordBatch``.
    """

    where: TopicPartition
    data: memoryview
    """The whole batch, header included."""
    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    """The delete horizon, if the log cleaner has set one. Timestamps count from it in any case."""
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    """The number of records that the header names; :func:`decode` proves it."""

    @property
    def size(self) -> int:
        """The bytes of the batch as it was sent."""
        return len(self.data)

    @property
    def last_offset(self) -> int:
        """The offset of the last record when the batch was written.

        The log cleaner may have removed this record, and keeps this number.
        """
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch, at which reading continues."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the leader that wrote the batch; None: the batch does not tell."""
        epoch = self.partition_leader_epoch
        return None if epoch < 0 else epoch

    @property
    def compression_id(self) -> int:
        """The number of the compression; 0: the records are not compressed."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> Literal["CreateTime", "LogAppendTime"]:
        """``LogAppendTime``: every record has the time ``max_timestamp_ms``."""
        return "LogAppendTime" if self.attributes & LOG_APPEND_TIME else "CreateTime"

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the batch holds a marker of the broker's, and no records of a producer."""
        return bool(self.attributes & CONTROL)

    @property
    def control_type(self) -> Literal["abort", "commit"] | None:
        """The end of a transaction that a control batch marks.

        None: the batch is no control batch, the log cleaner has emptied it, or its type is another.
        Raises CorruptRecordsError. Source: Kafka's ``ControlRecordType.parse``.
        """
        if not self.is_control or not self.record_count:
            return None
        if self.size > _CONTROL_LIMIT:
            raise self.corrupt(f"a control batch can't have {self.size} bytes")
        reader = FieldReader(memoryview(self.decompressed(_CONTROL_LIMIT)))
        try:
            reader.varint()  # the record's length
            reader.byte()  # attributes
            reader.varlong()  # timestamp
            reader.varint()  # offset
            key = reader.nullable()
        except MalformedRecordError as error:
            raise self.corrupt(error) from error
        if key is None or len(key) < 4 or key[0] & 0x80:
            raise self.corrupt("the key of a control record is a version and a type")
        return _CONTROL_TYPES.get(int.from_bytes(key[2:4], "big"))

    def decompressed(self, limit: int) -> Unpacked:
        """The bytes of the records.

        Raises CorruptRecordsError, also if they exceed ``limit``, and MissingExtraError if the
        library of their codec is not installed.
        """
        try:
            return decompress(self.compression_id, self.data[BATCH_OVERHEAD:], limit)
        except UnpackedTooLargeError as error:
            raise CorruptRecordsError(
                f"the batch of {self.where} at offset {self.base_offset} has {self.size} bytes and "
                f"decompresses to more than {limit}: raise max_batch_bytes if that is right, or "
                f"continue after it, at offset {self.next_offset}",
                offset=self.base_offset,
                next_offset=self.next_offset,
            ) from error
        except DecompressionError as error:
            raise self.corrupt(error) from error
        except MissingExtraError as error:
            raise MissingExtraError(
                f"the batch of {self.where} at offset {self.base_offset} can't be read: {error}"
            ) from error

    def corrupt(self, reason: object) -> CorruptRecordsError:
        """The error that names the batch."""
        error = _corrupt(self.where, self.base_offset, reason)
        if 0 <= self.base_offset < self.next_offset < _OFFSETS_END:
            error.next_offset = self.next_offset
        return error


def batches_in(data: bytes, where: TopicPartition, *, check_crcs: bool) -> Iterator[EncodedBatch]:
    """The whole batches among the bytes that a fetch response has for a partition, in order.

    A broker may cut off the last batch, which is left out, but not the only one (KIP-74). Raises
    CorruptRecordsError for a batch with a wrong checksum (with ``check_crcs``), another magic, or a
    header that contradicts itself, and for bytes without a whole batch. The batches before it are
    there first.
    """
    view = memoryview(data)
    next_offset = 0
    position = 0
    while (size := _size_of_next(view, position, where)) <= len(view) - position:
        batch = EncodedBatch(
            where, view[position : position + size], *_HEADER.unpack_from(view, position)
        )
        _check(batch, next_offset)
        if check_crcs:
            _check_crc(batch)
        yield batch
        next_offset = batch.next_offset
        position += size
    if len(view) and not position:
        raise CorruptRecordsError(
            f"the records of {where} are corrupt: the response has {len(view)} bytes of them, but "
            f"no complete batch; {_ADVICE}"
        )


def _size_of_next(view: memoryview, position: int, where: TopicPartition) -> int:
    """The size of the batch at ``position``; more than there is if not even its magic is there.

    Source: Kafka's ``ByteBufferLogInputStream.nextBatchSize``.
    """
    if len(view) - position < _UP_TO_MAGIC.size:
        return _UP_TO_MAGIC.size
    offset, length, _, magic = _UP_TO_MAGIC.unpack_from(view, position)
    if length < _LEAST_LENGTH:
        raise _corrupt(where, offset, f"it can't have {length} bytes")
    if magic in (0, 1):
        raise CorruptRecordsError(
            f"the messages of {where} at offset {offset} have the old format {magic}, of a client "
            "before Kafka 0.11; only format 2 is supported: continue after them, or read them with "
            "a client of Kafka 3",
            offset=offset,
            next_offset=offset + 1,
        )
    if magic != MAGIC:
        raise _corrupt(where, offset, f"its magic number is {magic}, not {MAGIC}")
    if length < BATCH_OVERHEAD - LENGTH_COUNTS_FROM:
        raise _corrupt(where, offset, f"it can't have {length} bytes")
    return int(length) + LENGTH_COUNTS_FROM


def _check(batch: EncodedBatch, next_offset: int) -> None:
    if batch.base_offset < 0:
        raise batch.corrupt("an offset can't be negative")
    if batch.base_offset < next_offset:
        raise batch.corrupt(f"the batch before it goes up to offset {next_offset - 1}")
    if batch.last_offset_delta < 0 or batch.next_offset >= _OFFSETS_END:
        raise batch.corrupt(f"its last record can't be {batch.last_offset_delta} offsets later")
    if not 0 <= batch.record_count <= batch.last_offset_delta + 1:
        raise batch.corrupt(
            f"it can't have {batch.record_count} records at {batch.last_offset_delta + 1} offsets"
        )


def _check_crc(batch: EncodedBatch) -> None:
    computed = crc32c(batch.data[BEFORE_CHECKSUM.size :])
    if computed != batch.crc:
        raise batch.corrupt(f"its CRC-32C is {computed:#010x}, not {batch.crc:#010x} as it says")


def _corrupt(where: TopicPartition, offset: int, reason: object) -> CorruptRecordsError:
    return CorruptRecordsError(
        f"the batch of {where} at offset {offset} is corrupt: {reason}; {_ADVICE}", offset=offset
    )
