# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``arrow_columns``.

The buffers are as large as the records were when they were parsed. If their bytes have changed since,
nothing is written behind a buffer.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from aioproducer.engine.records._speedups.field_reader cimport Field, Problem, Record, read_header
from aioproducer.engine.records._speedups.parsed_records cimport ParsedRecords, Sizes, changed

from aioproducer.engine.records.parsed_records import (
    COLUMN_TOO_LARGE,
    NO_TIMESTAMP,
    ArrowBuffers,
    BinaryBuffers,
)

cdef int64_t NO_TIME = NO_TIMESTAMP
cdef Py_ssize_t MOST_BYTES = 2**31 - 1


@cython.final
cdef class Binary:
    """The buffers of a column of bytes, while it is filled."""

    cdef bytes validity
    cdef bytes offsets
    cdef bytes data
    cdef Py_ssize_t rows
    cdef Py_ssize_t row
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t size, bint has_nulls):
        if size > MOST_BYTES or rows > MOST_BYTES:
            raise OverflowError(COLUMN_TOO_LARGE)
        self.rows = rows
        self.offsets = PyBytes_FromStringAndSize(NULL, 4 * (rows + 1))
        (<int32_t*>PyBytes_AS_STRING(self.offsets))[0] = 0
        self.data = PyBytes_FromStringAndSize(NULL, size)
        if has_nulls:
            self.validity = empty_bits(rows)

    cdef inline int add(self, const Field* field) except -1:
        cdef Py_ssize_t row = self.row
        cdef Py_ssize_t size = field.size
        if row >= self.rows:
            raise changed()
        if size >= 0:
            if size > len(self.data) - self.size:
                raise changed()
            memcpy(PyBytes_AS_STRING(self.data) + self.size, field.at, size)
            self.size += size
            if self.validity is not None:
                set_bit(self.validity, row)
        elif self.validity is None:
            raise changed()
        self.row = row + 1
        (<int32_t*>PyBytes_AS_STRING(self.offsets))[row + 1] = <int32_t>self.size
        return 0

    cdef object buffers(self):
        if self.row != self.rows or self.size != len(self.data):
            raise changed()
        return BinaryBuffers(self.validity, self.offsets, self.data)


cdef bytes empty_bits(Py_ssize_t rows):
    cdef bytes bits = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
    memset(PyBytes_AS_STRING(bits), 0, len(bits))
    return bits


cdef inline void set_bit(bytes bits, Py_ssize_t row) noexcept:
    PyBytes_AS_STRING(bits)[row >> 3] |= <char>(1 << (row & 7))


