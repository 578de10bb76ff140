# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``parsed_records``.

The bytes are parsed when the object is made, and once more for every iteration: keeping the places
of all fields would take more memory than the records. Both times every length is checked, because
the bytes may be in a buffer that has changed meanwhile.
"""

cimport cython
from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from aioproducer.records._speedups.cpython_internals cimport new_tuple, untrack
from aioproducer.records._speedups.field_reader cimport (
    ENDS_EARLY,
    FIELD_TOO_LONG,
    HEADER_COUNT,
    NO_HEADER_KEY,
    NUMBER_TOO_LARGE,
    NUMBER_TOO_LONG,
    OFFSET_ORDER,
    RECORD_TOO_LONG,
    RECORD_TOO_SHORT,
    Field,
    Problem,
    Record,
    read_header,
    read_record,
)

from aioproducer.model import ConsumerRecord
from aioproducer.records.field_reader import MalformedRecordError
from aioproducer.records.parsed_records import (
    COLUMN_TOO_LARGE,
    NO_TIMESTAMP,
    ArrowBuffers,
    BinaryBuffers,
)

cdef type RECORD = ConsumerRecord
if ConsumerRecord._fields != (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
):
    raise ImportError("ConsumerRecord has other fields than this module fills")

cdef int64_t NONE_YET = NO_TIMESTAMP
cdef Py_ssize_t MOST_BYTES = 2**31 - 1
cdef Py_ssize_t FEW_BYTES = 16 * 1024  # parsed faster than the interpreter lock is released
cdef array INDEX = array("q")


# The sums over the records that are kept: a column of Arrow needs as many bytes.
cdef struct Sizes:
    Py_ssize_t keys
    Py_ssize_t values
    Py_ssize_t headers
    Py_ssize_t header_keys
    Py_ssize_t header_values
    bint null_keys
    bint null_values
    bint null_header_values
    bint unusual_keys  # a header has a key that is not plain ASCII


@cython.final
cdef class ParsedRecords:
    """See ``parsed_records.ParsedRecords``."""

    cdef Py_buffer data
    cdef const unsigned char* first  # the first record that is kept
    cdef const unsigned char* end
    cdef Py_ssize_t count
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_time
    cdef bint has_append_time
    cdef int64_t most_delta
    cdef int32_t partition_number
    cdef Sizes sizes
    cdef object topic
    cdef object partition
    cdef object timestamp_type
    cdef object leader_epoch
    cdef array index

    def __cinit__(self, batch, data, from_offset, until_offset=None):
        self.topic, self.partition = batch.where
        self.partition_number = self.partition
        self.timestamp_type = batch.timestamp_type
        self.leader_epoch = batch.leader_epoch
        self.base_offset = batch.base_offset
        self.base_timestamp = batch.base_timestamp_ms
        self.append_time = batch.max_timestamp_ms
        self.has_append_time = self.timestamp_type == "LogAppendTime"
        self.most_delta = batch.last_offset_delta
        cdef int64_t claimed = batch.record_count
        cdef int64_t first_delta = max(0, min(from_offset - batch.base_offset, 2**31))
        cdef int64_t end_delta = 2**31
        if until_offset is not None:
            end_delta = max(0, min(until_offset - batch.base_offset, 2**31))
        cdef Record record
        cdef bint valid
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.first = <const unsigned char*>self.data.buf
        self.end = self.first + self.data.len
        if self.data.len > FEW_BYTES:
            with nogil:
                valid = self.parse(claimed, first_delta, end_delta, &record)
        else:
            valid = self.parse(claimed, first_delta, end_delta, &record)
        if not valid:
            raise self.malformed(&record, claimed)

    def __dealloc__(self):
        PyBuffer_Release(&self.data)

    cdef bint parse(
        self, int64_t claimed, int64_t first_delta, int64_t end_delta, Record* record
    ) noexcept nogil:
        """Find the records to keep. False: ``record`` has the problem, or there are bytes left."""
        cdef const unsigned char* at = self.first
        cdef const unsigned char* behind
        cdef int64_t last_delta = -1
        cdef int64_t number
        record.problem = <Problem>0
        for number in range(claimed):
            behind = read_record(at, self.end, last_delta, self.most_delta, record)
            if behind is NULL:
                return False
            last_delta = record.offset_delta
            if last_delta < first_delta or last_delta >= end_delta:
                if not check_headers(record, behind, NULL):
                    return False
                if not self.count:
                    self.first = behind
            else:
                if not check_headers(record, behind, &self.sizes):
                    return False
                self.count += 1
                if record.key.size < 0:
                    self.sizes.null_keys = True
                else:
                    self.sizes.keys += record.key.size
                if record.value.size < 0:
                    self.sizes.null_values = True
                else:
                    self.sizes.values += record.value.size
            at = behind
        return not claimed or at == self.end

    cdef object malformed(self, Record* record, int64_t claimed):
        """The error as the reference words it."""
        cdef Problem problem = record.problem
        if problem == ENDS_EARLY:
            return MalformedRecordError("a record ends in the middle of a field")
        if problem == NUMBER_TOO_LONG:
            return MalformedRecordError("a number is too long")
        if problem == NUMBER_TOO_LARGE:
            return MalformedRecordError("a number is too large")
        if problem == FIELD_TOO_LONG:
            return MalformedRecordError("a field is longer than its record")
        if problem == NO_HEADER_KEY:
            return MalformedRecordError("a header has no key")
        if problem == HEADER_COUNT:
            return MalformedRecordError(f"a record can't have {record.number} headers")
        if problem == RECORD_TOO_LONG:
            return MalformedRecordError("a record is longer than its batch")
        if problem == RECORD_TOO_SHORT:
            return MalformedRecordError("a record is shorter than its length")
        if problem == OFFSET_ORDER:
            offset = int(self.base_offset) + int(record.number)
            return MalformedRecordError(f"offset {offset} is out of order")
        return MalformedRecordError(f"there are bytes behind its {claimed} records")

    def __len__(self):
        return self.count

    def __iter__(self):
        return RecordIterator(self)

    def __getitem__(self, Py_ssize_t index):
        if index < 0:
            index += self.count
        if not 0 <= index < self.count:
            raise IndexError(f"there are {self.count} records, and no record {index}")
        cdef RecordIterator records = RecordIterator(self)
        if index:
            if self.index is None:
                self.index = self.places()
            records.at = <const unsigned char*>self.data.buf + self.index.data.as_longlongs[index]
        return next(records)

    cdef array places(self):
        """The place of each record in the bytes."""
        cdef array places = clone(INDEX, self.count, False)
        cdef const unsigned char* at = self.first
        cdef Record record
        cdef Py_ssize_t number
        for number in range(self.count):
            places.data.as_longlongs[number] = at - <const unsigned char*>self.data.buf
            at = self.next_record(at, &record)
        return places

    cdef const unsigned char* next_record(
        self, const unsigned char* at, Record* record
    ) except NULL:
        """The fields at ``at``, and the place behind them. The headers were checked before."""
        at = read_record(at, self.end, -1, self.most_delta, record)
        if at is NULL:
            raise changed()
        return at

    cdef inline int64_t timestamp(self, const Record* record) noexcept:
        if self.has_append_time:
            return self.append_time
        return <int64_t>(<uint64_t>self.base_timestamp + <uint64_t>record.timestamp_delta)

    cdef inline int64_t offset(self, const Record* record) noexcept:
        return <int64_t>(<uint64_t>self.base_offset + <uint64_t>record.offset_delta)


cdef object changed():
    return RuntimeError("the bytes of the batch have changed since it was decoded")


cdef bint check_headers(Record* record, const unsigned char* end, Sizes* sizes) noexcept nogil:
    """False: ``record`` has the problem of its headers. ``sizes`` gets their sizes, if given."""
    cdef const unsigned char* at = record.headers
    cdef Field key, value
    cdef int64_t number
    cdef Py_ssize_t place
    if not record.header_count:
        return True
    for number in range(record.header_count):
        at = read_header(at, end, &key, &value, &record.problem)
        if at is NULL:
            return False
        if sizes is NULL:
            continue
        sizes.header_keys += key.size
        if value.size < 0:
            sizes.null_header_values = True
        else:
            sizes.header_values += value.size
        for place in range(key.size):
            if key.at[place] & 0x80:
                sizes.unusual_keys = True
                break
    if at != end:
        record.problem = RECORD_TOO_SHORT
        return False
    if sizes is not NULL:
        sizes.headers += record.header_count
    return True


cdef inline object field_object(const Field* field):
    return None if field.size < 0 else PyBytes_FromStringAndSize(field.at, field.size)


cdef tuple headers_object(const Record* record, const unsigned char* end):
    cdef const unsigned char* at = record.headers
    cdef Field key, value
    cdef Problem problem
    cdef int64_t number
    cdef tuple headers = PyTuple_New(record.header_count)
    for number in range(record.header_count):
        at = read_header(at, end, &key, &value, &problem)
        if at is NULL:
            raise changed()
        header = (PyUnicode_DecodeUTF8(key.at, key.size, "replace"), field_object(&value))
        put(headers, number, header)
    return headers


cdef inline void put(made, Py_ssize_t place, field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(made, place, field)


@cython.final
cdef class RecordIterator:
    """The objects of records, one after another."""

    cdef ParsedRecords records
    cdef const unsigned char* at
    cdef Py_ssize_t left
    cdef int64_t timestamp_ms
    cdef object timestamp

    def __cinit__(self, ParsedRecords records not None):
        self.records = records
        self.at = records.first
        self.left = records.count

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.left

    def __next__(self):
        cdef ParsedRecords records = self.records
        cdef Record record
        cdef const unsigned char* behind
        cdef int64_t timestamp_ms
        if not self.left:
            raise StopIteration
        behind = records.next_record(self.at, &record)
        timestamp_ms = records.timestamp(&record)
        if self.timestamp is None or timestamp_ms != self.timestamp_ms:
            self.timestamp = timestamp_ms
            self.timestamp_ms = timestamp_ms
        offset = records.offset(&record)
        key = field_object(&record.key)
        value = field_object(&record.value)
        headers = headers_object(&record, behind) if record.header_count else ()
        made = new_tuple(RECORD, 9)
        put(made, 0, records.topic)
        put(made, 1, records.partition)
        put(made, 2, offset)
        put(made, 3, self.timestamp)
        put(made, 4, records.timestamp_type)
        put(made, 5, key)
        put(made, 6, value)
        put(made, 7, headers)
        put(made, 8, records.leader_epoch)
        untrack(made)
        self.at = behind
        self.left -= 1
        return made


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
            if timestamp == NONE_YET:
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
    """See ``parsed_records.arrow_buffers``."""
    cdef list all_parts = list(parts)
    cdef Columns columns = Columns(all_parts)
    cdef ParsedRecords part
    for part in all_parts:
        columns.add(part)
    return columns.buffers()
