# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``builder``.

Every record is written straight into the buffer, after a check of the buffer's size: the caller may
have replaced the buffer. No Python code runs between that check and the last byte.
"""

from cpython.array cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromObject,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from aioproducer.engine.records._speedups.arrays cimport check_type_code
from aioproducer.engine.records._speedups.columns cimport BinaryColumn, HeadersColumn, IntColumn
from aioproducer.engine.records._speedups.cpython_internals cimport (
    is_tracked,
    new_tuple,
    track,
    untrack,
)
from aioproducer.engine.records._speedups.varint cimport varint_size, write_field, write_varint

from aioproducer.engine.records.batch_header import (
    BATCH_OVERHEAD,
    BEFORE_CHECKSUM,
    LENGTH_COUNTS_FROM,
    MAGIC,
)
from aioproducer.engine.records.builder import (
    MARK_GRANULE_NS,
    MAX_RECORD_OVERHEAD,
    SMALL_BATCH,
    AppendedRecord,
    check_fields,
    header_bytes,
)
from aioproducer.engine.records.batch_header import crc32c

cdef Py_ssize_t RECORDS_BEGIN = BATCH_OVERHEAD
cdef Py_ssize_t LONE_OVERHEAD = BATCH_OVERHEAD + MAX_RECORD_OVERHEAD
cdef int64_t GRANULE_NS = MARK_GRANULE_NS
cdef Py_ssize_t SMALL = SMALL_BATCH
cdef Py_ssize_t CHECKED_FROM = BEFORE_CHECKSUM.size
cdef Py_ssize_t COUNTED_FROM = LENGTH_COUNTS_FROM
cdef char FORMAT = MAGIC
cdef type APPENDED = AppendedRecord


cdef inline Py_ssize_t size_of(bytes field) noexcept:
    return -1 if field is None else PyBytes_GET_SIZE(field)


cdef inline const char* start_of(bytes field) noexcept:
    return NULL if field is None else PyBytes_AS_STRING(field)


cdef inline char* put_number(char* at, int64_t number, int size) noexcept:
    """Write the last ``size`` bytes of ``number``, the most significant one first."""
    cdef int place
    for place in range(size):
        at[place] = <char>(number >> (8 * (size - 1 - place)) & 0xFF)
    return at + size


cdef inline void put_start(char* at, Py_ssize_t size, int64_t checksum) noexcept:
    """Write what is before the checked part of a batch, and the checksum of that."""
    at = put_number(at, 0, 8)
    at = put_number(at, size - COUNTED_FROM, 4)
    at = put_number(at, -1, 4)
    at = put_number(at, FORMAT, 1)
    put_number(at, checksum, 4)


def batch_size_bound(key, value, headers):
    cdef Py_ssize_t size = LONE_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        size += len(header_bytes(headers))
    return size


cdef class RecordsBuilder:
    """See ``builder.RecordsBuilder``."""

    def __init__(self, bytearray buffer not None, Py_ssize_t limit):
        self.buffer = buffer
        self.limit = limit
        self.position = RECORDS_BEGIN
        self.count = 0
        self.tokens = []
        untrack(self.tokens)  # until it has a token that the collector sees
        self.later_runs = self.later_marks = None
        self.first_mark = -1
        self.owner = None
        self.base_timestamp_ms = self.latest_timestamp_ms = -1
        self.max_record_size = 0

    @property
    def records(self):
        return memoryview(self.buffer)[RECORDS_BEGIN:self.position]

    @property
    def runs(self):
        if not self.count:
            return []
        first = (0, self.base_timestamp_ms, self.first_key_size, self.first_value_size)
        return [first] if self.later_runs is None else [first, *self.later_runs]

    @property
    def marks(self):
        if self.first_mark < 0:
            return []
        first = (self.first_mark, self.first_mark_ns)
        return [first] if self.later_marks is None else [first, *self.later_marks]

    @property
    def max_timestamp_ms(self):
        if not self.count:
            raise ValueError("there are no records")
        return self.latest_timestamp_ms

    cpdef int mark(self, int64_t sent_ns) except -1:
        cdef int64_t later = sent_ns - self.last_mark_ns
        if self.first_mark < 0:
            self.first_mark = self.count
            self.first_mark_ns = self.last_mark_ns = sent_ns
        elif later < 0 or later >= GRANULE_NS:
            mark = (self.count, sent_ns)
            if self.later_marks is None:
                later_marks = []
                if self.later_marks is None:  # the collector may run a finalizer that sends
                    self.later_marks = later_marks
            self.later_marks.append(mark)
            self.last_mark_ns = sent_ns
        return 0

    def framed(
        self,
        int64_t attributes,
        int64_t producer_id,
        int64_t producer_epoch,
        int64_t base_sequence,
        compressed=None,
    ):
        cdef bytearray whole = self.buffer
        cdef Py_ssize_t end = self.position
        cdef int64_t latest = self.max_timestamp_ms
        cdef char* at
        cdef bytes batch
        if compressed is not None:
            whole = bytearray(RECORDS_BEGIN) + compressed
            end = len(whole)
        if end > len(whole):
            raise ValueError("the buffer is shorter than its records")
        at = PyByteArray_AS_STRING(whole) + CHECKED_FROM
        at = put_number(at, attributes, 2)
        at = put_number(at, self.count - 1, 4)
        at = put_number(at, self.base_timestamp_ms, 8)
        at = put_number(at, latest, 8)
        at = put_number(at, producer_id, 8)
        at = put_number(at, producer_epoch, 2)
        at = put_number(at, base_sequence, 4)
        put_number(at, self.count, 4)
        if end < SMALL:
            batch = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(whole), end)
            put_start(PyBytes_AS_STRING(batch), end, crc32c(batch[CHECKED_FROM:]))
            return batch
        view = memoryview(whole)[:end]  # no longer can anybody resize it
        put_start(PyByteArray_AS_STRING(whole), end, crc32c(view[CHECKED_FROM:]))
        return view if compressed is None else whole

    def close(self):
        self.limit = 0

    def release(self):
        self.limit = 0
        self.buffer = bytearray()
        self.tokens = []
        self.later_runs = self.later_marks = None

    def append(self, token, timestamp_ms, key, value, headers=()):
        return self.append_checked(token, timestamp_ms, key, value, headers)

    def append_described(self, int64_t now_ns, timestamp_ms, key, value, headers=()):
        if timestamp_ms is None:
            timestamp_ms = now_ns // 1_000_000
        elif type(timestamp_ms) is bool:
            raise TypeError("a timestamp is an int, not a bool")
        cdef Py_ssize_t size = self.append_checked(None, timestamp_ms, key, value, headers)
        if not size:
            return None
        made = new_tuple(APPENDED, 3)
        put(made, 0, self.count - 1)
        put(made, 1, size)
        put(made, 2, timestamp_ms)
        untrack(made)
        return made

    def copy_records(self, RecordsBuilder other not None, list tokens not None):
        cdef Py_ssize_t size = other.position - RECORDS_BEGIN
        if (
            self.count
            or len(self.buffer) < other.position
            or len(other.buffer) < other.position
            or len(tokens) != other.count
        ):
            raise ValueError("records are copied into an empty builder that has room for them")
        later_runs = None if other.later_runs is None else list(other.later_runs)
        memcpy(
            PyByteArray_AS_STRING(self.buffer) + RECORDS_BEGIN,
            PyByteArray_AS_STRING(other.buffer) + RECORDS_BEGIN,
            size,
        )
        self.position = other.position
        self.count = other.count
        self.base_timestamp_ms = other.base_timestamp_ms
        self.latest_timestamp_ms = other.latest_timestamp_ms
        self.max_record_size = other.max_record_size
        self.tokens = tokens
        self.first_key_size = other.first_key_size
        self.first_value_size = other.first_value_size
        self.later_runs = later_runs
        self.limit = 0

    def append_values(
        self, token, timestamp_ms, list values not None, Py_ssize_t start=0, headers=()
    ):
        cdef int64_t timestamp = checked_time(timestamp_ms)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t index
        if start < 0:
            start = max(0, start + len(values))
        for index in range(start, len(values)):
            value = values[index]
            if type(value) is not bytes or not self.write_fields(
                token,
                timestamp,
                NULL,
                -1,
                PyBytes_AS_STRING(value),
                PyBytes_GET_SIZE(value),
                tail,
                False,
            ):
                break
        return self.count - before

    def append_rows(
        self, token, timestamp_ms, columns, Py_ssize_t base, Py_ssize_t stop, headers=()
    ):
        cdef int64_t timestamp = checked_time(timestamp_ms)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"
        cdef HeadersColumn own_headers = columns.headers
        cdef BinaryColumn values = columns.values
        cdef BinaryColumn keys = columns.keys
        cdef IntColumn timestamps = columns.timestamps
        cdef array rows = token.rows
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t key_size = -1
        cdef const char* key = NULL
        cdef const char* value = NULL
        cdef Py_ssize_t place, row, value_size
        cdef int64_t at
        if values is None:
            raise TypeError("there is no column of values")
        if rows is not None:
            check_type_code(rows, b"q")
        for place in range(token.first, stop):
            if rows is None:
                row = place - base
            elif 0 <= place < len(rows):
                row = rows.data.as_longlongs[place] - base
            else:
                raise IndexError("there are fewer rows")
            at = timestamp
            if timestamps is not None:
                timestamps.read(row, &at)
            if keys is not None:
                key_size = keys.read(row, &key)
            value_size = values.read(row, &value)
            if own_headers is not None:
                tail = own_headers.tail(row)
            if at < 0 or tail is None or not self.write_fields(
                token, at, key, key_size, value, value_size, tail, False
            ):
                break
        return self.count - before

    cdef Py_ssize_t append_checked(self, token, timestamp_ms, key, value, headers) except -1:
        if (
            type(timestamp_ms) is not int
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            check_fields(timestamp_ms, key, value)
        cdef int64_t timestamp = timestamp_ms
        if timestamp < 0:
            check_fields(timestamp_ms, key, value)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"
        return self.write(token, timestamp, key, value, tail)

    cdef Py_ssize_t write(self, token, int64_t timestamp, key, value, bytes tail) except -1:
        cdef bytes key_bytes = None if key is None else PyBytes_FromObject(key)
        cdef bytes value_bytes = None if value is None else PyBytes_FromObject(value)
        return self.write_fields(
            token,
            timestamp,
            start_of(key_bytes),
            size_of(key_bytes),
            start_of(value_bytes),
            size_of(value_bytes),
            tail,
            True,
        )

    cdef Py_ssize_t write_fields(
        self,
        token,
        int64_t timestamp,
        const char* key,
        Py_ssize_t key_size,
        const char* value,
        Py_ssize_t value_size,
        bytes tail,
        bint described,
    ) except -1:
        """Write a record; a size of -1 stands for None, and ``tail`` is the rest of the record.

        ``described``: its timestamp and sizes are part of its result.
        """
        cdef int64_t delta = timestamp - self.base_timestamp_ms if self.count else 0
        cdef Py_ssize_t body = (
            1
            + varint_size(delta)
            + varint_size(self.count)
            + varint_size(key_size)
            + max(key_size, 0)
            + varint_size(value_size)
            + max(value_size, 0)
            + PyBytes_GET_SIZE(tail)
        )
        cdef Py_ssize_t size = varint_size(body) + body
        cdef Py_ssize_t end = self.position + size
        if end > self.limit or end > len(self.buffer):
            return 0

        cdef char* to = PyByteArray_AS_STRING(self.buffer) + self.position
        to = write_varint(to, body)
        to[0] = 0
        to = write_varint(to + 1, delta)
        to = write_varint(to, self.count)
        to = write_field(to, key, key_size)
        to = write_field(to, value, value_size)
        memcpy(to, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
        return self.keep(token, timestamp, key_size, value_size, size, described)

    cdef Py_ssize_t keep(
        self,
        token,
        int64_t timestamp,
        Py_ssize_t key_size,
        Py_ssize_t value_size,
        Py_ssize_t size,
        bint described,
    ) except -1:
        """Count a record whose bytes are written."""
        cdef Py_ssize_t index = self.count
        self.tokens.append(token)
        if is_tracked(token):
            track(self.tokens)
        self.position += size
        self.count = index + 1
        if size > self.max_record_size:
            self.max_record_size = size
        if timestamp > self.latest_timestamp_ms:
            self.latest_timestamp_ms = timestamp
        if index == 0:
            self.base_timestamp_ms = timestamp
            self.first_key_size = key_size
            self.first_value_size = value_size
        elif not described or (
            timestamp == self.last_timestamp_ms
            and key_size == self.last_key_size
            and value_size == self.last_value_size
        ):
            return size
        self.last_timestamp_ms = timestamp
        self.last_key_size = key_size
        self.last_value_size = value_size
        if index == 0:
            return size
        run = (index, timestamp, key_size, value_size)
        if self.later_runs is None:
            later = []
            if self.later_runs is None:
                self.later_runs = later
        self.later_runs.append(run)
        # Making these may have run the collector, and a finalizer that sends (in Python 3.11).
        if len(self.later_runs) > 1 and self.later_runs[len(self.later_runs) - 2][0] > index:
            self.later_runs.sort()
        return size


cdef int64_t checked_time(timestamp_ms) except -1:
    if type(timestamp_ms) is not int:
        check_fields(timestamp_ms, None, None)
    cdef int64_t timestamp = timestamp_ms
    if timestamp < 0:
        check_fields(timestamp_ms, None, None)
    return timestamp


cdef inline void put(made, Py_ssize_t place, field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(made, place, field)