@cython.final
cdef class Columns:
    """All columns, while they are filled."""

    cdef Py_ssize_t rows
    cdef Py_ssize_t row
    cdef Sizes sizes
    cdef Binary keys
    cdef Binary values
    cdef Binary header_keys
    cdef Binary header_values
    cdef Py_ssize_t item
    cdef bytes header_offsets
    cdef bytes timestamps
    cdef bytes timestamp_bits
    cdef bytes partitions
    cdef bytes offsets
    cdef bint has_null_timestamps

    def __cinit__(self, list parts not None):
        cdef Sizes* sizes = &self.sizes
        cdef ParsedRecords part
        for part in parts:
            self.rows += part.count
            sizes.keys += part.sizes.keys
            sizes.values += part.sizes.values
            sizes.headers += part.sizes.headers
            sizes.header_keys += part.sizes.header_keys
            sizes.header_values += part.sizes.header_values
            sizes.null_keys |= part.sizes.null_keys
            sizes.null_values |= part.sizes.null_values
            sizes.null_header_values |= part.sizes.null_header_values
            sizes.unusual_keys |= part.sizes.unusual_keys
        self.keys = Binary(self.rows, sizes.keys, sizes.null_keys)
        self.values = Binary(self.rows, sizes.values, sizes.null_values)
        self.header_values = Binary(
            sizes.headers, sizes.header_values, sizes.null_header_values
        )
        self.header_keys = Binary(
            sizes.headers,
            utf8_size(parts) if sizes.unusual_keys else sizes.header_keys,
            False,
        )
        self.header_offsets = PyBytes_FromStringAndSize(NULL, 4 * (self.rows + 1))
        (<int32_t*>PyBytes_AS_STRING(self.header_offsets))[0] = 0
        self.timestamps = PyBytes_FromStringAndSize(NULL, 8 * self.rows)
        self.timestamp_bits = empty_bits(self.rows)
        self.partitions = PyBytes_FromStringAndSize(NULL, 4 * self.rows)
        self.offsets = PyBytes_FromStringAndSize(NULL, 8 * self.rows)

    cdef int add(self, ParsedRecords part) except -1:
        cdef const unsigned char* at = part.first
        cdef const unsigned char* behind
        cdef int32_t* header_ends = <int32_t*>PyBytes_AS_STRING(self.header_offsets) + 1
        cdef int64_t* timestamps = <int64_t*>PyBytes_AS_STRING(self.timestamps)
        cdef int32_t* partitions = <int32_t*>PyBytes_AS_STRING(self.partitions)
        cdef int64_t* offsets = <int64_t*>PyBytes_AS_STRING(self.offsets)
        cdef Py_ssize_t row = self.row
        cdef Py_ssize_t stop = row + part.count
        cdef int64_t timestamp
        cdef Record record
        if stop > self.rows:
            raise changed()
        for row in range(row, stop):
            behind = part.next_record(at, &record)
            self.keys.add(&record.key)
            self.values.add(&record.value)
            if record.header_count:
                self.add_headers(&record, behind)
            header_ends[row] = <int32_t>self.item
            timestamp = part.timestamp(&record)
            timestamps[row] = timestamp
            if timestamp == NO_TIME:
                self.has_null_timestamps = True
            else:
                set_bit(self.timestamp_bits, row)
            partitions[row] = part.partition_number
            offsets[row] = part.offset(&record)
            at = behind
        self.row = stop
        return 0

    cdef int add_headers(self, Record* record, const unsigned char* end) except -1:
        cdef const unsigned char* at = record.headers
        cdef Field key, value
        cdef Problem problem
        cdef int64_t number
        cdef bytes text
        for number in range(record.header_count):
            at = read_header(at, end, &key, &value, &problem)
            if at is NULL:
                raise changed()
            if self.sizes.unusual_keys:
                text = utf8(&key)
                key.at = PyBytes_AS_STRING(text)
                key.size = len(text)
            self.header_keys.add(&key)
            self.header_values.add(&value)
        self.item += record.header_count
        return 0

    cdef object buffers(self):
        if self.row != self.rows or self.item != self.sizes.headers:
            raise changed()
        return ArrowBuffers(
            self.rows,
            self.keys.buffers(),
            self.values.buffers(),
            self.header_offsets,
            self.item,
            self.header_keys.buffers(),
            self.header_values.buffers(),
            self.timestamp_bits if self.has_null_timestamps else None,
            self.timestamps,
            self.partitions,
            self.offsets,
        )


cdef bytes utf8(const Field* key):
    """The key of a header, bytes that are not UTF-8 replaced."""
    return PyUnicode_DecodeUTF8(key.at, key.size, "replace").encode()


cdef Py_ssize_t utf8_size(list parts) except -1:
    """The size of the keys of all headers, if some are not plain ASCII."""
    cdef ParsedRecords part
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t number
    cdef int64_t item
    cdef const unsigned char* at
    cdef const unsigned char* behind
    cdef Record record
    cdef Field key, value
    cdef Problem problem
    for part in parts:
        behind = part.first
        for number in range(part.count):
            behind = part.next_record(behind, &record)
            at = record.headers
            for item in range(record.header_count):
                at = read_header(at, behind, &key, &value, &problem)
                if at is NULL:
                    raise changed()
                size += len(utf8(&key))
    return size


def arrow_buffers(parts):
    """See ``arrow_columns.arrow_buffers``."""
    cdef list all_parts = list(parts)
    cdef Columns columns = Columns(all_parts)
    cdef ParsedRecords part
    for part in all_parts:
        columns.add(part)
    return columns.buffers()
